package agenttest_test

import (
	"bytes"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	. "github.com/onsi/gomega"
)

// forbidden are the modules that would hold disks (md, the device mapper, bcache), and those that would show the agent disks which it must not see: USB
// storage, SD cards and eMMC, and disks over a network.
var forbidden = map[string]bool{
	"md-mod": true, "dm-mod": true, "bcache": true, "usb-storage": true, "uas": true, "mmc_block": true,
	"iscsi_tcp": true, "nvme-tcp": true, "nvme-rdma": true, "nvme-fc": true, "nvme-fabrics": true, "nbd": true, "rbd": true,
}

func isForbidden(module string) bool {
	name := strings.TrimSuffix(path.Base(module), ".ko")
	// dm-builtin has one function for the end of a device, and no device (the kernel's drivers/md/dm-builtin.c).
	return forbidden[name] || strings.Contains(module, "/drivers/md/") && name != "dm-builtin"
}

// TestErasureHoldsNothing: neither the ramdisk nor the kernel of the agent has a module that assembles what is on disks, or that shows disks which
// docs/cleaning.md says the agent does not see.
func TestErasureHoldsNothing(t *testing.T) {
	g := NewWithT(t)
	files := ramdiskFiles(t, filepath.Join(output, "ramdisk"))
	modules, lists := 0, 0
	for name, content := range files {
		switch {
		case strings.HasSuffix(name, ".ko"):
			modules++
			g.Expect(isForbidden(name)).To(BeFalse(), "the ramdisk has %s", name)
		case path.Base(name) == "modules.dep":
			lists++
			for word := range strings.FieldsSeq(string(content)) {
				g.Expect(isForbidden("/"+strings.TrimSuffix(word, ":"))).To(BeFalse(), "modules.dep has %s", word)
			}
		default:
			g.Expect(name).NotTo(ContainSubstring(".ko."), "a compressed module would not be checked")
		}
	}
	g.Expect(modules).To(BeNumerically(">", 100))
	g.Expect(lists).To(Equal(1))
	g.Expect(files).To(HaveKey("init"))

	builtin, err := filepath.Glob("../../.cache/agent/amd64/linux-image-*/usr/lib/modules/*/modules.builtin")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(builtin).To(HaveLen(1), "hack/agent.sh unpacks the kernel")
	content, err := os.ReadFile(builtin[0])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(ContainSubstring("kernel/drivers/virtio/virtio.ko"))
	for line := range strings.Lines(string(content)) {
		g.Expect(isForbidden("/"+strings.TrimSpace(line))).To(BeFalse(), "%s is a part of the kernel", line)
	}
}

// ramdiskFiles returns the files of a ramdisk: archives in the format "newc" of cpio, one after another, each of them a frame of zstd.
func ramdiskFiles(t *testing.T, name string) map[string][]byte {
	t.Helper()
	g := NewWithT(t)
	source, err := os.Open(name)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = source.Close() }()
	reader, err := zstd.NewReader(source)
	g.Expect(err).NotTo(HaveOccurred())
	defer reader.Close()
	archive, err := io.ReadAll(reader)
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string][]byte{}
	const header = 110 // the magic and 13 numbers of 8 digits
	padded := func(n int) int { return (n + 3) &^ 3 }
	for len(archive) > 0 {
		g.Expect(bytes.HasPrefix(archive, []byte("070701"))).To(BeTrue())
		number := func(i int) int {
			n, err := strconv.ParseUint(string(archive[6+8*i:14+8*i]), 16, 31)
			g.Expect(err).NotTo(HaveOccurred())
			return int(n)
		}
		size, length := number(6), number(11)
		begin := padded(header + length)
		files[string(archive[header:header+length-1])] = archive[begin : begin+size]
		archive = archive[min(padded(begin+size), len(archive)):]
	}
	return files
}
