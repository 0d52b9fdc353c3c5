package bmctest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

const right = "secret-1"

// emulated is a server with a Redfish BMC, and a subject for the suite.
func emulated(t *testing.T, opts bmctest.Options, query string) (*bmctest.Machine, bmctest.Subject) {
	t.Helper()
	opts.Username, opts.Password, opts.UUID = "admin", right, "8b7a1c2e-0d3f-4a5b-9c6d-7e8f90a1b2c3"
	machine := bmctest.NewMachine(opts)
	server := httptest.NewServer(machine)
	driver := &redfish.Driver{Permit: bmctest.Loopback}
	t.Cleanup(func() { driver.CloseIdleConnections(); server.Close(); machine.Close() })
	u, err := url.Parse(server.URL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	u.Scheme, u.RawQuery = redfish.SchemeInsecure, query
	return machine, bmctest.Subject{
		Open: driver.Open, Endpoint: bmc.Endpoint{URL: u, Username: "admin", Password: right}, Settle: 2 * time.Second, Poll: time.Millisecond,
	}
}

// interrupt runs the suite, and interrupts it when a condition is true.
func interrupt(t *testing.T, s bmctest.Subject, when func() bool) (bmctest.Outcome, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer cancel()
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for !when() {
			select {
			case <-look.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return bmctest.Conform(ctx, s, func(bmctest.Result) {})
}

// TestInterruptedPower: a command that has not taken effect when the suite is interrupted does not take effect after it.
func TestInterruptedPower(t *testing.T) {
	for on, command := range map[bool]string{true: "ForceOff", false: "On"} {
		t.Run(fmt.Sprintf("found on: %t", on), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			machine, subject := emulated(t, bmctest.Options{On: on, PowerDelay: 200 * time.Millisecond}, "")
			outcome, err := interrupt(t, subject, func() bool { return slices.Contains(machine.CommandNames(), command) })
			g.Expect(err).To(MatchError(context.Canceled))
			g.Expect(outcome.Restored).To(BeTrue())
			g.Consistently(machine.On, 400*time.Millisecond, time.Millisecond).Should(Equal(on))
		})
	}
}

// TestLatePower: a command that takes effect during the restore is undone too.
func TestLatePower(t *testing.T) {
	g := NewWithT(t)
	machine, subject := emulated(t, bmctest.Options{}, "")
	subject.Poll = 200 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	_, err := bmctest.Conform(ctx, subject, func(r bmctest.Result) {
		cancel()
		if r.Check == "restores the server" && r.Verdict == "" {
			time.AfterFunc(50*time.Millisecond, func() { machine.SetPower(true) })
		}
	})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Consistently(machine.On, 100*time.Millisecond, time.Millisecond).Should(BeFalse())
}

// TestInterruptedSessions: no session remains on the BMC.
func TestInterruptedSessions(t *testing.T) {
	for _, sessions := range []int{1, 2} { // one while the BMC is inspected, and a second one in a check
		t.Run(strconv.Itoa(sessions), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			machine, subject := emulated(t, bmctest.Options{}, "auth=session")
			open := subject.Open
			subject.Open = func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
				client, err := open(ctx, e)
				if machine.Sessions() == sessions {
					_ = machine.Misbehave(bmctest.Slow, -1) // so that there is a request to be interrupted in
				}
				return client, err
			}
			_, err := interrupt(t, subject, func() bool {
				slow := machine.Misbehaviour()[bmctest.Slow] != 0
				if slow {
					_ = machine.Misbehave(bmctest.Slow, 0)
				}
				return slow
			})
			g.Expect(err).To(HaveOccurred())
			g.Expect(machine.Sessions()).To(BeZero())
		})
	}
}

// TestBootModeStays: the suite sets other modes, and restores the original one.
func TestBootModeStays(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	for _, before := range []bmc.BootOverride{
		{Target: bmc.BootHTTP, Mode: bmc.BootLegacy, URI: "http://192.0.2.5/before.efi"}, {Target: bmc.BootNone, Mode: bmc.BootUEFI}, {Target: bmc.BootPXE},
	} {
		_, err := fake.SetBootOverride(t.Context(), before, "")
		g.Expect(err).NotTo(HaveOccurred())
		bmctest.Test(t, bmctest.Subject{Open: fake.Open, SkipWrongPassword: true, Poll: time.Millisecond, BootURI: "http://192.0.2.1/boot.efi"})
		g.Expect(fake.BootOverride(t.Context())).To(Equal(bmc.BootOverride{Target: bmc.BootNone, Mode: before.Mode, URI: before.URI}))
	}
	machine, subject := emulated(t, bmctest.Options{}, "")
	client, err := subject.Open(t.Context(), subject.Endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootLegacy}, "")
	g.Expect(err).NotTo(HaveOccurred())
	bmctest.Test(t, subject)
	g.Expect(machine.Override()).To(Equal(bmc.BootOverride{Target: bmc.BootNone, Mode: bmc.BootLegacy}))
}

// resultOf runs the suite and returns the result of a check.
func resultOf(t *testing.T, s bmctest.Subject, check string) bmctest.Result {
	t.Helper()
	outcome, err := bmctest.Conform(t.Context(), s, func(bmctest.Result) {})
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(outcome.Results, func(r bmctest.Result) bool { return r.Check == check })
	g.Expect(i).NotTo(BeNumerically("<", 0))
	return outcome.Results[i]
}

// TestShutDownCheck: a BMC fails if it refuses a shutdown, but not if the server ignores it.
func TestShutDownCheck(t *testing.T) {
	g := NewWithT(t)
	const check = "a running server accepts a shutdown request"
	machine, subject := emulated(t, bmctest.Options{}, "")
	result := resultOf(t, subject, check)
	g.Expect(result.Verdict).To(Equal(bmctest.Passed), result.Error)
	g.Expect(result.Notes).To(ContainElement(ContainSubstring("the server did not shut down")))
	g.Expect(machine.Misbehave(bmctest.ShutDownFails, -1)).To(Succeed())
	g.Expect(resultOf(t, subject, check).Verdict).To(Equal(bmctest.Failed))

	obedient, subject := emulated(t, bmctest.Options{Run: func(_ context.Context, _ bmc.BootTarget, booted func()) { booted() }}, "")
	result = resultOf(t, subject, check)
	g.Expect(result.Verdict).To(Equal(bmctest.Passed), result.Error)
	g.Expect(obedient.CommandNames()).To(ContainElement("GracefulShutdown"))
}

// blind is a BMC that cannot read its override.
type blind struct{ *bmctest.Fake }

func (b blind) SetBootOverride(ctx context.Context, o bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	result, err := b.Fake.SetBootOverride(ctx, o, method)
	result.ReadBack = nil
	return result, err
}

// TestUnverified: a check whose override cannot be read back is unverified.
func TestUnverified(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	subject := bmctest.Subject{SkipWrongPassword: true, Poll: time.Millisecond, Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		_, err := fake.Open(ctx, e)
		return blind{fake}, err
	}}
	result := resultOf(t, subject, "boots from the network once, and reports it")
	g.Expect(result.Verdict).To(Equal(bmctest.Passed))
	g.Expect(result.Unverified).To(Equal("it cannot be read back"))
	g.Expect(result.Notes).To(ContainElement("accepted; it cannot be read back"))
	g.Expect(resultOf(t, subject, "power off, also when it is off").Unverified).To(BeEmpty())
}

// TestKnown: a known failure must occur, with the known error.
func TestKnown(t *testing.T) {
	g := NewWithT(t)
	const check = "the clock can be read"
	fake := &bmctest.Fake{Errors: map[string]error{"Clock": errors.New("code CCh")}}
	subject := bmctest.Subject{Open: fake.Open, SkipWrongPassword: true, Poll: time.Millisecond}
	with := func(known bmctest.Known) bmctest.Subject {
		subject.Known = map[string]bmctest.Known{check: known}
		return subject
	}
	result := resultOf(t, with(bmctest.Known{Error: "CCh", Why: "it has no clock"}), check)
	g.Expect(result).To(And(HaveField("Verdict", bmctest.KnownFailure), HaveField("Error", "it has no clock")))
	result = resultOf(t, with(bmctest.Known{Error: "C1h", Why: "it has no clock"}), check)
	g.Expect(result).To(And(HaveField("Verdict", bmctest.Failed), HaveField("Error", ContainSubstring("failed with: code CCh"))))
	fake.Errors = nil
	g.Expect(resultOf(t, with(bmctest.Known{Error: "CCh", Why: "it has no clock"}), check).Verdict).To(Equal(bmctest.Failed))
	_, err := bmctest.Conform(t.Context(), with(bmctest.Known{Why: "it has no clock"}), func(bmctest.Result) {})
	g.Expect(err).To(MatchError(ContainSubstring("with a part of its error")))
}

// TestWrongPassword: the wrong password has the length of the right one, and differs in the first byte.
func TestWrongPassword(t *testing.T) {
	for _, password := range []string{"secret", "xx", "y", ""} {
		g := NewWithT(t)
		tried := map[string]bool{}
		fake := &bmctest.Fake{}
		subject := bmctest.Subject{Endpoint: bmc.Endpoint{Password: password}, Poll: time.Millisecond, Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
			if tried[e.Password] = true; e.Password != password {
				return nil, &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("refused")}
			}
			return fake.Open(ctx, e)
		}}
		g.Expect(resultOf(t, subject, "a wrong password is refused, and reported as such").Verdict).To(Equal(bmctest.Passed))
		delete(tried, password)
		g.Expect(tried).To(HaveLen(1))
		for wrong := range tried {
			g.Expect(wrong).To(HaveLen(max(1, len(password))))
			g.Expect(wrong[:1]).NotTo(Equal((password + " ")[:1]))
		}
	}
}

// unsorted is a BMC whose log starts with its oldest entry.
type unsorted struct{ *bmctest.Fake }

func (unsorted) ReadLogs(context.Context, []bmc.LogSource) ([]bmc.Log, error) {
	return []bmc.Log{{Entries: []bmc.LogEntry{{ID: "1", Message: "user alice logged in"}, {ID: "2", Message: "user alice logged out"}}}}, nil
}

// TestLogsStayPrivate: the report does not contain messages of the event log.
func TestLogsStayPrivate(t *testing.T) {
	g := NewWithT(t)
	fake := &bmctest.Fake{}
	result := resultOf(t, bmctest.Subject{SkipWrongPassword: true, Poll: time.Millisecond, Open: func(ctx context.Context, e bmc.Endpoint) (bmc.Client, error) {
		_, err := fake.Open(ctx, e)
		return unsorted{fake}, err
	}}, "the event log is newest first")
	g.Expect(result.Error).To(And(ContainSubstring("entry 2 is newer"), Not(ContainSubstring("alice"))))
}

// TestFaultProtocols: FaultInfo lists the protocols whose emulator has the fault.
func TestFaultProtocols(t *testing.T) {
	read := func(pattern string) string {
		var text strings.Builder
		files, err := filepath.Glob(pattern)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		for _, file := range append(files, "core.go", "power.go", "override.go") {
			content, err := os.ReadFile(file)
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			text.Write(content)
		}
		return text.String()
	}
	web, ipmi := read("redfish*.go")+read("bios.go"), read("ipmi*.go") // IPMI has no BIOS attributes
	for fault, info := range bmctest.Faults {
		uses := regexp.MustCompile(`\.(on|take)\(` + string(fault) + `\)`)
		if got := uses.MatchString(web); got != info.Redfish {
			t.Errorf("%s: Redfish is %t, and should be %t", fault, info.Redfish, got)
		}
		// IPMI has no settings object, although the machine would delay the override.
		if got := uses.MatchString(ipmi) && fault != bmctest.OverrideAtSettings; got != info.IPMI {
			t.Errorf("%s: IPMI is %t, and should be %t", fault, info.IPMI, got)
		}
	}
}
