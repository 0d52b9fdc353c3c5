package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// report is what can be attached to a bug. What is of type any went through a masker.
type report struct {
	Fit          bool               `json:"fit"`
	Verdict      any                `json:"verdict"`
	Date         time.Time          `json:"date"`
	Bmcctl       string             `json:"bmcctl"`
	Options      map[string]string  `json:"options"`
	Description  any                `json:"description"`
	Capabilities any                `json:"capabilities"`
	Latency      map[string]figures `json:"latency"`
	Checks       any                `json:"checks"`
	Inventory    any                `json:"inventory"`
}

// checkReport is how a check ended, as the report has it.
type checkReport struct {
	Check       string         `json:"check"`
	Capability  bmc.Capability `json:"capability,omitempty"`
	Verdict     string         `json:"verdict"`
	Error       string         `json:"error,omitempty"`
	Notes       []string       `json:"notes,omitempty"`
	TookSeconds float64        `json:"tookSeconds"`
}

func (r *result) report(m *masker) report {
	checks := make([]checkReport, 0, len(r.checks))
	for _, c := range r.checks {
		checks = append(checks, checkReport{
			Check: c.Check, Capability: c.Capability, Verdict: string(c.Verdict), Error: c.Error, Notes: c.Notes, TookSeconds: c.Took.Seconds(),
		})
	}
	out := report{
		Fit: r.fit, Verdict: plain(r.verdict, m.mask), Date: r.date, Bmcctl: version(),
		Options: map[string]string{
			"scheme": m.scheme, "settle": r.subject.settle.String(), "poll": r.subject.poll.String(), "boots": strconv.FormatBool(r.subject.boots),
			"image": strconv.FormatBool(r.subject.image != ""), "must": strings.Join(r.subject.must, ","),
			"skipWrongPassword": strconv.FormatBool(r.subject.skipWrongPassword),
		},
		Description: plain(r.description, m.mask), Capabilities: plain(r.judgements, m.mask), Checks: plain(checks, m.mask),
		Inventory: plain(r.inventory, m.mask), Latency: map[string]figures{},
	}
	for _, l := range r.latency.all() {
		out.Latency[l.name] = l.figures()
	}
	return out
}

// version says which bmcctl this is.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision := ""
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return strings.TrimSpace(info.Main.Version + " " + revision)
}

// masked stands for what is left out.
const masked = "(masked)"

// masker takes out of texts what must not be told to others.
type masker struct {
	scheme      string
	withSerials bool
	secrets     *strings.Replacer
}

var (
	uuids = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\b`)
	macs  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5}\b`)
	// serials are what the notes of the suite quote.
	serials = regexp.MustCompile(`(?i)\bserial "[^"]*"`)
	// peers are addresses with a port, as errors of the network name them.
	peers = regexp.MustCompile(`(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-fA-F:.%\w]*\]):\d+`)
)

// identities are the fields that tell one server from another of its model.
var identities = []string{"serialNumber", "serial", "systemUUID", "macAddress", "wwn"}

// newMasker returns a masker of everything that is known of this server and the way to it.
func newMasker(t *target, q *qualification, i *bmc.Inventory) *masker {
	words := []string{t.Password, t.URL.Host, t.URL.Hostname(), q.image}
	if len(t.Username) >= 4 {
		words = append(words, t.Username) // a shorter one stands in other words too
	}
	if i != nil && !q.withSerials {
		words = append(words, identitiesOf(i)...)
	}
	// The longest first: one may be part of another.
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, w := range words {
		if len(w) >= 2 {
			pairs = append(pairs, w, masked)
		}
	}
	return &masker{scheme: t.URL.Scheme, withSerials: q.withSerials, secrets: strings.NewReplacer(pairs...)}
}

// identitiesOf lists the serial numbers and their like that are long enough not to stand in other words by chance.
func identitiesOf(i *bmc.Inventory) []string {
	var all []string
	plain(i, func(field, text string) string {
		if slices.Contains(identities, field) && len(text) >= 5 {
			all = append(all, text, strings.ToUpper(text))
		}
		return text
	})
	return all
}

// mask returns the text of a field without what must not be told.
func (m *masker) mask(field, text string) string {
	if field == "check" || field == "capability" || field == "verdict" || text == "" {
		return text // words of our own
	}
	if !m.withSerials {
		if slices.Contains(identities, field) {
			return masked
		}
		text = serials.ReplaceAllString(text, `serial "`+masked+`"`)
	}
	text = peers.ReplaceAllString(m.secrets.Replace(text), masked)
	if !m.withSerials {
		text = macs.ReplaceAllString(uuids.ReplaceAllString(text, masked), masked)
	}
	return text
}

// reportFile is a report that is being written. It is made before anything is done to the server.
type reportFile struct{ file *os.File }

func newReportFile(name string) (*reportFile, error) {
	folder := filepath.Dir(name) // "." for an empty name
	file, err := os.CreateTemp(folder, ".bmc-report-*")
	if err != nil {
		return nil, misused("no report can be written to %s: name a file elsewhere with --report", folder)
	}
	return &reportFile{file}, nil
}

// discard removes what was not kept.
func (f *reportFile) discard() {
	_ = f.file.Close()
	_ = os.Remove(f.file.Name()) // it was renamed, if it was kept
}

// keep writes the report and gives the file its name, which it returns.
func (f *reportFile) keep(name string, r *result, m *masker) (string, error) {
	content, err := json.MarshalIndent(r.report(m), "", "  ")
	if err != nil {
		return "", err
	}
	if name == "" {
		name = fmt.Sprintf("bmc-report-%s-%s-%s.json", slug(r.description.Vendor), slug(r.description.Model), r.date.Format("20060102-150405"))
	}
	if _, err := f.file.Write(append(content, '\n')); err != nil {
		return "", err
	}
	return name, os.Rename(f.file.Name(), name)
}

// slug makes a part of a file's name.
func slug(text string) string {
	text = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(text), "-"), "-")
	return cmp.Or(text[:min(len(text), 40)], "unknown")
}
