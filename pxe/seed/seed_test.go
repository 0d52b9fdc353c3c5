package seed_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

var update = flag.Bool("update", false, "write the golden files")

const base = "http://192.0.2.1:8080"

func data(format seed.Format) seed.Data {
	return seed.Data{
		InstanceID: "i-1", Hostname: "m-1", ProviderID: "baremetal://dc/h/m-1", FailureDomain: "rack '1'",
		Labels: map[string]string{"example.com/rack": "1", "size": "large"}, Format: format, UserData: []byte("## template: jinja\n"), ReportPath: "/report/dc/h/t/up",
	}
}

func read(g Gomega, d seed.Data, name string) string {
	content, ok, err := seed.File(d, name, base)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	return string(content)
}

func TestCloudConfig(t *testing.T) {
	g := NewWithT(t)
	d := data("")
	var meta map[string]any
	g.Expect(yaml.Unmarshal([]byte(read(g, d, seed.MetaData)), &meta)).To(Succeed())
	g.Expect(meta).To(Equal(map[string]any{
		"instance-id": "i-1", "local-hostname": "m-1", "hostname": "m-1", "provider-id": "baremetal://dc/h/m-1", "provider_id": "baremetal://dc/h/m-1",
		"failure-domain": "rack '1'", "failure_domain": "rack '1'", "labels": map[string]any{"example.com/rack": "1", "size": "large"},
	}))
	g.Expect(read(g, d, seed.UserData)).To(Equal("## template: jinja\n"), "the bootstrap data goes through untouched")
	g.Expect(read(g, d, seed.VendorData)).To(HavePrefix("#cloud-config\n"))
	g.Expect(read(g, d, seed.VendorData)).To(ContainSubstring("url: http://192.0.2.1:8080/report/dc/h/t/up"))
	g.Expect(read(g, d, seed.NetworkConfig)).To(BeEmpty(), "the network is the image's")
	d.Network = seedtest.Static()
	g.Expect(read(g, d, seed.NetworkConfig)).To(ContainSubstring("set-name: lan0"))
}

// TestNoOtherFiles: a seed has the files of its format, and no others.
func TestNoOtherFiles(t *testing.T) {
	g := NewWithT(t)
	for format, others := range map[seed.Format][]string{
		seed.CloudConfig: {"../etc/passwd", "", seed.IgnitionFile}, seed.Ignition: {seed.UserData, seed.MetaData, seed.VendorData, seed.NetworkConfig},
	} {
		for _, name := range others {
			content, ok, err := seed.File(data(format), name, base)
			g.Expect(content, ok, err).To(BeEmpty(), name)
			g.Expect(ok).To(BeFalse())
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	g.Expect(seed.FileNames("")).To(Equal([]string{"meta-data", "network-config", "user-data", "vendor-data"}))
	g.Expect(seed.FileNames(seed.Ignition)).To(Equal([]string{"ignition"}))
	_, _, err := seed.File(data("powershell"), seed.UserData, base)
	g.Expect(err).To(MatchError(ContainSubstring(`"powershell" cannot be served: ["cloud-config" "ignition"] can`)))
}

func TestVendorDataReportsTheBootstrap(t *testing.T) {
	g := NewWithT(t)
	d := data(seed.CloudConfig)
	d.SucceededPath, d.FailedPath = "/report/dc/h/t/succeeded", "/report/dc/h/t/failed"
	content := read(g, d, seed.VendorData)
	g.Expect(content).To(HavePrefix("#cloud-config-archive\n"))
	var parts []struct{ Type, Content string }
	g.Expect(yaml.Unmarshal([]byte(content), &parts)).To(Succeed())
	g.Expect(parts).To(HaveLen(2))
	d.SucceededPath, d.FailedPath = "", ""
	g.Expect(parts[0].Content).To(Equal(read(g, d, seed.VendorData)))
	g.Expect(parts[1].Type).To(Equal("text/x-shellscript"))
	g.Expect(parts[1].Content).To(And(HavePrefix("#!/bin/sh\n"),
		ContainSubstring("send 'http://192.0.2.1:8080/report/dc/h/t/succeeded'"), ContainSubstring("send 'http://192.0.2.1:8080/report/dc/h/t/failed'")))
}

func TestCommandLine(t *testing.T) {
	url := base + "/seed/dc/h/t"
	for _, c := range []struct {
		name    string
		format  seed.Format
		network *seed.Network
		want    string
	}{
		{"cloud-config", "", nil, "ds=nocloud;dsmode=net;s=" + url + "/"},
		{"Ignition", seed.Ignition, nil, "ignition.firstboot ignition.platform.id=metal flatcar.first_boot=1 ignition.config.url=" + url + "/ignition"},
		{"Ignition with a network", seed.Ignition, seedtest.Static(), "rd.neednet=1 ifname=lan0:52:54:00:00:00:01 ifname=lan1:52:54:00:00:00:02 " +
			"bond=bond0:lan0,lan1:mode=802.3ad,miimon=100,lacp_rate=fast,xmit_hash_policy=layer3+4 vlan=bond0.100:bond0 ip=eno3:dhcp:9000 " +
			"ip=192.0.2.10::192.0.2.1:255.255.255.0::bond0.100:none ip=[2001:db8::10]::[fe80::1]:64::bond0.100:none " +
			"rd.route=198.51.100.0/24:192.0.2.254:bond0.100 nameserver=192.0.2.53 nameserver=2001:db8::53 " +
			"ignition.firstboot ignition.platform.id=metal flatcar.first_boot=1 ignition.config.url=" + url + "/ignition"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(seed.CommandLine(c.format, c.network, url)).To(Equal(c.want))
		})
	}
	g := NewWithT(t)
	_, err := seed.CommandLine("powershell", nil, url)
	g.Expect(err).To(HaveOccurred())
	n := seedtest.Static()
	for name, ok := range map[string]bool{"vlan100": true, "vlan0100": true, "bond0.0100": true, "lan0.100": false, "vlan101": false, "storage": false, "vlan": false} {
		n.VLANs[0].Name = name
		_, err := seed.CommandLine(seed.Ignition, n, url)
		g.Expect(err == nil).To(Equal(ok), name)
		_, err = seed.CommandLine(seed.CloudConfig, n, url)
		g.Expect(err).NotTo(HaveOccurred(), name)
	}
}

// TestCommandLineNetwork: cloud-init gets the same network from the command line as from the seed, in one word without special characters of boot loaders.
func TestCommandLineNetwork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(t)
		n := seedtest.Networks().Draw(rt, "network")
		line, err := seed.CommandLine(seed.CloudConfig, n, base)
		g.Expect(err).NotTo(HaveOccurred())
		words := strings.Fields(line)
		g.Expect(words).To(HaveLen(2))
		packed, ok := strings.CutPrefix(words[0], "network-config=")
		g.Expect(ok).To(BeTrue())
		g.Expect(packed).To(MatchRegexp(`^[A-Za-z0-9+/=]+$`))
		raw, err := base64.StdEncoding.DecodeString(packed)
		g.Expect(err).NotTo(HaveOccurred())
		unpack, err := gzip.NewReader(bytes.NewReader(raw))
		g.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(unpack)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(MatchYAML(read(g, seed.Data{Network: n}, seed.NetworkConfig)))
	})
}

// TestGolden keeps unchanged what cloud-init, netplan, NetworkManager, systemd and Ignition have accepted.
func TestGolden(t *testing.T) {
	d := data(seed.CloudConfig)
	d.Network, d.SucceededPath, d.FailedPath = seedtest.Static(), "/report/dc/h/t/succeeded", "/report/dc/h/t/failed"
	for _, name := range seed.FileNames(d.Format) {
		golden(t, name, read(NewWithT(t), d, name))
	}
	d.Format = seed.Ignition
	var err error
	d.UserData, err = os.ReadFile("testdata/kubeadm-2.3.ign")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	golden(t, "ignition-files", readable(t, read(NewWithT(t), d, seed.IgnitionFile)))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		g := NewWithT(t)
		path := filepath.Join("testdata", name+".golden")
		if *update {
			g.Expect(os.WriteFile(path, []byte(got), 0o600)).To(Succeed())
		}
		want, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(string(want)), "go test ./pxe/seed -update writes it again")
	})
}
