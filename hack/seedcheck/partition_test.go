package seedcheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

const base = "http://192.0.2.1:8080"

// partitionReading is what cloud-init made of a partition.
type partitionReading struct {
	reading

	Kind string `json:"kind"`
	// Netplan is the network in netplan's format, as cloud-init renders it.
	Netplan netplanFile `json:"netplan"`
}

type netplanFile struct {
	Network struct {
		Ethernets map[string]netplanEntry `json:"ethernets"`
		Bonds     map[string]netplanEntry `json:"bonds"`
		VLANs     map[string]netplanEntry `json:"vlans"`
	} `json:"network"`
}

// netplanEntry has what both data sources must agree on.
type netplanEntry struct {
	Match       map[string]string `json:"match"`
	SetName     string            `json:"set-name"`
	MTU         int               `json:"mtu"`
	Addresses   []string          `json:"addresses"`
	DHCP4       bool              `json:"dhcp4"`
	DHCP6       bool              `json:"dhcp6"`
	ID          int               `json:"id"`
	Link        string            `json:"link"`
	Interfaces  []string          `json:"interfaces"`
	Parameters  map[string]any    `json:"parameters"`
	Nameservers struct {
		Addresses []string `json:"addresses"`
		Search    []string `json:"search"`
	} `json:"nameservers"`
	Routes []netplanRoute `json:"routes"`
}

type netplanRoute struct {
	To     string `json:"to"`
	Via    string `json:"via"`
	Metric int    `json:"metric"`
}

// partition writes a partition to a file, lets fsck.vfat and blkid check it, and extracts its files with mtools.
func partition(t *testing.T, d seed.Data, source wire.DataSource, sectorSize int) (folder string, said string) {
	t.Helper()
	g := NewWithT(t)
	p, err := seed.Partition(d, source, base, sectorSize)
	g.Expect(err).NotTo(HaveOccurred())
	folder = t.TempDir()
	image := filepath.Join(folder, "image")
	g.Expect(os.WriteFile(image, p.Head, 0o600)).To(Succeed())
	g.Expect(os.Truncate(image, p.Size)).To(Succeed())
	said = checkFAT(t, image)
	out, _, err := run(t, "", nil, "/sbin/blkid", "-p", "-o", "value", "-s", "LABEL", image)
	g.Expect(err).NotTo(HaveOccurred())
	write(t, filepath.Join(folder, "label"), strings.TrimSpace(out))
	extract(t, image, filepath.Join(folder, "files"))
	return folder, said
}

func checkFAT(t *testing.T, image string) string {
	t.Helper()
	out, said, err := run(t, "", nil, "/sbin/fsck.vfat", "-n", "-v", image)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s%s", out, said)
	NewWithT(t).Expect(said).To(BeEmpty())
	return out
}

func extract(t *testing.T, image, folder string) {
	t.Helper()
	NewWithT(t).Expect(os.Mkdir(folder, 0o700)).To(Succeed())
	_, said, err := run(t, "", []string{"MTOOLS_SKIP_CHECK=0", "PATH=/usr/bin:/bin"}, "/usr/bin/mcopy", "-s", "-n", "-i", image, "::*", folder)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), said)
}

// TestPartition: cloud-init's data sources for local disks read the partition, and make the same of it.
func TestPartition(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		var networks []netplanFile
		for _, c := range []struct {
			source wire.DataSource
			kind   string
		}{{wire.DataSourceNoCloud, "DataSourceNoCloud"}, {wire.DataSourceConfigDrive, "DataSourceConfigDrive"}} {
			t.Run(fmt.Sprintf("%s with sectors of %d bytes", c.source, sectorSize), func(t *testing.T) {
				g := NewWithT(t)
				d := data(t)
				d.Network = seedtest.Static()
				folder, said := partition(t, d, c.source, sectorSize)
				g.Expect(said).To(ContainSubstring("FATs, 16 bit entries"))
				g.Expect(said).To(ContainSubstring(fmt.Sprintf("%d bytes per logical sector", sectorSize)))
				var r partitionReading
				g.Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "partition", folder)), &r)).To(Succeed())
				g.Expect(r.Kind).To(Equal(c.kind))
				g.Expect(r.Instance).To(Equal("i-1"))
				g.Expect(r.Hostname).To(Equal("m-1"))
				g.Expect(r.Metadata).To(HaveKeyWithValue("labels", map[string]any{"example.com/rack-row": "r-1"}))
				g.Expect(r.Metadata).To(HaveKeyWithValue("provider_id", d.ProviderID))
				g.Expect(r.UserData).To(Equal(string(d.UserData)))
				g.Expect(r.Vendor).To(HaveLen(2))
				g.Expect(r.Vendor[0].Content).To(ContainSubstring(base + d.ReportPath))
				g.Expect(r.Vendor[1].Content).To(ContainSubstring(base + d.SucceededPath))
				schema(t, r.Vendor[0].Content)
				networks = append(networks, r.Netplan)
			})
		}
		NewWithT(t).Expect(networks).To(HaveLen(2))
		NewWithT(t).Expect(networks[0].Network.Bonds).To(HaveKey("bond0"))
		NewWithT(t).Expect(networks[1].sorted()).To(Equal(networks[0].sorted()), "the data sources give the same network")
	}
}

// TestPartitionNetworks: both data sources give the same network, whatever it is.
func TestPartitionNetworks(t *testing.T) {
	for i, network := range networks()[:10] {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			var read [2]partitionReading
			for i, source := range []wire.DataSource{wire.DataSourceNoCloud, wire.DataSourceConfigDrive} {
				d := data(t)
				d.Network = network
				folder, _ := partition(t, d, source, 512)
				NewWithT(t).Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "partition", folder)), &read[i])).To(Succeed())
			}
			NewWithT(t).Expect(read[1].Netplan.sorted()).To(Equal(read[0].Netplan.sorted()))
		})
	}
}

// sorted sorts what has no order. Routes differ in order, because those of a configuration drive are with the addresses of their family.
func (f netplanFile) sorted() netplanFile {
	for _, links := range []map[string]netplanEntry{f.Network.Ethernets, f.Network.Bonds, f.Network.VLANs} {
		for _, link := range links {
			slices.SortFunc(link.Routes, func(a, b netplanRoute) int { return strings.Compare(a.To+a.Via, b.To+b.Via) })
			slices.Sort(link.Addresses)
		}
	}
	return f
}

// TestPartitionOfTheImagesNetwork: without a network cloud-init reads the partition and leaves the network alone.
func TestPartitionOfTheImagesNetwork(t *testing.T) {
	for _, source := range []wire.DataSource{wire.DataSourceNoCloud, wire.DataSourceConfigDrive} {
		folder, _ := partition(t, data(t), source, 512)
		var r partitionReading
		NewWithT(t).Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "partition", folder)), &r)).To(Succeed())
		NewWithT(t).Expect(r.Network).To(BeNil())
	}
}

// TestPartitionOfIgnition: the user data is a config that Ignition's parser accepts, where its provider for OpenStack reads it.
func TestPartitionOfIgnition(t *testing.T) {
	g := NewWithT(t)
	d := data(t)
	d.Format, d.UserData, d.Network = seed.Ignition, []byte(`{"ignition":{"version":"3.4.0"}}`), seedtest.Static()
	folder, _ := partition(t, d, wire.DataSourceConfigDrive, 4096)
	g.Expect(os.ReadFile(filepath.Join(folder, "label"))).To(BeEquivalentTo("CONFIG-2"))
	content, err := os.ReadFile(filepath.Join(folder, "files/openstack/latest/user_data"))
	g.Expect(err).NotTo(HaveOccurred())
	_, report, err := config.Parse(content)
	g.Expect(err).NotTo(HaveOccurred(), report.String())
	g.Expect(string(content)).To(Equal(file(t, d, seed.IgnitionFile)), "it is the config that the boot server serves")
}

// TestFAT16: fsck.vfat and mtools read file systems with many files, and with files of all sizes around that of a cluster.
func TestFAT16(t *testing.T) {
	sizes := []int{0, 1, 4095, 4096, 4097, 3*4096 + 5, 1 << 20}
	for _, sectorSize := range []int{512, 4096} {
		t.Run(strconv.Itoa(sectorSize), func(t *testing.T) {
			g := NewWithT(t)
			var files []fat16.File
			for i := range 40 {
				path := fmt.Sprintf("folder %d/a/some.long-name_of 26 character %d", i%3, i)
				path = strings.ReplaceAll(path, " ", "_")
				if i%2 == 0 {
					path = fmt.Sprintf("%s%d", strings.Repeat("x", 1+i), i)
				}
				files = append(files, fat16.File{Path: path, Content: []byte(strings.Repeat("0123456789abcdef", sizes[i%len(sizes)]/16+1)[:sizes[i%len(sizes)]])})
			}
			content, err := fat16.Render(fat16.Options{Label: "TEST", Serial: 0x12345678, SectorSize: sectorSize}, files)
			g.Expect(err).NotTo(HaveOccurred())
			image := filepath.Join(t.TempDir(), "image")
			g.Expect(os.WriteFile(image, content, 0o600)).To(Succeed())
			g.Expect(os.Truncate(image, fat16.Size)).To(Succeed())
			checkFAT(t, image)
			folder := filepath.Join(t.TempDir(), "files")
			extract(t, image, folder)
			got := tree(t, folder)
			g.Expect(got).To(HaveLen(len(files)))
			for _, f := range files {
				g.Expect(bytes.Equal([]byte(got["/"+f.Path]), f.Content)).To(BeTrue(), f.Path)
			}
		})
	}
}
