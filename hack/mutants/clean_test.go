package mutants_test

const (
	chooseFile   = "method.go"
	obstacleFile = "obstacle.go"
	pickFile     = "select.go"
	unitFile     = "unit.go"
	judgeFile    = "verify.go"
	zerosFile    = "overwrite.go"
)

// methodMutants are those of cmd/agent/internal/method: a class that is too high, a method that is forbidden.
var methodMutants = []mutant{
	{"any policy is met", chooseFile, "rank(policy) >= 0 && rank(class) >= rank(policy)", "rank(policy) >= 0 && rank(class) > 0"},
	{"a crypto erase needs no encryption", chooseFile, ", r.Encrypts && !f.Encrypts:", ":"},
	{"what a drive does not offer is chosen", chooseFile, "return slices.Contains(f.Commands, r.Command)", "return r.Command != \"\""},
	{"the media do not count", chooseFile, "r.Media == hardDisk && !f.Rotational", "false"},
	{"a kept part does not forbid to sanitize", obstacleFile, "return slices.Contains(sanitizes, r.Command) || format && f.FormatsAll", "return format && f.FormatsAll"},
	{"a kept part does not forbid a format of all", obstacleFile, "|| format && f.FormatsAll", "|| format && false"},
	{"several controllers forbid nothing", obstacleFile, "return f.Shared }", "return f.Shared && f.Locked }"},
	{"hidden sectors forbid nothing", obstacleFile, "return policy == agent.CleanPurge },\n		detail", "return policy == agent.CleanMetadata },\n		detail"},
	{"the failure mode forbids nothing", obstacleFile, "applies: func(f drive.Facts) bool { return f.FailureMode }", "applies: func(f drive.Facts) bool { return false && f.FailureMode }"},
}

// sanitizeMutants are those of cmd/agent/internal/sanitize: a disk that must not be touched, and one that is called erased and is not.
var sanitizeMutants = []mutant{
	{"what is kept is erased", pickFile, "	case p.Outside:\n		return leftOut(r, d, p.Why)\n", ""},
	{"a disk of a storage system is erased", pickFile, "d.Remote() && !has", "d.Remote() && false"},
	{"an unexpected disk is erased", pickFile, "	case Unexpected(plan, d):\n		return failed(r.ErasedDisk, \"\", UnexpectedMessage)\n", ""},
	{"a missing disk is no failure", pickFile, "	s.results = append(s.results, Missing(plan, all)...)\n", ""},
	{"a held disk is erased", pickFile, "len(d.Holders) > 0", "len(d.Holders) > 99"},
	{"a disk that might be kept is erased", pickFile, "if why := disk.Unproven(d, all, plan.Keep); why != \"\" {", "if why := disk.Unproven(d, all, nil); why != \"\" {"},
	{"a namespace that is left out does not count", pickFile, "		u.spared = append(u.spared, d)\n", ""},
	{"a namespace that failed is erased with the others", unitFile, "				u.spared = append(u.spared, t.disk)\n", ""},
	{"a silent NVMe drive is overwritten", unitFile, "		if u.drive.Kind == drive.NVMe {\n", "		if false {\n"},
	{"an unreadable disk is erased", unitFile, "if t.disk.Unreadable != \"\" {", "if t.disk.Unreadable == \"-\" {"},
	{"a failed verification is an erasure", unitFile, "if err != nil || !v.Passed {", "if false {"},
	{"a drive that was given up is erased late", unitFile, "	u.cancel()\n", ""},
	{"an unlocked disk is not judged again", unitFile, "switch r := Decide(again, u.o.all, u.o.plan); {", "switch r := (Result{}); {"},
	{"a disk without samples is erased", judgeFile, "		t.fail(fmt.Errorf(\"it cannot be opened before the erase: %w\", err))\n", ""},
	{"a drive that hangs is awaited", "sanitize.go", "late > 0 {", "late > 1<<60 {"},
	{"the bootstrap data is not overwritten first", unitFile, "		u.removeBootstrapData(ctx)\n", ""},
	{"samples that have not changed prove an erase", judgeFile, "case known && s.digest == old.digest:", "case known && s.digest == old.digest && mayNotRead && v.Samples < 0:"},
	{"samples that cannot be read are no error", judgeFile, "if !mayNotRead {", "if false {"},
	{"blank samples prove an erase", judgeFile, "if v.Changed > 0 || expect == method.Blank && v.Blank == len(after) {", "if len(after) > 0 {"},
	{"what was overwritten is not read back", zerosFile, "if at := slices.IndexFunc(buffer[:length], func(b byte) bool { return b != 0 }); at >= 0 {", "if at := slices.IndexFunc(buffer[:length], func(b byte) bool { return b != 0 }); at > int(part) {"},
	{"the disk zeros by itself", zerosFile, "if _, err := device.WriteAt(zeros[:length], offset); err != nil {", "if err := device.ZeroRange(offset, length); err != nil {"},
}
