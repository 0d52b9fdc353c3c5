package hardware_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tree is a file-system root: the contents of files, and with a leading arrow the targets of links.
type tree map[string]string

func (files tree) write(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for path, content := range files {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		create := func() error { return os.WriteFile(full, []byte(content), 0o600) }
		if target, ok := strings.CutPrefix(content, "-> "); ok {
			create = func() error { return os.Symlink(target, full) }
		}
		if err := create(); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// structure encodes an SMBIOS structure of a length. fields are bytes at offsets, and strings get the numbers from 1.
func structure(kind byte, length int, fields map[int]any, texts ...string) []byte {
	b := make([]byte, length)
	b[0], b[1] = kind, byte(length)
	for offset, value := range fields {
		switch v := value.(type) {
		case int:
			b[offset] = byte(v)
		case uint16:
			binary.LittleEndian.PutUint16(b[offset:], v)
		case uint32:
			binary.LittleEndian.PutUint32(b[offset:], v)
		case string:
			copy(b[offset:], v)
		}
	}
	// Each text ends in a zero, and the last one in two. Without texts there are two zeros.
	return slices.Concat(b, []byte(strings.Join(texts, "\x00")), []byte{0, 0})
}

const systemID = "\x33\x22\x11\x00\x55\x44\x77\x66\x88\x99\xaa\xbb\xcc\xdd\xee\xff"

// qemu is what a guest of QEMU (machine q35, two virtio devices) shows.
func qemu() tree {
	table := string(structure(0, 24, map[int]any{4: 1, 5: 2, 8: 3}, "SeaBIOS", "1.16.2-debian-1.16.2-1", "04/01/2014")) +
		string(structure(1, 27, map[int]any{4: 1, 5: 2, 6: 3, 8: systemID}, "QEMU", "Standard PC (Q35 + ICH9, 2009)", "pc-q35-7.2")) +
		string(structure(4, 42, map[int]any{7: 1, 0x10: 2, 0x18: 0x41}, "QEMU", "pc-q35-7.2")) +
		string(structure(17, 40, map[int]any{0x0c: uint16(512), 0x10: 1, 0x12: 7, 0x17: 2}, "DIMM 0", "QEMU")) +
		string(structure(127, 4, nil))
	return tree{
		"sys/firmware/dmi/tables/DMI":                table,
		"sys/firmware/dmi/tables/smbios_entry_point": "_SM_\x00\x1f\x02\x08",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Intel Core i7 9xx (Nehalem Class Core i7)\nflags\t\t: fpu sse4_2 lm\n\nprocessor\t: 1\nmodel name\t: other\n",
		"sys/devices/system/cpu/cpu0/topology/core_cpus_list":          "0\n",
		"sys/devices/system/cpu/cpu0/topology/physical_package_id":     "0\n",
		"sys/devices/system/cpu/cpufreq/none":                          "",
		"sys/devices/system/node/node0/cpulist":                        "0\n",
		"sys/class/net/lo/type":                                        "772\n",
		"sys/class/net/lo/address":                                     "00:00:00:00:00:00\n",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/type":    "1\n",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/address": "52:54:00:12:34:56\n",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/carrier": "1\n",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/speed":   "-1\n",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0/device":  "-> ../../../virtio0",
		"sys/devices/pci0000:00/0000:00:02.0/virtio0/driver":           "-> ../../../../bus/virtio/drivers/virtio_net",
		"sys/bus/virtio/drivers/virtio_net/bind":                       "",
		"sys/devices/pci0000:00/0000:00:02.0/vendor":                   "0x1af4\n",
		"sys/devices/pci0000:00/0000:00:02.0/device":                   "0x1041\n",
		"sys/devices/pci0000:00/0000:00:02.0/class":                    "0x020000\n",
		"sys/devices/pci0000:00/0000:00:01.0/class":                    "0x030000\n",
		"sys/devices/pci0000:00/0000:00:01.0/vendor":                   "0x1234\n",
		"sys/devices/pci0000:00/0000:00:01.0/device":                   "0x1111\n",
		"sys/class/net/eth0":                                           "-> ../../devices/pci0000:00/0000:00:02.0/virtio0/net/eth0",
		"sys/bus/pci/devices/0000:00:02.0":                             "-> ../../../devices/pci0000:00/0000:00:02.0",
		"sys/bus/pci/devices/0000:00:01.0":                             "-> ../../../devices/pci0000:00/0000:00:01.0",
		"sys/block/vda/queue/discard_max_bytes":                        "2147483136\n",
		"sys/block/vda/queue/write_zeroes_max_bytes":                   "0\n",
	}
}

// server is a server with two sockets, made by hand: 2 x 2 cores with 2 threads, two NUMA nodes, UEFI with Secure Boot, a TPM, GPUs and an adapter.
func server() tree {
	table := string(structure(0, 26, map[int]any{4: 1, 5: 2, 8: 3}, "Example Firmware", "2.10.2", "08/15/2025")) +
		string(structure(1, 27, map[int]any{4: 1, 5: 2, 7: 3, 8: systemID}, "Example Inc.", "Rack R2", "SYS0001")) +
		string(structure(2, 15, map[int]any{7: 1, 13: 3}, "RISER1")) +
		string(structure(2, 15, map[int]any{7: 1, 13: 10}, "BOARD1")) +
		string(structure(4, 48, map[int]any{0x10: 1, 0x18: 0x41}, "Example CPU 8000")) +
		string(structure(4, 48, map[int]any{0x10: 1, 0x18: 0x41}, "Example CPU 8000")) +
		string(structure(4, 48, map[int]any{0x10: 1, 0x18: 0x00}, "an empty socket"))
	modules := []byte(table)
	for i := range 4 {
		modules = append(modules, structure(17, 92, map[int]any{
			0x0c: uint16(0x7fff), 0x1c: uint32(65536), 0x10: 1, 0x11: 2, 0x12: 0x22, 0x15: uint16(5600), 0x17: 3, 0x18: 4, 0x1a: 5, 0x20: uint16(4800),
		}, fmt.Sprintf("A%d", i+1), "NODE 0", "Example Memory", fmt.Sprintf("0000%04d", i+1), "EX64G-5600")...)
	}
	table = string(modules)
	table += string(structure(17, 92, map[int]any{0x10: 1}, "B1")) // an empty slot
	table += string(structure(17, 92, map[int]any{0x0c: uint16(0x7fff), 0x1c: uint32(131072), 0x10: 1, 0x12: 0x1f}, "NV1"))
	table += string(structure(127, 4, nil))
	files := tree{
		"sys/firmware/dmi/tables/DMI":                table,
		"sys/firmware/dmi/tables/smbios_entry_point": "_SM3_\x00\x18\x03\x06",
		"proc/cpuinfo": "processor\t: 0\nmodel name\t: Example(R) CPU 8000\nflags\t\t: fpu vmx avx512f amx_tile aes\n\n",
		"sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\x00\x00\x00\x01",
		"sys/class/tpm/tpm0/tpm_version_major":                                     "2\n",
		"sys/class/net/eno1":                                                       "-> ../../devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1",
		"sys/class/net/bond0/type":                                                 "1\n",
		"sys/class/net/bond0/address":                                              "aa:bb:cc:00:00:01\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1/type":           "1\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1/address":        "aa:bb:cc:00:00:01\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1/carrier":        "1\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1/speed":          "25000\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/net/eno1/device":         "-> ../../../0000:18:00.0",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/numa_node":               "1\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/vendor":                  "0x8086\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/device":                  "0x159b\n",
		"sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/class":                   "0x020000\n",
		"sys/bus/pci/devices/0000:18:00.0":                                         "-> ../../../devices/pci0000:17/0000:17:00.0/0000:18:00.0",
		"sys/block/nvme0n1/queue/discard_max_bytes":                                "2199023255040\n",
		"sys/block/nvme0n1/queue/write_zeroes_max_bytes":                           "131072\n",
	}
	for address, device := range map[string][3]string{
		"0000:03:00.0": {"0x030000", "0x1a03", "0x2000"}, "0000:3b:00.0": {"0x030200", "0x10de", "0x20b5"}, "0000:86:00.0": {"0x120000", "0x1da3", "0x1020"},
		"0000:00:1f.0": {"0x060100", "0x8086", "0xa1c1"},
	} {
		for i, file := range []string{"class", "vendor", "device"} {
			files["sys/bus/pci/devices/"+address+"/"+file] = device[i] + "\n"
		}
	}
	for i := range 8 {
		folder := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", i)
		files[folder+"core_cpus_list"] = fmt.Sprintf("%d,%d\n", i%4, i%4+4)
		files[folder+"physical_package_id"] = fmt.Sprintf("%d\n", i%4/2)
	}
	for i := range 2 {
		files[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = "0\n"
	}
	return files
}
