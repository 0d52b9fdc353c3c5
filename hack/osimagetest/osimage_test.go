// Package osimagetest boots the images of hack/osimage.sh as the disks of emulated PCs, with bootstrap data on a partition at the end of the disk or
// on a second disk, and waits for their reports. It needs root, and what hack/firmware.sh and hack/osimage.sh install.
package osimagetest

import (
	"fmt"
	"net/url"
	"os"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make osimage-test", ".cache/osimage/stamp", ".cache/firmware")
	os.Exit(netns.Main(m, func() int {
		if err := netns.Do("ip link set lo up"); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}))
}

// bootTimeout is how long the report of an image may take: three times what it takes with two of them on a quiet machine with two processors.
const (
	smallBootTimeout  = 90 * time.Second
	debianBootTimeout = 6 * time.Minute
)

// secureBootProof is what the kernel logs if the firmware says that Secure Boot is on.
const secureBootProof = "secureboot: Secure boot enabled"

// TestSmall: the small images boot from every kind of disk, find their data and report.
func TestSmall(t *testing.T) {
	for _, c := range []struct {
		name, image string
		firmware    qemu.Firmware
		bus         []string
		reports     string
		// own puts the data on a disk of its own.
		own bool
	}{
		{name: "UEFI and virtio-blk", image: "small-gpt.raw", firmware: qemu.UEFI(), bus: virtioBlk, reports: "UEFI"},
		{name: "UEFI and AHCI", image: "small-gpt.raw", firmware: qemu.UEFI(), bus: ahci, reports: "UEFI"},
		{name: "UEFI and NVMe", image: "small-gpt.raw", firmware: qemu.UEFI(), bus: nvme, reports: "UEFI"},
		{name: "UEFI and virtio-scsi", image: "small-gpt.raw", firmware: qemu.UEFI(), bus: virtioSCSI, reports: "UEFI"},
		{name: "UEFI and virtio-scsi with 4096", image: "small-gpt4096.raw", firmware: qemu.UEFI(), bus: sectors4096(virtioSCSI), own: true, reports: "UEFI"},
		{name: "UEFI and NVMe with 4096", image: "small-gpt4096.raw", firmware: qemu.UEFI(), bus: sectors4096(nvme), own: true, reports: "UEFI"},
		{name: "Secure Boot", image: "small-gpt.raw", firmware: qemu.SecureUEFI(), bus: virtioBlk, reports: "UEFI"},
		{name: "BIOS", image: "small-gpt.raw", firmware: qemu.BIOS(), bus: virtioBlk, reports: "BIOS"},
		{name: "BIOS and AHCI", image: "small-gpt.raw", firmware: qemu.BIOS(), bus: append([]string{"-device", "ahci,id=ahci"}, "-device", "ide-hd,bus=ahci.0"), reports: "BIOS"},
		{name: "BIOS and MBR", image: "small-mbr.raw", firmware: qemu.BIOS(), bus: virtioBlk, own: true, reports: "BIOS"},
		{name: "BIOS without ESP", image: "small-noesp.raw", firmware: qemu.BIOS(), bus: virtioBlk, reports: "BIOS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			m := build(t, c.image, 128, c.firmware, c.bus)
			m.writeData(t, noCloud, "phone_home:\n  url: "+m.url+"\n", c.own)
			report := m.boot(t, 512, smallBootTimeout)
			g.Expect(report.Get("instance_id")).To(Equal(m.id))
			g.Expect(report.Get("firmware")).To(Equal(c.reports))
			if c.name == "Secure Boot" {
				g.Expect(m.Console()).To(ContainSubstring(secureBootProof))
			}
		})
	}
}

// TestRefused: firmware finds nothing to boot on a disk that has nothing for it.
func TestRefused(t *testing.T) {
	for _, image := range []string{"small-noesp.raw", "small-mbr.raw"} {
		t.Run(image, func(t *testing.T) {
			t.Parallel()
			m := build(t, image, 128, qemu.UEFI(), virtioBlk)
			m.start(t, 512)
			NewWithT(t).Eventually(m.Console, smallBootTimeout, "200ms").Should(ContainSubstring("BdsDxe: failed to load"))
			NewWithT(t).Expect(m.Console()).NotTo(ContainSubstring("small:"))
		})
	}
}

// TestDebian: cloud-init applies the data at the end of the disk, and enlarges the root partition up to it.
func TestDebian(t *testing.T) {
	for _, c := range []struct {
		name     string
		firmware qemu.Firmware
		bus      []string
		source   dataSource
	}{
		{"UEFI", qemu.UEFI(), virtioBlk, noCloud},
		{"UEFI and NVMe", qemu.UEFI(), nvme, configDrive},
		{"Secure Boot and virtio-scsi", qemu.SecureUEFI(), virtioSCSI, noCloud},
		{"BIOS and AHCI", qemu.BIOS(), append([]string{"-device", "ahci,id=ahci"}, "-device", "ide-hd,bus=ahci.0"), noCloud},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			m := build(t, "debian.raw", 4096, c.firmware, c.bus)
			m.writeData(t, c.source, fmt.Sprintf(debianUserData, m.url), false)
			report := m.boot(t, 1536, debianBootTimeout)
			g.Expect(report.Get("id")).To(Equal(m.id))
			g.Expect(report.Get("host")).To(Equal(hostName))
			g.Expect(report.Get("source")).To(HavePrefix(string(c.source)))
			if c.name == "Secure Boot and virtio-scsi" {
				g.Expect(m.Console()).To(ContainSubstring(secureBootProof))
			}
			grown(t, m, report)
			m.Off()
			m.expectData(t)
		})
	}
}

// debianUserData reports after the modules that enlarge the root partition. growpart runs in the network stage, and runcmd in the final one.
// Programs of cloud-init, such as its query, take seconds each.
const debianUserData = `runcmd:
- - sh
  - -c
  - >-
    curl --silent --show-error --fail --data-urlencode "id=$(cat /var/lib/cloud/data/instance-id)" --data-urlencode "host=$(hostname)"
    --data-urlencode "source=$(cat /var/lib/cloud/instance/datasource)"
    --data-urlencode "partition=$(blockdev --getsize64 $(findmnt -no SOURCE /))" --data-urlencode "filesystem=$(df -B1 --output=size / | tail -n 1)"
    %s
`

// grown checks that the root partition and its file system reach up to the data partition.
func grown(t *testing.T, m *machine, report url.Values) {
	t.Helper()
	g := NewWithT(t)
	partition, err := strconv.ParseInt(report.Get("partition"), 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("the root partition has %d MiB, and its file system %s bytes", partition>>20, report.Get("filesystem"))
	start := m.partitionStart(t, 1)
	g.Expect(start+partition).To(And(BeNumerically("<=", m.dataAt), BeNumerically(">", m.dataAt-4<<20)), "the end of the root partition, before the data")
	// Debian reserves nothing of the size for itself except the tables of ext4.
	g.Expect(strconv.ParseInt(report.Get("filesystem"), 10, 64)).To(BeNumerically(">", partition*9/10))
}
