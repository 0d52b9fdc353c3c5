package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
)

const aboutQualify = `bmcctl qualify URL tests all capabilities that the BMC reports, and whether the BMC is fit for this provider. The server
is powered off and on about a dozen times: use a server without a workload.

  bmcctl qualify redfish://192.0.2.10 --username admin --ca bmc-ca.crt --yes
  bmcctl qualify redfish://192.0.2.10 --username admin --yes --boot-media boot.iso
  bmcctl qualify ipmi://192.0.2.10 --username admin --settle 5m --yes --report report.json
`

// qualification are the flags of qualify.
type qualification struct {
	connection

	yes, boots, skipWrongPassword, withSerials, verbose bool
	settle, poll, restore                               time.Duration
	image, report                                       string
	media, mediaListen                                  string
	mediaTimeout                                        time.Duration
	must                                                []string
}

func (q *qualification) set() *pflag.FlagSet {
	set := pflag.NewFlagSet("qualify", pflag.ContinueOnError)
	set.BoolVar(&q.yes, "yes", false, "Run the tests. Without it, bmcctl only prints what it would do.")
	q.flags(set)
	set.DurationVar(&q.settle, "settle", 2*time.Minute, "Maximum time until a power command takes effect. After it the check fails.")
	set.DurationVar(&q.poll, "poll", 2*time.Second, "Interval between reads while bmcctl waits for a power state.")
	set.DurationVar(&q.restore, "restore", 0, "Maximum time to restore the power state and the boot mode. Defaults to three times --settle plus one minute.")
	set.StringVar(&q.image, "image", "", "`URL` of an ISO image that the BMC can reach. It is inserted into the virtual drive. Without it, the drives are only listed.")
	set.StringVar(&q.media, "boot-media", "", "Boot the server from this ISO `image`. bmcctl serves a file to the BMC, and observes that it is read "+
		"after the power-on. Of the image at a URL it only observes that the boot override was used.")
	set.StringVar(&q.mediaListen, "boot-media-listen", "", "The `address` that --boot-media serves a file at, like 192.0.2.5:8080. "+
		"Defaults to a free port of this machine's address in the direction of the BMC.")
	set.DurationVar(&q.mediaTimeout, "boot-media-timeout", 10*time.Minute, "Maximum time until the server reads the image of --boot-media after it is switched on.")
	set.BoolVar(&q.boots, "boots", false, "Also test that an override for one boot ends with that boot. The server has to start booting within --settle.")
	set.BoolVar(&q.skipWrongPassword, "skip-wrong-password", false, "Skip the login with a wrong password. Use it for BMCs that lock accounts after one refused login.")
	set.StringSliceVar(&q.must, "must", nil, "Comma-separated `capabilities` that the BMC needs to be fit, in addition to network boot: "+list(capabilities)+".")
	set.StringVar(&q.report, "report", "", "The `file` for the report. Defaults to bmc-report-VENDOR-MODEL-DATE.json in the working directory.")
	set.BoolVar(&q.withSerials, "with-serials", false, "Do not mask serial numbers, UUIDs and MAC addresses in the report.")
	set.BoolVarP(&q.verbose, "verbose", "v", false, "Print the notes of the checks.")
	return set
}

func (q *qualification) check() error {
	for _, name := range q.must {
		if !slices.Contains(capabilities, bmc.Capability(name)) {
			return usageErrorf("--must: the capability %q is unknown: use some of %s", name, list(capabilities))
		}
	}
	if q.restore < 0 {
		return usageErrorf("--restore cannot be negative: omit it for three times --settle and a minute")
	}
	if q.settle <= 0 || q.poll <= 0 {
		return usageErrorf("--settle and --poll must be positive: omit them for 2m and 2s")
	}
	switch {
	case q.mediaTimeout <= 0:
		return usageErrorf("--boot-media-timeout must be positive: omit it for 10m")
	case q.mediaListen != "" && (q.media == "" || isURL(q.media)):
		return usageErrorf("--boot-media-listen is for --boot-media with a file")
	case isUnspecified(q.mediaListen):
		return usageErrorf("--boot-media-listen: %s names no address: use one of this machine that the BMC reaches, like 192.0.2.5:8080", q.mediaListen)
	case isURL(q.media):
		if err := checkImageURL("--boot-media", q.media); err != nil {
			return err
		}
	}
	if q.image != "" {
		return checkImageURL("--image", q.image)
	}
	return nil
}

func qualify(ctx context.Context, args []string, c console) error {
	q := &qualification{}
	address, err := parse(q.set(), args, c, aboutQualify)
	if err != nil {
		return err
	}
	if err := q.check(); err != nil {
		return err
	}
	if _, err := parseAddress(address, drivers.All(anywhere)); err != nil {
		return err
	}
	writef(c.out, "%s", q.plan(address))
	if !q.yes {
		return usageErrorf("nothing was done: add --yes to run the tests")
	}
	t, err := q.target(ctx, address, c)
	if err != nil {
		return err
	}
	file, err := newReportFile(q.report)
	if err != nil {
		return err
	}
	defer file.discard()
	r, err := q.run(ctx, t, c.out)
	if err != nil {
		return err
	}
	name, keepErr := file.keep(q.report, r, newMasker(t, q, r.mediaURL, r.Inventory)) // before it is printed, which may fail
	writef(c.out, "\n")
	if err := errors.Join(r.print(c.out), keepErr); err != nil {
		return err
	}
	writef(c.out, "Report: %s\n", name)
	if !r.fit {
		return errReported
	}
	return nil
}

// plan describes what qualify does.
func (q *qualification) plan(address string) string {
	lines := []string{
		"switches it off and on about a dozen times, mostly without a graceful shutdown, and sends it an NMI",
		"sets and removes boot overrides (network, disk, optical drive): the server may boot from the network",
	}
	if q.media != "" {
		lines = append(lines, "boots it from the image of --boot-media")
	}
	if q.image != "" || q.media != "" {
		lines = append(lines, "inserts the image into its virtual drive, and empties its virtual drives")
	}
	logins := "logs in to its BMC about 50 times"
	if !q.skipWrongPassword {
		logins += ", and once with a wrong password (--skip-wrong-password skips that)"
	}
	lines = append(lines, logins, "restores its power state and boot mode, without a boot override")
	return fmt.Sprintf("bmcctl qualify tests the server of %s. Programs that run on it are lost. It\n  - %s\n", address, strings.Join(lines, "\n  - "))
}

// run runs the conformance suite, and judges its results.
func (q *qualification) run(ctx context.Context, t *target, out io.Writer) (*result, error) {
	r := &result{date: time.Now().UTC(), subject: *q}
	p := &progress{out: out, verbose: q.verbose}
	if file, ok := out.(*os.File); ok {
		p.rewrite = term.IsTerminal(int(file.Fd()))
	}
	media, stop, err := q.bootMedia(ctx, t)
	if err != nil {
		return nil, err
	}
	if media != nil {
		r.mediaURL = media.URL
	}
	r.Outcome, err = bmctest.Conform(ctx, bmctest.Subject{
		Open: t.open, Endpoint: t.Endpoint, Timeout: q.timeout, Settle: q.settle, Poll: q.poll, Restore: q.restore, Image: q.image, BootMedia: media, Boots: q.boots,
		SkipWrongPassword: q.skipWrongPassword,
		Found: func(d bmc.Description) {
			writef(out, "\nServer: %s, BMC firmware %s, %s\n\n", clean(d.Vendor+" "+d.Model), clean(d.FirmwareVersion), clean(d.Protocol))
		},
	}, p.report)
	if stopErr := stop(); stopErr != nil {
		writef(out, "The server of the image ended with an error: %s\n", clean(stopErr.Error()))
	}
	switch {
	case ctx.Err() != nil && r.Restored:
		return nil, errors.New("interrupted: there is no verdict; the server was restored")
	case ctx.Err() != nil && len(r.Results) == 0:
		return nil, errors.New("interrupted: there is no verdict; no check had started")
	case ctx.Err() != nil:
		return nil, fmt.Errorf("interrupted, and %w: check the server", err)
	case err != nil && len(r.Results) == 0:
		return nil, t.explain(err)
	}
	r.restoreError = err
	r.judge()
	return r, nil
}

// progress shows the checks while they run.
type progress struct {
	out     io.Writer
	rewrite bool // overwrite the last line, on a terminal
	verbose bool
}

func (p *progress) report(r bmctest.Result) {
	before, after := "", "\n"
	if p.rewrite {
		before, after = "\r\x1b[K", ""
	}
	if r.Verdict == "" && r.Error != "" {
		writef(p.out, "%s%-12s %s, retrying: %s\n", before, "...", r.Check, clean(r.Error))
	}
	if r.Verdict == "" {
		writef(p.out, "%-12s %s%s", "...", r.Check, after)
		return
	}
	writef(p.out, "%s%-12s %s (%s)\n", before, r.Verdict, r.Check, seconds(r.Took.Seconds()))
	if r.Error != "" {
		writef(p.out, "%-12s %s\n", "", clean(r.Error))
	}
	for _, note := range r.Notes {
		if p.verbose {
			writef(p.out, "%-12s %s\n", "", clean(note))
		}
	}
}
