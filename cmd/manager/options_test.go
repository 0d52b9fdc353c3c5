package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// write writes a configuration file of the boot server.
func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "boot.yaml")
	NewWithT(t).Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

func parse(args ...string) (*options, error) {
	o := newOptions()
	if err := o.flags().Parse(args); err != nil {
		return o, err
	}
	return o, o.complete()
}

func TestFlagErrors(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"a component":           {[]string{"--components=boots"}, `--components: "boots" is neither controllers nor boot nor bootstrap`},
		"bootstrap with others": {[]string{"--components=bootstrap,boot"}, "--components: bootstrap runs in a process of its own"},
		"no boot configuration": {nil, "--boot-config: set it to the boot server's configuration file, or remove boot and images from --components"},
		"a relative socket":     {[]string{"--components=controllers", "--images-socket=images.sock"}, `--images-socket: "images.sock": give the absolute path`},
		"no such file":          {[]string{"--boot-config=/nowhere/boot.yaml"}, "--boot-config: open /nowhere/boot.yaml: no such file"},
		"none of two files":     {[]string{"--boot-config=/nowhere/a.yaml", "--boot-config=/nowhere/b.yaml"}, "open /nowhere/b.yaml: no such file"},
		"a wrong file before another": {
			[]string{"--boot-config=" + write(t, "networks: [{}]"), "--boot-config=" + write(t, "networks: [{name: a, mode: proxy, address: 192.0.2.5}]")},
			"networks[0].address: Required value",
		},
		"a wrong file":              {[]string{"--boot-config=" + write(t, "networks: [{name: a, mode: proxy}]")}, "networks[0].address: Required value"},
		"no configuration to print": {[]string{"--components=controllers", "--print-dhcp-config=kea"}, "--boot-config: set it to"},
		"a lease too short":         {[]string{"--components=controllers", "--leader-elect-lease-duration=10s"}, "--leader-elect-lease-duration: 10s allows two processes to hold the lease: must be more than --leader-elect-renew-deadline (10s)"},
		"a deadline too short":      {[]string{"--components=controllers", "--leader-elect-renew-deadline=2s"}, "--leader-elect-renew-deadline: 2s leaves no time for a second attempt"},
		"no retry period":           {[]string{"--components=controllers", "--leader-elect-retry-period=0"}, "--leader-elect-retry-period: must be more than 0"},
		"no concurrency":            {[]string{"--components=controllers", "--baremetalhost-concurrency=0"}, "--baremetalhost-concurrency: 0: must be at least 1"},
		"two without":               {[]string{"--components=controllers", "--node-concurrency=0", "--clustercache-concurrency=-1"}, "--clustercache-concurrency: -1: must be at least 1"},
		"a port":                    {[]string{"--components=controllers", "--webhook-port=70000"}, "--webhook-port: 70000 is not a port number"},
		"an address":                {[]string{"--components=controllers", "--webhook-host=localhost"}, `--webhook-host: "localhost" is not an IP address`},
		"a TLS version":             {[]string{"--components=controllers", "--tls-min-version=1.2"}, `--tls-min-version, --tls-cipher-suites, --tls-curve-preferences: unknown tls version "1.2"`},
		"a cipher suite":            {[]string{"--components=controllers", "--tls-cipher-suites=ROT13"}, "Cipher suite ROT13 not supported"},
		"a cleaning policy":         {[]string{"--components=controllers", "--minimum-cleaning-policy=Manual"}, `--minimum-cleaning-policy: "Manual" is neither None nor Metadata nor Clear nor Purge`},
		"a health interval":         {[]string{"--components=controllers", "--health-interval=1s"}, "--health-interval: 1s: must be at least 10s, or 0"},
		"a kind of sensors":         {[]string{"--components=controllers", "--sensor-metrics=Power,Mood"}, `--sensor-metrics: "Mood" is unknown: use some of InletTemperature`},
		"a method timeout":          {[]string{"--components=controllers", "--boot-method-timeout=0"}, "--boot-method-timeout: 0s: must be more than 0"},
		"a media URL":               {[]string{"--components=controllers", "--boot-media-url=boot.example"}, `--boot-media-url: "boot.example" is not an http or https URL`},
		"a media URL twice":         {[]string{"--components=controllers", "--boot-media-url=http://a", "--boot-media-url=https://b"}, `--boot-media-url: "https://b": there is another URL for the same BMCs`},
		"a watch filter":            {[]string{"--components=controllers", "--watch-filter=a b"}, `--watch-filter: "a b" is not a label value`},
		"no networks":               {[]string{"--boot-config=" + write(t, "bmcs: {}")}, "boot.yaml: networks: Required value"},
		"a network of BMCs":         {[]string{"--components=controllers", "--boot-config=" + write(t, "bmcs: {allowNetworks: [127.0.0.1]}")}, "bmcs.allowNetworks[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(test.args...)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

func TestFlags(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("POD_NAMESPACE", "")
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	o, err := parse("--components=controllers")
	g.Expect(err).NotTo(HaveOccurred(), "controllers alone need no configuration file")
	apiServer := netip.MustParsePrefix("10.96.0.1/32")
	g.Expect(o.boot.BMCs.DenyNetworks).To(Equal([]netip.Prefix{apiServer}))
	g.Expect(o.podNamespace).To(Equal("capbm-system"))

	o, err = parse("--components=controllers", "--boot-config="+write(t, "bmcs: {allowNetworks: [127.0.0.0/8]}"))
	g.Expect(err).NotTo(HaveOccurred(), "controllers alone need no networks to boot in")
	g.Expect(o.boot.BMCs.AllowNetworks).To(HaveLen(1))

	o, err = parse("--components=controllers", "--boot-media-url=https://boot.example:8443/", "--boot-media-url=192.0.2.0/24=http://192.0.2.1:8480")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.mediaURLs.For("redfish://bmc.example")).To(Equal("https://boot.example:8443"))
	g.Expect(o.mediaURLs.For("redfish://192.0.2.10")).To(Equal("http://192.0.2.1:8480"))

	o, err = parse("--components=controllers", "--boot-media-url=none")
	g.Expect(err).NotTo(HaveOccurred(), "CAPBM_BOOT_MEDIA_URL is not set")
	g.Expect(o.mediaURLs).To(BeEmpty())

	o, err = parse("--components=bootstrap")
	g.Expect(err).NotTo(HaveOccurred(), "the bootstrap provider needs no configuration file")
	g.Expect(o.podNamespace).To(Equal("capbm-bootstrap-system"))
	g.Expect(o.managerOptions().LeaderElection).To(BeTrue())

	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00:96::1")
	o, err = parse("--boot-config=" + write(t, "networks: [{name: a, mode: proxy, address: 192.0.2.5}]"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.boot.Networks[0].Mode).To(Equal(bootconfig.Proxy))
	g.Expect(o.boot.Artifacts.Outbound.DenyNetworks).To(ContainElement(netip.MustParsePrefix("fd00:96::1/128")))
}

// TestOperatorFlags: the process accepts every flag that cluster-api-operator sets from spec.manager of a provider.
func TestOperatorFlags(t *testing.T) {
	_, err := parse("--components=controllers",
		"--baremetalhost-concurrency=3", "--max-concurrent-reconciles=5", "--namespace=dc", "--health-addr=:9440", "--leader-elect=true",
		"--leader-election-id=capbm-system/x", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=40s", "--leader-elect-retry-period=5s",
		"--metrics-bind-addr=:8080", "--webhook-host=192.0.2.1", "--webhook-port=9443", "--webhook-cert-dir=/tmp/certs", "--sync-period=600s",
		"--profiler-address=localhost:6060", "--v=2", "--feature-gates=A=true,B=false")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// TestBootConfigs: the first configuration file that exists is read, by the boot server and by the controllers.
func TestBootConfigs(t *testing.T) {
	ofVariables := write(t, "networks: [{name: variables, mode: proxy, address: 192.0.2.5}]")
	custom := write(t, "networks: [{name: custom, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24}]")
	for _, components := range []string{"boot", "controllers", "controllers,boot"} {
		g := NewWithT(t)
		o, err := parse("--components="+components, "--boot-config=/nowhere/boot.yaml", "--boot-config="+ofVariables)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(o.boot.Networks[0].Name).To(Equal("variables"))
		g.Expect(o.bootFile).To(Equal(ofVariables))
		o, err = parse("--components="+components, "--boot-config="+custom, "--boot-config="+ofVariables)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(o.boot.Networks).To(HaveLen(1))
		g.Expect(o.boot.Networks[0].Mode).To(Equal(bootconfig.Authoritative))
		g.Expect(o.bootFile).To(Equal(custom))
		otherKey := filepath.Join(t.TempDir(), "boot.yaml")
		g.Expect(os.WriteFile(filepath.Join(filepath.Dir(otherKey), "config.yaml"), nil, 0o600)).To(Succeed())
		_, err = parse("--components="+components, "--boot-config="+otherKey, "--boot-config="+ofVariables)
		g.Expect(err).To(MatchError(HaveSuffix("rename config.yaml, or the key of the ConfigMap, to boot.yaml")))
	}
}

// TestPrint: the configuration for another DHCP server is printed without an API server.
func TestPrint(t *testing.T) {
	off := write(t, "networks: [{name: a, mode: off, address: 192.0.2.5}]")
	g := NewWithT(t)
	g.Expect(run(t.Context(), []string{"--boot-config=" + off, "--print-dhcp-config=dnsmasq"})).To(Succeed())
	g.Expect(run(t.Context(), []string{"--boot-config=" + off, "--print-dhcp-config=bind"})).To(MatchError(`--print-dhcp-config: "bind" is not one of dnsmasq, isc, kea`))
}

// TestCertificateMissing: the error of a manager without a certificate for its webhooks names the flag.
func TestCertificateMissing(t *testing.T) {
	g := NewWithT(t)
	o, err := parse("--components=controllers", "--webhook-cert-dir="+t.TempDir())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = o.controllers()
	g.Expect(err).To(MatchError(And(HavePrefix("--webhook-cert-dir: stat "), ContainSubstring("tls.crt: no such file"), HaveSuffix("--webhook-port=0"))))
	o.webhooks.port = 0
	controllers, err := o.controllers()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(controllers.Webhooks).To(BeFalse())
}

// TestLeaseNames: managers of different objects have different leases, and managers of the same objects have the same lease.
func TestLeaseNames(t *testing.T) {
	g := NewWithT(t)
	names := map[string]bool{}
	for _, o := range []options{{}, {namespace: "a"}, {watchFilter: "a"}, {namespace: "b"}, {namespace: "a", watchFilter: "b"}, {namespace: "b", watchFilter: "a"}} {
		g.Expect(o.leaseName()).To(MatchRegexp("^capbm-controllers(-[0-9a-f]{8})?$"))
		g.Expect(names).NotTo(HaveKey(o.leaseName()))
		names[o.leaseName()] = true
	}
	g.Expect((&options{}).leaseName()).To(Equal("capbm-controllers"))
	g.Expect((&options{components: []string{componentBootstrap}}).leaseName()).To(Equal("capbm-bootstrap"))
	g.Expect((&options{watchFilter: "a"}).leaseName()).To(Equal((&options{watchFilter: "a"}).leaseName()))
}
