package seedcheck

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// networks are one that is written out and many that are not: the tools are slow, so all of them go through a tool at once.
func networks() []*seed.Network {
	out := []*seed.Network{seedtest.Static()}
	for i := range 24 {
		out = append(out, seedtest.Networks().Example(i))
	}
	return out
}

func file(t *testing.T, d seed.Data, name string) string {
	t.Helper()
	content, ok, err := seed.File(d, name, "http://192.0.2.1:8080")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(ok).To(BeTrue())
	return string(content)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
}

// tree returns the contents of the files below a folder, by their paths in it.
func tree(t *testing.T, folder string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	out := map[string]string{}
	g.Expect(filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, folder)] = string(content)
		return err
	})).To(Succeed())
	return out
}

// TestCloudInitRenders: cloud-init makes the configuration of every kind of system out of our network-config.
func TestCloudInitRenders(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	all := networks()
	for i, n := range all {
		write(t, filepath.Join(dir, fmt.Sprintf("%02d.yaml", i)), file(t, seed.Data{Network: n}, seed.NetworkConfig))
	}
	var failures map[string]string
	g.Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "convert", dir)), &failures)).To(Succeed())
	g.Expect(failures).To(BeEmpty())
	for i, n := range all {
		for _, kind := range []string{"network-manager", "eni", "networkd"} {
			var rendered strings.Builder
			for _, content := range tree(t, filepath.Join(dir, fmt.Sprintf("%02d.%s", i, kind))) {
				_, _ = rendered.WriteString(content)
			}
			for _, address := range addresses(n) {
				g.Expect(rendered.String()).To(ContainSubstring(address), kind)
			}
		}
		content, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%02d.netplan/etc/netplan/50-cloud-init.yaml", i)))
		g.Expect(err).NotTo(HaveOccurred())
		var passed struct{ Network any }
		g.Expect(yaml.Unmarshal(content, &passed)).To(Succeed())
		var ours any
		g.Expect(yaml.Unmarshal([]byte(file(t, seed.Data{Network: n}, seed.NetworkConfig)), &ours)).To(Succeed())
		g.Expect(passed.Network).To(Equal(ours), "netplan gets it as it is")
	}
}

func addresses(n *seed.Network) []string {
	var out []string
	for _, s := range settings(n) {
		for _, a := range s.Addresses {
			out = append(out, a.Addr().String())
		}
	}
	return out
}

func settings(n *seed.Network) map[string]seed.Settings {
	out := map[string]seed.Settings{}
	for _, i := range n.Interfaces {
		out[i.Name] = i.Settings
	}
	for _, b := range n.Bonds {
		out[b.Name] = b.Settings
	}
	for _, v := range n.VLANs {
		out[v.Name] = v.Settings
	}
	return out
}

// TestNetplanAgrees: netplan takes our network-config without a warning, and the units that it makes of it for systemd-networkd say the
// same as those that we make for systems with Ignition.
func TestNetplanAgrees(t *testing.T) {
	for i, n := range networks() {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			g := NewWithT(t)
			dir := t.TempDir()
			var config any
			g.Expect(yaml.Unmarshal([]byte(file(t, seed.Data{Network: n}, seed.NetworkConfig)), &config)).To(Succeed())
			content, err := yaml.Marshal(map[string]any{"network": config})
			g.Expect(err).NotTo(HaveOccurred())
			write(t, filepath.Join(dir, "etc/netplan/50-cloud-init.yaml"), string(content))
			tool(t, "", netplan, "--root-dir", dir)
			theirs := map[string]string{}
			for path, content := range tree(t, filepath.Join(dir, "run/systemd/network")) {
				theirs[strings.TrimPrefix(path, "/10-netplan-")] = content
			}
			ours := map[string]string{}
			for path, content := range ignitionFiles(t, onNetwork(n), "http://192.0.2.1:8080") {
				if name, ok := strings.CutPrefix(path, "/etc/systemd/network/10-capbm-"); ok {
					ours[name] = content
				}
			}
			for name, content := range ours {
				if strings.HasSuffix(name, ".link") {
					continue // netplan puts the MTU there
				}
				g.Expect(facts(content)).To(Equal(facts(theirs[name])), "%s\n%s\nand netplan's\n%s", name, content, theirs[name])
			}
		})
	}
}

// fact is a setting that two renderings of one network must share. The others are matters of style.
var fact = regexp.MustCompile(`(?m)^(Name|Kind|Id|Address|DNS|Domains|Gateway|Destination|Metric|Bond|PrimarySlave|VLAN|Mode|MIIMonitorSec|LACPTransmitRate|TransmitHashPolicy|DHCP)=.*$`)

func facts(unit string) []string {
	var out []string
	for _, line := range fact.FindAllString(unit, -1) {
		key, value, _ := strings.Cut(line, "=")
		switch {
		case line == "DHCP=no", key == "Name":
			// netplan leaves out what is the default, and matches by name what it lets udev rename.
		case key == "Domains":
			for domain := range strings.FieldsSeq(value) {
				out = append(out, "Domains="+domain)
			}
		default:
			out = append(out, strings.Replace(line, "PrimarySlave=true", "PrimarySlave=yes", 1))
		}
	}
	slices.Sort(out)
	return slices.Compact(out) // netplan repeats the servers of a VLAN whose link comes later in the file
}

// onNetwork is the seed of a system with Ignition and a network.
func onNetwork(n *seed.Network) seed.Data {
	return seed.Data{Network: n, Format: seed.Ignition, UserData: []byte(`{"ignition":{"version":"3.4.0"}}`)}
}

// ignitionFiles returns what Ignition writes, by path.
func ignitionFiles(t *testing.T, d seed.Data, base string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	content, ok, err := seed.File(d, seed.IgnitionFile, base)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	config, err := seedtest.ReadIgnition(content)
	g.Expect(err).NotTo(HaveOccurred())
	out := map[string]string{}
	for _, f := range config.Files {
		out[f.Path] = f.Content
	}
	return out
}

// TestNetworkManagerReads: NetworkManager takes our connections, and loses nothing of them.
func TestNetworkManagerReads(t *testing.T) {
	for i, n := range networks() {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			g := NewWithT(t)
			for path, content := range ignitionFiles(t, onNetwork(n), "http://192.0.2.1:8080") {
				if !strings.HasSuffix(path, ".nmconnection") {
					continue
				}
				read := tool(t, content, nmcli, "--offline", "connection", "modify", "connection.autoconnect", "yes")
				kept := strings.Split(strings.ReplaceAll(read, ";\n", "\n"), "\n")
				for line := range strings.SplitSeq(content, "\n") {
					g.Expect(kept).To(ContainElement(line), path)
				}
			}
		})
	}
}

// TestInitramfsReads: the generators of an initramfs understand the network on the command line: dracut's with NetworkManager (Fedora
// CoreOS), and systemd's (Flatcar).
func TestInitramfsReads(t *testing.T) {
	for i, n := range networks() {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			g := NewWithT(t)
			line, err := seed.CommandLineNetwork(n)
			g.Expect(err).NotTo(HaveOccurred())
			words := append([]string{"--"}, strings.Fields(line)...)
			dir := t.TempDir()
			tool(t, "", networkGenerator, append([]string{"--root=" + dir}, words...)...)
			connections := tool(t, "", initrdGenerator, append([]string{"--stdout", "--sysfs-dir=" + dir}, words...)...)
			units := tree(t, filepath.Join(dir, "run/systemd/network"))
			for name, s := range settings(n) {
				expectLink(g, s, units["/90-"+name+".network"], connections)
			}
			for _, v := range n.VLANs {
				g.Expect(units["/90-"+v.Name+".netdev"]).To(ContainSubstring(fmt.Sprintf("Id=%d\n", v.ID)))
				g.Expect(units["/90-"+v.Link+".network"]).To(ContainSubstring("VLAN=" + v.Name + "\n"))
				g.Expect(connections).To(ContainSubstring(fmt.Sprintf("id=%d\nparent=%s\n", v.ID, v.Link)))
			}
			for _, b := range n.Bonds {
				g.Expect(connections).To(ContainSubstring("mode=" + b.Mode + "\n"))
				for _, member := range b.Interfaces {
					g.Expect(units["/90-"+member+".network"]).To(ContainSubstring("Bond=" + b.Name + "\n"))
				}
			}
		})
	}
}

// expectLink expects a link's addresses and routes in its unit, and among all connections.
func expectLink(g Gomega, s seed.Settings, unit, connections string) {
	for _, a := range s.Addresses {
		g.Expect(unit).To(ContainSubstring("Address=" + a.String() + "\n"))
		g.Expect(connections).To(MatchRegexp(`address\d+=` + regexp.QuoteMeta(a.String())))
	}
	for _, r := range s.Routes {
		g.Expect(unit).To(ContainSubstring("Gateway=" + r.Via.String() + "\n"))
		g.Expect(connections).To(ContainSubstring("," + r.Via.String()))
	}
}
