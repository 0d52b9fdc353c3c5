package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/simtest"
)

// watcher calls a function when a text is written.
type watcher struct {
	io.Writer

	when string
	do   func()
}

func (w *watcher) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.when) {
		w.do()
	}
	return w.Writer.Write(p)
}

// consoleOf is a console with credentials.
func consoleOf(out, errs io.Writer) console {
	return console{in: strings.NewReader(""), out: out, err: errs, getenv: func(name string) string { return credentials[name] }}
}

// reportOf is the file that --report names.
func reportOf(flags []string) string { return flags[slices.Index(flags, "--report")+1] }

// TestInterrupt: an interrupted qualification restores the server, and gives no verdict.
func TestInterrupt(t *testing.T) {
	for when, delay := range map[string]time.Duration{
		"Server: ": 0, // nothing was tried yet
		"passed       boots from the network once, and": 0,
		"...          power off, also when it is off":   200 * time.Millisecond, // and the command is still to take effect
	} {
		t.Run(when, func(t *testing.T) {
			g := NewWithT(t)
			s := simtest.Start(t, "--redfish", "1", "--on", "--power-delay", delay.String())
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var out, errs bytes.Buffer
			flags := quickly(t)
			interrupt := func() { time.AfterFunc(delay/4, cancel) }
			if delay == 0 {
				interrupt = cancel
			}
			address := s.Servers()[0].Address
			code := run(ctx, append([]string{"qualify", address}, flags...), consoleOf(&watcher{&out, when, interrupt}, &errs))
			g.Expect(code).To(Equal(exitFailed))
			g.Expect(errs.String()).To(Equal("bmcctl: interrupted: there is no verdict; the server was restored\n"))
			g.Consistently(func() string { return s.Servers()[0].Power }, 2*delay+time.Millisecond).Should(Equal("On"))
			g.Expect(s.Servers()[0].BootOverride.Target).To(Equal("None"))
			files, err := os.ReadDir(filepath.Dir(reportOf(flags)))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(files).To(BeEmpty(), "no half report stays")
		})
	}
}

// TestInterruptNotRestored: a failed restore is reported.
func TestInterruptNotRestored(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--on")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	stop := func() {
		s.Must(http.MethodPut, "/servers/*/faults/Down")
		cancel()
	}
	flags := quickly(t, "--restore", "300ms")
	code := run(ctx, append([]string{"qualify", s.Servers()[0].Address}, flags...), consoleOf(&watcher{&out, "passed       power off, also", stop}, &errs))
	g.Expect(code).To(Equal(exitFailed))
	g.Expect(errs.String()).To(MatchRegexp(
		"^bmcctl: interrupted, and the server could not be restored \\(power On, boot mode UEFI\\): tried for 300ms: .*: check the server\n$"))
	g.Expect(out.String()).To(ContainSubstring("...          restores the server, retrying: "))
}

// TestInterruptRestoredLate: the restore is repeated until an unreachable BMC answers again.
func TestInterruptRestoredLate(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--on")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs bytes.Buffer
	back := &watcher{io.Discard, "server, retrying: ", func() { s.Must(http.MethodDelete, "/servers/*/faults/Down") }}
	stop := &watcher{back, "passed       power off, also", func() {
		s.Must(http.MethodPut, "/servers/*/faults/Down")
		cancel()
	}}
	code := run(ctx, append([]string{"qualify", s.Servers()[0].Address}, quickly(t)...), consoleOf(stop, &errs))
	g.Expect(code).To(Equal(exitFailed))
	g.Expect(errs.String()).To(Equal("bmcctl: interrupted: there is no verdict; the server was restored\n"))
	g.Expect(s.Servers()[0].Power).To(Equal("On"))
}

// TestInterruptBefore: before the first check, there is nothing to restore.
func TestInterruptBefore(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--fault", "Hang")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, context.Canceled)
	defer cancel()
	var out, errs bytes.Buffer
	code := run(ctx, append([]string{"qualify", s.Servers()[0].Address}, quickly(t)...), consoleOf(&out, &errs))
	g.Expect(code).To(Equal(exitFailed))
	g.Expect(errs.String()).To(Equal("bmcctl: interrupted: there is no verdict; no check had started\n"))
}

// TestQualifyStrict: a working BMC that is strict about power commands is fit, and each of its capabilities works.
func TestQualifyStrict(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1", "--power-delay", "50ms", "--fault", "BusyInTransition,DropsInTransition,TransitionStates")
	s.Must(http.MethodPut, "/servers/sim-redfish-1/faults/StalePower") // over IPMI nothing else shows a restart
	for _, server := range s.Servers() {
		flags := quickly(t)
		got := bmcctl(t, credentials, append([]string{"qualify", server.Address}, flags...)...)
		g.Expect(got.code).To(Equal(exitOK), got.out+got.err)
		g.Expect(got.out).To(MatchRegexp(`(?m)^Verdict: fit for network boot with this provider$`), "without a \"do not rely on\"")
		for _, capability := range []string{"PowerOn", "ForceOff", "Cycle", "Reset", "NMI"} {
			g.Expect(got.out).To(MatchRegexp(`(?m)^`+capability+` +(yes|no) +works$`), server.Protocol)
		}
	}
}

// brokenPipe is a standard output that is closed.
type brokenPipe struct{ lines int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.lines--; b.lines < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

// TestReportIsKept: the report of a dozen power cycles is kept after a late error.
func TestReportIsKept(t *testing.T) {
	g := NewWithT(t)
	address := simtest.Start(t, "--redfish", "1").Servers()[0].Address
	flags := quickly(t)
	var out, errs bytes.Buffer
	g.Expect(run(t.Context(), append([]string{"qualify", address}, flags...), consoleOf(&brokenPipe{10}, &errs))).To(Equal(exitFailed))
	g.Expect(errs.String()).To(ContainSubstring("broken pipe"))
	_, content := readReport(t, flags)
	g.Expect(content.Fit).To(BeTrue())

	flags = quickly(t)
	occupy := &watcher{&out, "Server: ", func() { g.Expect(os.MkdirAll(filepath.Join(reportOf(flags), "full"), 0o700)).To(Succeed()) }}
	errs.Reset()
	g.Expect(run(t.Context(), append([]string{"qualify", address}, flags...), consoleOf(occupy, &errs))).To(Equal(exitFailed))
	g.Expect(out.String()).To(ContainSubstring("Verdict: fit"))
	g.Expect(errs.String()).To(ContainSubstring("bmcctl: the report is in "))
	name, _, _ := strings.Cut(strings.TrimPrefix(errs.String(), "bmcctl: the report is in "), ":")
	_, content = readReport(t, []string{"--report", name})
	g.Expect(content.Fit).To(BeTrue())
}

// webhook is a BMC behind a webhook, without a readable boot override and without an inventory.
type webhook struct {
	mu sync.Mutex
	on bool
}

func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ID     int64  `json:"id"`
		Host   string `json:"host"`
		Method string `json:"method"`
		Params struct {
			State string `json:"state"`
		} `json:"params"`
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	h.mu.Lock()
	defer h.mu.Unlock()
	var result any = true
	switch request.Method {
	case "setPowerState":
		h.on = request.Params.State != "off" && request.Params.State != "soft"
	case "getPowerState":
		result = map[bool]string{true: "on", false: "off"}[h.on]
	}
	content, _ := json.Marshal(map[string]any{"id": request.ID, "host": request.Host, "result": result})
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}

// TestQualifyWebhook: no user name is needed, overrides are unverified, and the BMC is fit without an inventory.
func TestQualifyWebhook(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(&webhook{})
	defer server.Close()
	address := "rpc+http://" + strings.TrimPrefix(server.URL, "http://") + "/?host=one"
	flags := quickly(t, "--skip-wrong-password")
	got := bmcctl(t, map[string]string{"BMC_PASSWORD": "key"}, append([]string{"qualify", address}, flags...)...)
	g.Expect(got.out).To(MatchRegexp(`(?m)^BootPXE +either +works, according to the BMC: it cannot be read back$`))
	g.Expect(got.out).To(MatchRegexp(`(?m)^Inventory +no +not offered$`))
	g.Expect(got.out).To(MatchRegexp(`(?m)^Verdict: fit for network boot with this provider$`))
	g.Expect(got.code).To(Equal(exitOK), got.err)
	text, _ := readReport(t, flags)
	g.Expect(text).To(ContainSubstring(`"hearsay": "it cannot be read back"`))
}
