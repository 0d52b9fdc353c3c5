package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/simtest"
)

// TestMain fails if goroutines remain after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

// outcome is the result of a run of bmcctl.
type outcome struct {
	code     int
	out, err string
}

var credentials = map[string]string{"BMC_USERNAME": simtest.Username, "BMC_PASSWORD": simtest.Password}

// bmcctl runs the program.
func bmcctl(t *testing.T, environment map[string]string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, console{in: strings.NewReader(""), out: &out, err: &errs, getenv: func(name string) string { return environment[name] }})
	if strings.Count(errs.String(), "\n") > 1 && code != exitUsage {
		t.Errorf("an error has one line: %s", &errs)
	}
	return outcome{code, out.String(), errs.String()}
}

// quickly are flags for servers that obey at once.
func quickly(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"--yes", "--settle", "2s", "--poll", "1ms", "--report", filepath.Join(t.TempDir(), "report.json")}, more...)
}

func TestProbe(t *testing.T) {
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1", "--fault", "ClockSkew")
	for _, server := range s.Servers() {
		t.Run(server.Protocol, func(t *testing.T) {
			g := NewWithT(t)
			got := bmcctl(t, credentials, "probe", server.Address, "--sensors", "--events", "2")
			g.Expect(got.code).To(Equal(exitOK), got.err)
			for _, line := range []string{
				`Protocol +` + server.Protocol, `Vendor +Emulated`, `Can +.*BootPXE`, `Power +Off`, `Boot override +none`, `Clock +2400h0m\ds behind this machine's`,
				`Inlet.* +Temperature +2\d(\.\d)? Cel +OK`, `EVENT +SEVERITY +MESSAGE`, `Serial number +SN-` + server.Name,
				`Verdict: ready to register, after a look at the warnings`, `  Clock: the clock of the BMC is (99|100) days behind`,
			} {
				g.Expect(got.out).To(MatchRegexp(`(?m)^`+line), line)
			}
			g.Expect(s.Must(http.MethodGet, "/servers/"+server.Name+"/commands")).To(MatchJSON(`[]`), "it only looks")
		})
	}
}

func TestProbeJSON(t *testing.T) {
	g := NewWithT(t)
	server := simtest.Start(t, "--redfish", "1", "--fault", "NoMedia").Servers()[0]
	got := bmcctl(t, credentials, "probe", server.Address, "-o", "json")
	g.Expect(got.code).To(Equal(exitOK), got.err)
	var found struct {
		Description struct {
			Vendor       string   `json:"vendor"`
			Capabilities []string `json:"capabilities"`
		} `json:"description"`
		Lacks        []string `json:"lacks"`
		Power        string   `json:"power"`
		BootOverride struct {
			Target string `json:"target"`
		} `json:"bootOverride"`
		ClockAheadSeconds float64 `json:"clockAheadSeconds"`
		Inventory         struct {
			SystemUUID string `json:"systemUUID"`
			CPUThreads int    `json:"cpuThreads"`
			NICs       []struct {
				MACAddress string `json:"macAddress"`
			} `json:"nics"`
		} `json:"inventory"`
		Errors   map[string]string   `json:"errors"`
		Ready    bool                `json:"ready"`
		Warnings []map[string]string `json:"warnings"`
	}
	g.Expect(json.Unmarshal([]byte(got.out), &found)).To(Succeed())
	g.Expect(found.Description.Vendor).To(Equal("Emulated"))
	g.Expect(found.Description.Capabilities).To(ContainElement("BootPXE"))
	g.Expect(found.Lacks).To(ConsistOf("VirtualMedia"))
	g.Expect(found.Power).To(Equal("Off"))
	g.Expect(found.BootOverride.Target).To(Equal("None"))
	g.Expect(found.ClockAheadSeconds).To(BeNumerically("~", 0, 60))
	g.Expect(found.Inventory.SystemUUID).To(Equal(server.UUID))
	g.Expect(found.Inventory.NICs[0].MACAddress).To(Equal(server.MACAddress))
	g.Expect(found.Inventory.CPUThreads).To(Equal(16))
	g.Expect(found.Errors).To(BeEmpty())
	g.Expect(found.Ready).To(BeTrue())
	g.Expect(found.Warnings).To(ConsistOf(HaveKeyWithValue("check", "TLS"), HaveKeyWithValue("check", "Virtual media")))
	got = bmcctl(t, credentials, "probe", server.Address, "--boot-mac", strings.ToUpper(server.MACAddress))
	g.Expect(got.out).NotTo(ContainSubstring("Boot interface"))
	got = bmcctl(t, credentials, "probe", server.Address, "--boot-mac", "52:54:00:ff:ff:ff")
	g.Expect(got.out).To(MatchRegexp(`(?m)^  Boot interface: the BMC lists no interface with the MAC address 52:54:00:ff:ff:ff, but ` + server.MACAddress))
	got = bmcctl(t, credentials, "probe", server.Address)
	g.Expect(got.out).To(And(MatchRegexp(`(?m)^Cannot +VirtualMedia$`), MatchRegexp(`(?m)^Virtual media +no drive$`)))
}

func TestTLS(t *testing.T) {
	g := NewWithT(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	server := simtest.Start(t, "--redfish", "1", "--tls-ca", ca).Servers()[0]
	got := bmcctl(t, credentials, "probe", server.Address)
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.err).To(ContainSubstring("use --ca FILE with the certificate of its CA, or accept any with --insecure-skip-tls-verify"))
	for _, flags := range [][]string{{"--ca", ca}, {"--insecure-skip-tls-verify"}} {
		got = bmcctl(t, credentials, append([]string{"probe", server.Address}, flags...)...)
		g.Expect(got.code).To(Equal(exitOK), got.err)
	}
}

// TestWrongPassword: a wrong password is tried once.
func TestWrongPassword(t *testing.T) {
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1")
	password := filepath.Join(t.TempDir(), "password")
	NewWithT(t).Expect(os.WriteFile(password, []byte("not-this-one\n"), 0o600)).To(Succeed())
	for i, server := range s.Servers() {
		for n, command := range [][]string{{"probe", server.Address}, append([]string{"qualify", server.Address}, quickly(t)...)} {
			g := NewWithT(t)
			got := bmcctl(t, credentials, append(command, "--password-file", password)...)
			g.Expect(got.code).To(Equal(exitFailed))
			g.Expect(got.err).To(ContainSubstring(`check the user name "admin" and the password`))
			g.Expect(got.out + got.err).NotTo(ContainSubstring("not-this-one"))
			// With IPMI, the client detects it first, and reports it to the BMC (RAKP message 3).
			g.Eventually(func() int { return s.Servers()[i].RefusedLogins }).Should(Equal(n + 1))
		}
	}
}

// TestUsage: a usage error contains the remedy and no password, and no request is sent to a BMC.
func TestUsage(t *testing.T) {
	g := NewWithT(t)
	empty := filepath.Join(t.TempDir(), "empty")
	g.Expect(os.WriteFile(empty, []byte("\n"), 0o600)).To(Succeed())
	const address = "redfish://192.0.2.10"
	for _, test := range []struct {
		args []string
		says string
	}{
		{nil, "bmcctl probe URL"},
		{[]string{"prove"}, "use bmcctl probe, bmcctl qualify, bmcctl plan, bmcctl profile, bmcctl media, bmcctl inventory or bmcctl erasures"},
		{[]string{"probe"}, "takes one URL, but got 0"},
		{[]string{"probe", address, address}, "takes one URL, but got 2"},
		{[]string{"probe", "192.0.2.10"}, "write redfish://192.0.2.10, or use another of "},
		{[]string{"probe", "192.0.2.10:443"}, "write it like redfish://192.0.2.10"},
		{[]string{"probe", "https://192.0.2.10/redfish"}, "write redfish://192.0.2.10"},
		{[]string{"probe", "http://192.0.2.10"}, "write redfish+http://192.0.2.10"},
		{[]string{"probe", "telnet://192.0.2.10"}, "the scheme telnet:// is unknown: use one of "},
		{[]string{"probe", "redfish://"}, "names no host"},
		{[]string{"probe", address + "#x"}, "remove it"},
		{[]string{"probe", "redfish://admin:tiger%zz@192.0.2.10"}, "remove them, and use --username, and --password-file or BMC_PASSWORD"},
		{[]string{"qualify", "redfish://admin:tiger@192.0.2.10"}, "remove them"},
		{[]string{"probe", address, "--password", "tiger"}, "unknown flag: --password"},
		{[]string{"probe", address, "--password-file", empty}, "is empty: write the password into it"},
		{[]string{"probe", address, "--password-file", "/none"}, "--password-file: open /none"},
		{[]string{"probe", address, "--ca", "/none"}, "--ca: open /none"},
		{[]string{"probe", address, "--ca", empty, "--insecure-skip-tls-verify"}, "use only one of them"},
		{[]string{"probe", address, "-o", "xml"}, "neither text nor json"},
		{[]string{"probe", address, "--events", "-1"}, "use 0 or more"},
		{[]string{"probe", address, "--boot-mac", "52:54"}, "is no MAC address: write it like 52:54:00:00:00:01"},
		{[]string{"probe", address, "--timeout", "0"}, "--timeout"},
		{[]string{"qualify", address}, "nothing was done: add --yes"},
		{[]string{"qualify", address, "--yes", "--must", "Teleport"}, `the capability "Teleport" is unknown: use some of PowerOn, `},
		{[]string{"qualify", address, "--yes", "--image", "boot.iso"}, "like http://192.0.2.5/boot.iso"},
		{[]string{"qualify", address, "--yes", "--settle", "-1s"}, "--settle"},
		{[]string{"qualify", address, "--yes", "--report", "/none/report.json"}, "use --report with a file in another folder"},
		{[]string{"qualify", address, "--yes", "--report", filepath.Dir(empty)}, "is not a regular file: use a file name, such as "},
		{[]string{"qualify", address, "--yes", "--report", os.DevNull}, "is not a regular file"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			g := NewWithT(t)
			got := bmcctl(t, credentials, test.args...)
			g.Expect(got.code).To(Equal(exitUsage))
			g.Expect(got.err).To(ContainSubstring(test.says))
			g.Expect(got.out + got.err).NotTo(ContainSubstring("tiger@"))
			g.Expect(got.out + got.err).NotTo(ContainSubstring("tiger%"))
		})
	}
	for _, environment := range []map[string]string{{"BMC_USERNAME": "admin"}, {"BMC_PASSWORD": "tiger"}} {
		got := bmcctl(t, environment, "probe", address)
		g.Expect(got.code).To(Equal(exitUsage))
		g.Expect(got.err).To(MatchRegexp("there is no password: use --password-file, set BMC_PASSWORD|there is no user name: use --username"))
	}
	for _, args := range [][]string{{"--help"}, {"help"}, {"probe", "--help"}, {"qualify", "-h"}} {
		got := bmcctl(t, nil, args...)
		g.Expect(got.code).To(Equal(exitOK), strings.Join(args, " "))
		g.Expect(got.out).To(ContainSubstring("  bmcctl "), "examples")
	}
	got := bmcctl(t, nil, "--version")
	g.Expect(got.code).To(Equal(exitOK))
	g.Expect(got.out).To(MatchRegexp(`^bmcctl \S+ \(commit \S+, go1\..*\)\n$`))
}

// TestUnreachable: a BMC that does not answer is an error with a remedy. If it stops answering, the parts that were read are printed.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1")
	address := s.Servers()[0].Address
	s.Must(http.MethodPut, "/servers/*/faults/Hang")
	got := bmcctl(t, credentials, "probe", address, "--timeout", "50ms")
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.err).To(ContainSubstring("check the address and the port"))
	s.Must(http.MethodDelete, "/servers/*/faults")
	s.Stop()
	got = bmcctl(t, credentials, "probe", address)
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.err).To(ContainSubstring("check the address and the port"))
}

// TestQualifyRefuses: without --yes it prints what it would do, and does nothing, not even prompt for a password.
func TestQualifyRefuses(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1")
	got := bmcctl(t, nil, "qualify", s.Servers()[0].Address)
	g.Expect(got.code).To(Equal(exitUsage))
	g.Expect(got.out).To(ContainSubstring("switches it off and on"))
	g.Expect(got.err).To(ContainSubstring("add --yes"))
	g.Expect(s.Must(http.MethodGet, "/servers/sim-redfish-1/commands")).To(MatchJSON(`[]`))
}

func TestQualifyFit(t *testing.T) {
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1", "--on")
	for i, server := range s.Servers() {
		t.Run(server.Protocol, func(t *testing.T) {
			g := NewWithT(t)
			flags := quickly(t, "--boots", "--image", "http://192.0.2.5/boot.iso?token=iso-token", "-v")
			got := bmcctl(t, credentials, append([]string{"qualify", server.Address}, flags...)...)
			g.Expect(got.code).To(Equal(exitOK), got.out+got.err)
			for _, line := range []string{
				`\.\.\. +power off, also when it is off$`, `passed +power off, also when it is off \(`, `passed +an override for one boot expires with it \(`,
				`open +[\d.]+m?µ?s +`, `set boot +[\d.]+m?µ?s +[\d.]+m?µ?s +\d+$`, `BootPXE +either +works$`, `Inventory +no +works$`,
				`passed +restores the server \(`, `Verdict: fit for network boot with this provider$`,
			} {
				g.Expect(got.out).To(MatchRegexp(`(?m)^`+line), line)
			}
			after := s.Servers()[i]
			g.Expect(after.Power).To(Equal("On"), "as it was found")
			g.Expect(after.BootOverride.Target).To(Equal("None"))
			g.Expect(after.Image).To(BeEmpty())
			g.Expect(after.RefusedLogins).To(Equal(1), "the one with the wrong password")
			expectMasked(t, flags, server)
		})
	}
}

// readReport returns the report that --report names.
func readReport(t *testing.T, flags []string) (text string, content report) {
	t.Helper()
	file, err := os.ReadFile(flags[slices.Index(flags, "--report")+1])
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(file, &content)).To(Succeed())
	return string(file), content
}

// expectMasked: a report describes the model, and does not identify the server or its address.
func expectMasked(t *testing.T, flags []string, server simtest.Server) {
	t.Helper()
	g := NewWithT(t)
	text, content := readReport(t, flags)
	g.Expect(content.Fit).To(BeTrue())
	g.Expect(content.Latency).To(HaveKeyWithValue("power state", HaveField("Count", 20)))
	g.Expect(text).To(And(ContainSubstring(`"model": "bmctest"`), ContainSubstring(`"manufacturer": "Emulated"`), ContainSubstring(masked)))
	for _, secret := range []string{
		simtest.Password, `"admin"`, "127.0.0.1", "SN-sim", "DISK-1", "GPU-1", "iso-token", server.UUID, strings.ToUpper(server.UUID), server.MACAddress, server.Address,
	} {
		g.Expect(text).NotTo(ContainSubstring(secret))
	}
}

// TestQualifyNotFit: with a fault that prevents network boot, the BMC is not fit, and the report contains the reason.
func TestQualifyNotFit(t *testing.T) {
	for fault, test := range map[string]struct {
		flags []string
		says  string
	}{
		"IgnoresOverride": {nil, `(?m)^BootPXE +either +FAILED: boots from the network once, and reports it: the BMC accepted the target PXE and reports None`},
		"NoMedia":         {[]string{"--must", "VirtualMedia"}, `(?m)^Verdict: NOT fit .* it lacks VirtualMedia \(not offered\)$`},
		"OldSchema":       {[]string{"--must", "VirtualMedia"}, `(?m)^Verdict: NOT fit .* it lacks VirtualMedia \(not tried\)$`}, // there is no --image
	} {
		t.Run(fault, func(t *testing.T) {
			g := NewWithT(t)
			s := simtest.Start(t, "--redfish", "1")
			s.Must(http.MethodPut, "/servers/*/faults/"+fault)
			flags := quickly(t, append(test.flags, "--with-serials")...)
			got := bmcctl(t, credentials, append([]string{"qualify", s.Servers()[0].Address}, flags...)...)
			g.Expect(got.code).To(Equal(exitFailed), got.out)
			g.Expect(got.err).To(BeEmpty(), "the verdict says it")
			g.Expect(got.out).To(MatchRegexp(test.says))
			text, content := readReport(t, flags)
			g.Expect(content.Fit).To(BeFalse())
			g.Expect(text).To(ContainSubstring("SN-sim-redfish-1"), "--with-serials was given")
			g.Expect(text).NotTo(ContainSubstring(simtest.Password))
		})
	}
}

// TestQualifyOthersFail: failures of capabilities that network boot does not need are printed, but the BMC is fit.
func TestQualifyOthersFail(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--fault", "OverrideNeverResets")
	t.Chdir(t.TempDir())
	got := bmcctl(t, credentials, "qualify", s.Servers()[0].Address, "--yes", "--settle", "2s", "--poll", "1ms", "--skip-wrong-password")
	g.Expect(got.code).To(Equal(exitOK), got.out)
	g.Expect(got.out).To(MatchRegexp(`(?m)^Report: bmc-report-emulated-bmctest-\d{8}-\d{6}\.json$`))
	files, err := filepath.Glob("*")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(1))
	g.Expect(s.Servers()[0].RefusedLogins).To(BeZero())
}

func TestTexts(t *testing.T) {
	g := NewWithT(t)
	for name, want := range map[string]string{
		"CPUModel": "cpuModel", "NICs": "nics", "MACAddress": "macAddress", "SystemUUID": "systemUUID", "URI": "uri", "BMCFirmwareVersion": "bmcFirmwareVersion",
		"SizeBytes": "sizeBytes", "power state": "power state", "": "",
	} {
		g.Expect(camel(name)).To(Equal(want))
	}
	g.Expect(clean("Dell\x1b[2J Inc.\nR\t650\u202e")).To(Equal("Dell?[2J Inc. R 650?"), "a terminal must not obey a BMC")
	g.Expect(slug("Dell Inc. / EMC")).To(Equal("dell-inc-emc"))
	g.Expect(slug("../..")).To(Equal("unknown"))
	m := newMasker(&target{Endpoint: bmc.Endpoint{URL: &url.URL{Host: "rack-7-bmc"}, Username: "ADM", Password: "pass-1"}},
		&qualification{image: "http://images.example:8080/boot.iso"}, "", nil)
	for text, want := range map[string]string{
		"dial tcp 10.0.0.7:443: pass-1":             "dial tcp (masked): (masked)",
		"firmware 1.2.3.4":                          "firmware 1.2.3.4",
		"4c4c4544-0000-1111-2222-333344445555 gone": "(masked) gone",
		"MAC 52-54-00-12-34-56":                     "MAC (masked)",
		`serial "a b" here`:                         `serial "(masked)" here`,
		"[fe80::1%eth0]:623":                        "(masked)",
		"ADM ADM, ADMIN and user ADM.":              "(masked) (masked), ADMIN and user (masked).",
		"GET http://images.example/other.iso":       "GET http://(masked)/other.iso",
		"gateway 10.0.0.1, 10.0.0.7/24.":            "gateway (masked), (masked)/24.",
		"at fe80::1%eth0 or 2001:db8::17: no":       "at (masked) or (masked): no",
		"at 12:34:56, std::string, 1.2.3.4.5, v1.2": "at 12:34:56, std::string, 1.2.3.4.5, v1.2",
		"host:10.1.2.3":                             "host:(masked)",
	} {
		g.Expect(m.mask("error", text)).To(Equal(want))
	}
	g.Expect(m.mask("bmcFirmwareVersion", "7.0.60.0")).To(Equal("7.0.60.0"))
}
