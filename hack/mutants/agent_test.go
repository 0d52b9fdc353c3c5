package mutants_test

const (
	commitFile  = "commit.go"
	prepareFile = "prepare.go"
	imageFile   = "image.go"
	imageFetch  = "fetch.go"
	verifyFile  = "verify.go"
	lookFile    = "look.go"
	dataFile    = "data.go"
)

// imageMutants are those of cmd/agent/internal/image. The first are wrong orders of writing, which only a power failure shows.
var imageMutants = []mutant{
	{
		"LBA 0 is written with the first MiB", commitFile, "[][]part{first, {{sector, head[sector : 2*sector]}}, {{0, head[:sector]}}}",
		"[][]part{append(first, part{0, head[:2*sector]})}",
	},
	{
		"LBA 0 is written with LBA 1", commitFile, "{{sector, head[sector : 2*sector]}}, {{0, head[:sector]}}}",
		"{{sector, head[sector : 2*sector]}, {0, head[:sector]}}}",
	},
	{"LBA 1 is written with the first MiB", commitFile, "first, {{sector, head[sector : 2*sector]}}, {{0", "append(first, part{sector, head[sector : 2*sector]}), {{0"},
	{"LBA 0 is written first", commitFile, "{first, {{sector, head[sector : 2*sector]}}, {{0, head[:sector]}}}", "{{{0, head[:sector]}}, {{sector, head[sector : 2*sector]}}, first}"},
	{"the backup GPT is written first", commitFile, "first := []part{{2 * sector, head[2*sector:]}}", "first := []part{{2 * sector, head[2*sector:]}, {w.tailAt, w.layout.Backup}}"},
	{"the commit is not flushed", commitFile, "	if err := w.Device.Flush(); err != nil {\n		return w.diskFailed(\"flush\", parts[0].offset, err)\n	}\n", ""},
	{"a commit is not read back", commitFile, "w.expect(p.content, p.offset)", "error(nil)"},
	{"a failed commit stays", commitFile, "known := w.Device.ZeroRange(0, int64(sector)) == nil && ", "known := "},
	{"the image is not flushed", verifyFile, "	if err := w.Device.Flush(); err != nil {\n		return w.diskFailed(\"flush\", 0, err)\n	}\n	w.meter", "	w.meter"},
	{"the wipe is not flushed", prepareFile, "	if err := w.Device.Flush(); err != nil {\n		return w.diskFailed(\"flush\", 0, err)\n	}\n", ""},
	{"the wipe is not read back", prepareFile, "	for _, s := range w.wiped {\n		if err := w.expectZeros", "	for _, s := range w.wiped[:0] {\n		if err := w.expectZeros"},
	{"the image's own backup GPT is written", imageFetch, "h.take(i.offset, part)", "_ = h"},
	{"the first MiB is written with the image", imageFetch, "if c.Index == 0 {", "if c.Index < 0 {"},
	{"holes keep what was there", imageFetch, "return w.zero(ctx, span{i.offset, i.length})", "return nil"},
	{"the permission is not asked for", imageFile, "w.verify, w.permission}", "w.verify}"},
	{"the image is not read back", verifyFile, "if err := w.verifyImage(ctx); err != nil {", "if err := error(nil); err != nil {"},
	{"the bootstrap data is not read back", verifyFile, "if w.hasData() {", "if false {"},
	{"any chunk is written", imageFetch, "got != c.Digest", "got != got"},
	{"a failure leaves the bootstrap data", prepareFile, "if w.hasData() {", "if false {"},
	{"a failed commit leaves the bootstrap data", commitFile, "err), w.empty())", "err), error(nil))"},
	{"an emptied disk is not read back", prepareFile, "err = w.expectZeros(context.Background(), s)", "err = error(nil)"},
	{"an attempt is not known", dataFile, "	if at < 0 {", "	if true {"},
	{"a look takes any disk", lookFile, "	return Unknown, nil\n}\n", "	return Complete, nil\n}\n"},
	{"a look takes an empty disk", lookFile, "		return Empty, nil", "		return Complete, nil"},
	{"the label of another disk means nothing", prepareFile, "strings.EqualFold(s.Label, label)", "false"},
}

// imageRuns try the proof first: it has to notice a wrong order.
var imageRuns = []testRun{
	{"proof", []string{"-test.run=^TestCut(Everywhere|Seeded)$"}},
	{"faults", []string{"-test.run=^TestFaults$"}},
	{"others", []string{"-test.skip=^Test(Cut.*|Faults)$"}},
}
