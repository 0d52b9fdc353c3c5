package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/sim"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/simtest"
)

// TestMain makes the test binary run as bmcsim, and fails if goroutines remain after the tests.
func TestMain(m *testing.M) {
	if os.Getenv("BE_BMCSIM") != "" {
		main()
	}
	// The connections of clients that these tests use are closed by the simulator: their ends may be a moment behind.
	leaktest.Main(m)
}

// TestSignals: the program prints a summary in one line, and a signal ends it with success, even while a request hangs.
func TestSignals(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		g := NewWithT(t)
		program := exec.CommandContext(t.Context(), os.Args[0],
			"--redfish", "20", "--ipmi", "5", "--listen", "127.0.0.1:0", "--ipmi-listen", "127.0.0.1:0", "--control", "", "--fault", "Hang")
		program.Env = append(os.Environ(), "BE_BMCSIM=1", "BMC_USERNAME=", "BMC_PASSWORD=")
		var stderr bytes.Buffer
		program.Stderr = &stderr
		stdout, err := program.StdoutPipe()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(program.Start()).To(Succeed())
		summary, err := bufio.NewReader(stdout).ReadString('\n')
		g.Expect(err).NotTo(HaveOccurred(), "%s", &stderr)
		g.Expect(summary).To(MatchRegexp(`^bmcsim: 20 Redfish servers at redfish\+http://127\.0\.0\.1:\d+ to .*; 5 IPMI servers at ipmi://.*; user "admin", password "password"\n$`))
		address := strings.TrimPrefix(strings.Fields(summary)[5], "redfish+http://")
		hung := hang(t, address)
		g.Expect(program.Process.Signal(signal)).To(Succeed())
		g.Expect(program.Wait()).To(Succeed(), "%s", &stderr)
		g.Expect(<-hung).To(HaveOccurred())
		g.Expect(stderr.String()).To(BeEmpty())
	}
}

// hang sends a request that is not answered, and returns a function that ends it.
func hang(t *testing.T, address string) <-chan error {
	t.Helper()
	g := NewWithT(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = conn.Write([]byte("POST /redfish/v1/SessionService/Sessions HTTP/1.1\r\nHost: bmc\r\nContent-Length: 10\r\n\r\n"))
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		_ = conn.Close()
		ended <- err
	}()
	return ended
}

// TestUsage: the error names the wrong flag, with the remedy.
func TestUsage(t *testing.T) {
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = busy.Close() }()
	empty := filepath.Join(t.TempDir(), "empty")
	NewWithT(t).Expect(os.WriteFile(empty, nil, 0o600)).To(Succeed())
	for name, test := range map[string]struct {
		args string
		code int
		says string
	}{
		"help":          {"--help", 0, "bmcsim --redfish 10"},
		"version":       {"--version", 0, ", go1."},
		"none":          {"", 2, "there is no server to simulate: use --redfish N, --ipmi N or both"},
		"negative":      {"--redfish -1", 2, "use 0 or more"},
		"argument":      {"1000", 2, `"1000" is not a flag`},
		"unknown flag":  {"--redfisch 1", 2, "unknown flag: --redfisch"},
		"no port":       {"--redfish 1 --listen 127.0.0.1", 2, "--listen: \"127.0.0.1\" is not an IP address with a port: write it like 127.0.0.1:8000"},
		"no room":       {"--redfish 1000 --listen 127.0.0.1:65000", 2, "--listen 127.0.0.1:65000 leaves ports for only 536 of 1000 servers: use a lower port"},
		"everywhere":    {"--redfish 1 --listen 0.0.0.0:8000", 2, "set the address for their URLs with --advertise"},
		"advertise":     {"--redfish 1 --advertise http://here", 2, "omit scheme, port and brackets"},
		"prefix":        {"--redfish 1 --prefix Rack_1", 2, "--prefix"},
		"fault":         {"--redfish 1 --fault Slwo", 2, `the fault "Slwo" is unknown: use one of BIOSFullCopy, BIOSIgnored`},
		"other fault":   {"--ipmi 1 --fault NeedsETag", 2, "only Redfish has the fault NeedsETag, and there is no such server: add --redfish N"},
		"hosts":         {"--redfish 1 --listen 127.0.0.1:0 --control= --hosts /none/hosts.yaml", 1, "--hosts: open /none"},
		"fault times":   {"--redfish 1 --fault Slow=x", 2, "write NAME, or NAME=N"},
		"password file": {"--redfish 1 --password-file " + empty, 2, "is empty: write the password into it"},
		"no file":       {"--redfish 1 --password-file /none", 2, "--password-file: open /none"},
		"long password": {"--ipmi 1 --username 12345678901234567", 2, "IPMI allows user names of up to 16 bytes"},
		"busy":          {"--redfish 1 --control= --listen " + busy.Addr().String(), 1, "use another port with --listen"},
		"not here":      {"--redfish 1 --listen 192.0.2.1:8000", 1, "this machine does not have the address"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := sim.Run(t.Context(), strings.Fields(test.args), func(string) string { return "" }, &out, &errs)
			g := NewWithT(t)
			g.Expect(code).To(Equal(test.code))
			g.Expect(out.String() + errs.String()).To(ContainSubstring(test.says))
			if test.code != 0 {
				g.Expect(strings.Count(errs.String(), "\n")).To(Equal(1), "one line: %s", &errs)
			}
		})
	}
}

// open opens the BMC at an address of the simulator.
func open(t *testing.T, address string, ca []byte) bmc.Client {
	t.Helper()
	g := NewWithT(t)
	u, err := url.Parse(address)
	g.Expect(err).NotTo(HaveOccurred())
	client, err := drivers.All(bmctest.Loopback)[u.Scheme].Open(t.Context(), bmc.Endpoint{
		URL: u, Username: simtest.Username, Password: simtest.Password, CA: ca,
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// TestControl: the control server shows the BMCs' commands, and changes their behavior.
func TestControl(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "2", "--ipmi", "1")
	servers := s.Servers()
	g.Expect(servers).To(HaveLen(3))
	identities := map[string]bool{}
	for _, server := range servers {
		identities[server.MACAddress], identities[server.UUID], identities[server.Address] = true, true, true
		g.Expect(server.Power).To(Equal("Off"))
	}
	g.Expect(identities).To(HaveLen(9), "each has its own")
	for _, server := range servers {
		client := open(t, server.Address, nil)
		_, err := client.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Continuous: true}, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(client.PowerOn(t.Context())).To(Succeed())
		g.Expect(s.Must(http.MethodGet, "/servers/"+server.Name+"/commands")).To(And(ContainSubstring(`"Boot=PXE"`), ContainSubstring(`"On"`)))
	}
	for _, server := range s.Servers() {
		g.Expect(server.Power).To(Equal("On"))
		g.Expect(server.BootOverride.Target).To(Equal("PXE"))
		g.Expect(server.Commands).To(BeNumerically(">=", 2))
	}
	s.Must(http.MethodPut, "/servers/*/power/off")
	g.Expect(s.Must(http.MethodGet, "/servers/sim-redfish-2")).To(ContainSubstring(`"power": "Off"`))

	client := open(t, servers[1].Address, nil)
	s.Must(http.MethodPut, "/servers/sim-redfish-2/faults/Busy503")
	g.Expect(s.Servers()[1].Faults).To(Equal(map[string]int{"Busy503": -1}))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := client.PowerState(ctx)
	g.Expect(err).To(HaveOccurred())
	s.Must(http.MethodDelete, "/servers/sim-redfish-2/faults/Busy503")
	_, err = client.PowerState(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	s.Must(http.MethodPut, "/servers/*/faults/PowerIgnored?times=3")
	g.Expect(s.Servers()[2].Faults).To(Equal(map[string]int{"PowerIgnored": 3}))
	s.Must(http.MethodDelete, "/servers/*/faults")
	g.Expect(s.Servers()[2].Faults).To(BeEmpty())

	s.Must(http.MethodPut, "/servers/*/faults/NeedsETag")
	g.Expect(s.Servers()[1].Faults).To(Equal(map[string]int{"NeedsETag": -1}))
	g.Expect(s.Servers()[2].Faults).To(BeEmpty(), "IPMI has no ETags")
	g.Expect(s.Must(http.MethodGet, "/faults")).To(MatchRegexp(`(?m)^Slow +Redfish, IPMI +answers.*\nStalePower.*\nSwappedGUID +IPMI +sends`))
	g.Expect(strings.Fields(s.Must(http.MethodGet, "/faults"))).To(ContainElements("Down", "Slow", "NoMedia"))
	g.Expect(s.Must(http.MethodGet, "/")).To(ContainSubstring("/servers/NAME/commands"))
}

func TestControlErrors(t *testing.T) {
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1")
	for _, test := range []struct {
		method, path string
		status       int
		says         string
	}{
		{http.MethodGet, "/servers/x", 404, "GET /servers lists the servers"},
		{http.MethodPut, "/servers/sim-redfish-1/faults/Slwo", 404, "use one of BIOSFullCopy"},
		{http.MethodPut, "/servers/*/faults/Slwo", 404, "use one of BIOSFullCopy"},
		{http.MethodPut, "/servers/sim-redfish-1/faults/SwappedGUID", 409, "only IPMI has the fault SwappedGUID, and sim-redfish-1 uses Redfish: use a server with IPMI, or * for all of them"},
		{http.MethodPut, "/servers/sim-ipmi-1/faults/NeedsETag", 409, "only Redfish has the fault"},
		{http.MethodPut, "/servers/sim-redfish-1/faults/Slow?times=0", 400, "DELETE deactivates a fault"},
		{http.MethodPut, "/servers/sim-redfish-1/power/up", 400, "use on or off"},
		{http.MethodPost, "/servers", 405, ""},
	} {
		status, body := s.Do(test.method, test.path)
		g := NewWithT(t)
		g.Expect(status).To(Equal(test.status), test.path)
		g.Expect(body).To(ContainSubstring(test.says))
	}
}

// TestHosts: the API server accepts the manifests, and with TLS, their CA verifies the BMCs.
func TestHosts(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(os.WriteFile(folder+"/hosts.yaml", []byte("former"), 0o644)).To(Succeed()) // every user may read it, which must change
	s := simtest.Start(t, "--redfish", "2", "--ipmi", "1", "--tls-ca", folder+"/ca.crt", "--hosts", folder+"/hosts.yaml", "--advertise", "localhost")
	manifests := s.Must(http.MethodGet, "/hosts.yaml")
	file, err := os.ReadFile(folder + "/hosts.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(manifests).To(Equal(string(file)))
	info, err := os.Stat(folder + "/hosts.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), "it holds a password")

	secrets, addresses := map[string]map[string]string{}, []string{}
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		if strings.Contains(document, "kind: Secret") {
			var secret corev1.Secret
			g.Expect(yaml.UnmarshalStrict([]byte(document), &secret)).To(Succeed())
			secrets[secret.Name] = secret.StringData
			continue
		}
		var host v1alpha1.BareMetalHost
		g.Expect(yaml.UnmarshalStrict([]byte(document), &host)).To(Succeed(), document)
		addresses = append(addresses, host.Spec.BMC.Address)
		credentials := secrets[host.Spec.BMC.CredentialsSecretName]
		g.Expect(credentials).To(Equal(map[string]string{"username": simtest.Username, "password": simtest.Password}))
		open(t, host.Spec.BMC.Address, []byte(secrets[host.Spec.BMC.CASecretName]["ca.crt"]))
	}
	g.Expect(addresses).To(HaveExactElements(
		HavePrefix("redfish://localhost:"), HavePrefix("redfish://localhost:"), HavePrefix("ipmi://localhost:")))
	ca, err := os.ReadFile(folder + "/ca.crt")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(secrets["sim-ca"]["ca.crt"]).To(Equal(string(ca)))
}

// TestRefusedLogins: a wrong password is one refused login, in all protocols.
func TestRefusedLogins(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1")
	for i, server := range s.Servers() {
		u, err := url.Parse(server.Address)
		g.Expect(err).NotTo(HaveOccurred())
		for _, user := range []string{simtest.Username, "nobody"} {
			_, err = drivers.All(bmctest.Loopback)[u.Scheme].Open(t.Context(), bmc.Endpoint{URL: u, Username: user, Password: "wrong"})
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
		}
		g.Eventually(func() int { return s.Servers()[i].RefusedLogins }).Should(Equal(2), server.Protocol)
		open(t, server.Address, nil)
		g.Expect(s.Servers()[i].RefusedLogins).To(Equal(2), server.Protocol)
	}
}

// TestSameAfterRestart: registered hosts are the same after a restart of the simulator.
func TestSameAfterRestart(t *testing.T) {
	g := NewWithT(t)
	first := simtest.Start(t, "--redfish", "2", "--on")
	before := first.Servers()
	first.Stop()
	after := simtest.Start(t, "--redfish", "3", "--power-delay", "1h").Servers()
	g.Expect(before[1].Power).To(Equal("On"))
	g.Expect(after[1].Name).To(Equal(before[1].Name))
	g.Expect(after[1].MACAddress).To(Equal(before[1].MACAddress))
	g.Expect(after[1].UUID).To(Equal(before[1].UUID))
}
