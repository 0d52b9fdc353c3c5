package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
)

// report is the file for bug reports. Fields of type any have been masked.
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

// checkReport is the result of a check in the report.
type checkReport struct {
	Check       string         `json:"check"`
	Capability  bmc.Capability `json:"capability,omitempty"`
	Verdict     string         `json:"verdict"`
	Error       string         `json:"error,omitempty"`
	Hearsay     string         `json:"hearsay,omitempty"`
	Notes       []string       `json:"notes,omitempty"`
	TookSeconds float64        `json:"tookSeconds"`
}

func (r *result) report(m *masker) report {
	checks := make([]checkReport, 0, len(r.Results))
	for _, c := range r.Results {
		checks = append(checks, checkReport{
			Check: c.Check, Capability: c.Capability, Verdict: string(c.Verdict), Error: c.Error, Hearsay: c.Unverified, Notes: c.Notes,
			TookSeconds: c.Took.Seconds(),
		})
	}
	out := report{
		Fit: r.fit, Verdict: plain(r.verdict, m.mask), Date: r.date, Bmcctl: version.String(),
		Options: map[string]string{
			"scheme": m.scheme, "settle": r.subject.settle.String(), "poll": r.subject.poll.String(), "boots": strconv.FormatBool(r.subject.boots),
			"image": strconv.FormatBool(r.subject.image != ""), "bootMedia": strconv.FormatBool(r.subject.media != ""), "must": strings.Join(r.subject.must, ","),
			"skipWrongPassword": strconv.FormatBool(r.subject.skipWrongPassword),
		},
		Description: plain(r.Description, m.mask), Capabilities: plain(r.judgements, m.mask), Checks: plain(checks, m.mask),
		Inventory: plain(r.Inventory, m.mask), Latency: map[string]figures{},
	}
	for _, l := range latencies(r.Latency) {
		out.Latency[l.name] = l.figures
	}
	return out
}

// reportFile is the file of the report. It is created before the tests start.
type reportFile struct {
	file *os.File
	kept bool
}

func newReportFile(name string) (*reportFile, error) {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, usageErrorf("--report: %s is not a regular file: use a file name, such as %s", name, filepath.Join(filepath.Dir(name), "report.json"))
	}
	folder := filepath.Dir(name) // "." for an empty name
	file, err := os.CreateTemp(folder, ".bmc-report-*")
	if err != nil {
		return nil, usageErrorf("no report can be written to %s: use --report with a file in another folder", folder)
	}
	return &reportFile{file: file}, nil
}

// discard removes the file unless it was kept.
func (f *reportFile) discard() {
	_ = f.file.Close()
	if !f.kept {
		_ = os.Remove(f.file.Name())
	}
}

// keep writes the report, renames the file, and returns its name.
func (f *reportFile) keep(name string, r *result, m *masker) (string, error) {
	content, err := json.MarshalIndent(r.report(m), "", "  ")
	if err != nil {
		return "", err
	}
	if name == "" {
		name = fmt.Sprintf("bmc-report-%s-%s-%s.json", slug(r.Description.Vendor), slug(r.Description.Model), r.date.Format("20060102-150405"))
	}
	if _, err := f.file.Write(append(content, '\n')); err != nil {
		return "", err
	}
	f.kept = true
	if err := os.Rename(f.file.Name(), name); err != nil {
		return "", fmt.Errorf("the report is in %s: it could not be renamed: %w", f.file.Name(), err)
	}
	return name, nil
}

// slug makes a part of a file's name.
func slug(text string) string {
	text = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(text), "-"), "-")
	return cmp.Or(text[:min(len(text), 40)], "unknown")
}
