package agenttest_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	// volumesFolder has what hack/volumes.sh makes.
	volumesFolder = "../../.cache/volumes/"
	// volumeSize is the size of the disks with volumes.
	volumeSize = 16 << 20
)

// volumes are the disks that hack/volumes/init makes members of RAIDs and volume groups, by serial number, with what wipefs calls them. It uses the partition
// of a disk that has one, and otherwise all of the disk.
var volumes = map[string]struct {
	kind      string
	partition bool
}{
	"MD12A": {"linux_raid_member", false}, "MD12B": {"linux_raid_member", false}, "MD11": {"linux_raid_member", true}, "MD10": {"linux_raid_member", true},
	"MD090": {"linux_raid_member", false}, "LVM": {"LVM2_member", false}, "LVMP": {"LVM2_member", true},
}

// makeVolumes lets mdadm and LVM make the volumes in a Linux of their own, and returns the contents of the disks.
func makeVolumes(t *testing.T) map[string][]byte {
	t.Helper()
	g := NewWithT(t)
	files := map[string]string{}
	var args []string
	for _, serial := range slices.Sorted(maps.Keys(volumes)) {
		content := bytes.Repeat([]byte(planted), volumeSize/len(planted))
		if volumes[serial].partition {
			writeTables(content, 512, linuxType, "of "+serial)
		}
		files[serial] = diskFile(t, content)
		args = append(args, drive(strings.ToLower(serial), files[serial], "virtio-blk-pci,serial="+serial)...)
	}
	m := start(t, machine{initrd: volumesFolder + "initrd", args: args})
	m.awaitOff()
	g.Expect(m.said()).To(ContainSubstring("All volumes are made"))
	out := map[string][]byte{}
	for serial, file := range files {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		out[serial] = content
		wipefs, mdadm := volumeOn(t, serial, content)
		g.Expect(wipefs).To(Equal(volumes[serial].kind), "%s before the erasure", serial)
		if strings.HasPrefix(serial, "MD") {
			g.Expect(mdadm).To(ContainSubstring("Raid Level : raid1"), "%s before the erasure", serial)
		}
	}
	return out
}

// volumeOn returns which signatures wipefs finds on a disk or its partition, and what mdadm says about it.
func volumeOn(t *testing.T, serial string, content []byte) (wipefs, mdadm string) {
	t.Helper()
	g := NewWithT(t)
	if volumes[serial].partition {
		content = content[1<<20 : volumeSize-1<<20] // where writeTables puts the partition, to within a sector
	}
	file := diskFile(t, content)
	found, err := exec.CommandContext(t.Context(), "wipefs", "--noheadings", "--output", "TYPE", file).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "wipefs: %s", found)
	tree := filepath.Join(volumesFolder, "tree/usr")
	program := exec.CommandContext(t.Context(), filepath.Join(tree, "lib64/ld-linux-x86-64.so.2"), "--library-path", filepath.Join(tree, "lib/x86_64-linux-gnu"),
		filepath.Join(tree, "sbin/mdadm"), "--examine", file)
	said, err := program.CombinedOutput()
	if failed := new(exec.ExitError); !errors.As(err, &failed) { // the code 1 says that it finds no superblock
		g.Expect(err).NotTo(HaveOccurred(), "hack/volumes.sh unpacks it")
	}
	return strings.TrimSpace(string(found)), string(said)
}

// checkNoVolume: the tools of the next owner find no RAID and no volume group.
func checkNoVolume(t *testing.T, serial, file string) {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	wipefs, mdadm := volumeOn(t, serial, content)
	g.Expect(wipefs).To(BeEmpty(), serial)
	g.Expect(mdadm).To(ContainSubstring("No md superblock detected"), serial)
}
