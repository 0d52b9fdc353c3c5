package disk

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a sysfs for tests.
type tree struct {
	t *testing.T
	Tree
}

func newTree(t *testing.T) tree {
	t.Helper()
	root := t.TempDir()
	tr := tree{t, Tree{Sys: filepath.Join(root, "sys"), Dev: filepath.Join(root, "dev"), Proc: filepath.Join(root, "proc")}}
	tr.write("../proc/self/mountinfo", "22 1 8:33 / /mnt/data rw - ext4 /dev/sdc1 rw\n23 1 253:0 / /old rw - ext4 /dev/dm-0 rw\n")
	tr.write("block/.keep", "")
	if err := os.Remove(filepath.Join(tr.Sys, "block/.keep")); err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr tree) write(name, content string) {
	tr.t.Helper()
	name = filepath.Join(tr.Sys, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		tr.t.Fatal(err)
	}
}

// link makes a relative link, as sysfs has them.
func (tr tree) link(name, to string) {
	tr.t.Helper()
	name = filepath.Join(tr.Sys, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(tr.Sys, to), 0o755); err != nil {
		tr.t.Fatal(err)
	}
	relative, err := filepath.Rel(filepath.Dir(name), filepath.Join(tr.Sys, to))
	if err != nil {
		tr.t.Fatal(err)
	}
	if err := os.Symlink(relative, name); err != nil && !os.IsExist(err) {
		tr.t.Fatal(err)
	}
}

// disk adds a disk. path is its place below devices. The subsystems are those that the kernel shows for names like these.
func (tr tree) disk(path string, attributes map[string]string) {
	tr.t.Helper()
	dir := filepath.Join("devices", path)
	name := filepath.Base(dir)
	tr.link("block/"+name, dir)
	for up := dir; up != "devices"; up = filepath.Dir(up) {
		base := filepath.Base(up)
		switch {
		case strings.HasPrefix(base, "pci"):
			tr.write(up+"/uevent", "")
		case pciAddress(base):
			tr.link(up+"/subsystem", "bus/pci")
		case strings.HasPrefix(base, "virtio"):
			tr.link(up+"/subsystem", "bus/virtio")
		case strings.HasPrefix(base, "host"), strings.HasPrefix(base, "target"), strings.Count(base, ":") == 3:
			tr.link(up+"/subsystem", "bus/scsi")
		case strings.Contains(up, "/usb"):
			tr.link(up+"/subsystem", "bus/usb")
		case strings.HasPrefix(base, "nvme") && base != "nvme" && base != name:
			tr.link(up+"/subsystem", "class/nvme")
		case strings.HasPrefix(base, "mmc"):
			tr.link(up+"/subsystem", "bus/mmc")
		case strings.HasSuffix(base, ".sata"):
			tr.link(up+"/subsystem", "bus/platform")
		}
	}
	parent := filepath.Dir(dir)
	if filepath.Base(parent) == "block" {
		parent = filepath.Dir(parent)
	}
	tr.link(dir+"/device", parent)
	for k, v := range map[string]string{"size": "16777216", "queue/logical_block_size": "512", "queue/rotational": "0", "removable": "0", "ro": "0"} {
		tr.write(dir+"/"+k, v+"\n")
	}
	for k, v := range attributes {
		if k, ok := strings.CutPrefix(k, "device/"); ok {
			tr.write(parent+"/"+k, v)
			continue
		}
		tr.write(dir+"/"+k, v)
	}
}

func pciAddress(base string) bool {
	return strings.Count(base, ":") == 2 && strings.HasSuffix(base, ".0") || strings.Count(base, ":") == 2 && strings.Count(base, ".") == 1 && len(base) == 12
}

// page makes a page of vital product data.
func page(number byte, content string) string {
	head := []byte{0, number, 0, 0}
	binary.BigEndian.PutUint16(head[2:], uint16(len(content)))
	return string(head) + content
}

func TestList(t *testing.T) {
	tr := newTree(t)
	const pci = "pci0000:00/0000:00:1f.2"
	identify := make([]byte, 512)
	for i, c := range []byte("aSsmnu gSS D68 0                        ") {
		identify[54+i] = c
	}
	ata := pci + "/ata2/host1/target1:0:0/1:0:0:0/block/sda"
	tr.write("class/ata_port/ata2/port_no", "2\n")
	tr.disk(ata, map[string]string{
		"device/vendor": "ATA     \n", "device/model": "Samsung SSD 860 \n", "device/type": "0\n", "queue/rotational": "0",
		"device/vpd_pg80": page(0x80, "      S3Z9NB0K1 "), "device/vpd_pg83": page(0x83, "\x02\x01\x00\x03ATA\x01\x03\x00\x08\x50\x02\x53\x88\x00\x00\x00\x01"),
		"device/vpd_pg89": page(0x89, string(make([]byte, 56))+string(identify)),
	})
	tr.disk("pci0000:00/0000:00:01.1/0000:03:00.0/host4/port-4:0/expander-4:0/port-4:0:1/end_device-4:0:1/target4:0:1/4:0:1:0/block/sdb",
		map[string]string{"device/vendor": "SEAGATE", "device/model": "ST8000", "device/type": "0", "device/wwid": "naa.5000C500A1B2C3D4\n", "size": "15628053168", "queue/rotational": "1"})
	tr.write("class/sas_device/end_device-4:0:1/phy_identifier", "5\n")
	tr.write("class/sas_port/port-4:0:1/num_phys", "1\n")
	tr.write("class/sas_device/expander-4:0/sas_address", "0x500056b3f6e0c1ff\n")
	tr.disk("pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/host6/target6:0:0/6:0:0:0/block/sdc", map[string]string{
		"device/vendor": "AMI", "device/model": "Virtual HDisk0", "device/type": "0", "removable": "1", "sdc1/partition": "1", "sdc1/dev": "8:33\n", "dev": "8:32",
	})
	tr.disk("pci0000:00/0000:00:02.0/virtio1/block/vda", map[string]string{"serial": "disk-1\n", "device/vendor": "0x1af4\n"})
	tr.disk("pci0000:00/0000:00:03.0/virtio2/host7/target7:0:3/7:0:3:300/block/sdd", map[string]string{"device/type": "0", "ro": "1"})
	tr.disk("pci0000:5d/0000:5d:05.5/pci10000:00/10000:00:02.0/10000:01:00.0/nvme/nvme0/nvme0n1", map[string]string{
		"nsid": "1\n", "device/model": "SSD P5510", "device/serial": " PHAC1 ", "device/firmware_rev": "2CV1", "wwid": "eui.01000000010000005cd2e4\n", "eui": "5c d2 e4 00 11 22 33 44\n",
		"queue/zoned": "none", "holders/dm-0/x": "", "dev": "259:0",
	})
	tr.disk("virtual/nvme-subsystem/nvme-subsys1/nvme1n1", map[string]string{"device/model": "PM1733", "device/serial": "S4Y1", "wwid": "eui.36344730528020290025384500000001"})
	tr.disk("pci0000:80/0000:80:01.0/0000:81:00.0/nvme/nvme1/nvme1c1n1", map[string]string{"hidden": "1", "nsid": "1"})
	tr.write("devices/virtual/block/dm-0/dm/name", "vg-root\n")
	tr.write("devices/virtual/block/dm-0/dev", "253:0\n")
	tr.link("block/dm-0", "devices/virtual/block/dm-0")
	for _, name := range []string{"loop0", "zram0", "md127", "nbd0"} {
		tr.disk("virtual/block/"+name, nil)
	}
	tr.disk(pci+"/ata1/host0/target0:0:0/0:0:0:0/block/sr0", map[string]string{"device/type": "5"})
	tr.disk("pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0", map[string]string{"device/name": "DG4016", "device/serial": "0x1234"})
	tr.disk("pci0000:00/0000:00:1a.0/mmc_host/mmc0/mmc0:0001/block/mmcblk0boot0", nil)
	tr.disk("pci0000:00/0000:00:14.0/usb1/1-3/1-3:1.0/host8/target8:0:0/8:0:0:0/block/sde", map[string]string{"device/type": "0", "size": "0"})                       // no card
	tr.disk("pci0000:00/0000:00:01.1/0000:03:00.0/host4/port-4:0/end_device-4:0:9/target4:0:9/4:0:9:0/block/sdz", map[string]string{"device/type": "0", "size": "0"}) // 520 byte sectors

	disks, err := List(t.Context(), tr.Tree)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]struct{ byPath, alias, transport, serial, wwn, model, hctl string }{
		"sda":     {"pci-0000:00:1f.2-ata-2.0", "pci-0000:00:1f.2-ata-2", "SATA", "S3Z9NB0K1", "5002538800000001", "Samsung SSD 860", "1:0:0:0"},
		"sdb":     {"pci-0000:03:00.0-sas-exp0x500056b3f6e0c1ff-phy5-lun-0", "", "SAS", "", "5000c500a1b2c3d4", "ST8000", "4:0:1:0"},
		"sdz":     {"pci-0000:03:00.0-sas--lun-0", "", "SAS", "", "", "", "4:0:9:0"}, // its size is unknown
		"sdc":     {"pci-0000:00:14.0-usb-0:2:1.0-scsi-0:0:0:0", "", "USB", "", "", "Virtual HDisk0", "6:0:0:0"},
		"sdd":     {"pci-0000:00:03.0-scsi-0:0:3:300", "virtio-pci-0000:00:03.0-scsi-0:0:3:300", "SCSI", "", "", "", "7:0:3:300"},
		"vda":     {"pci-0000:00:02.0", "virtio-pci-0000:00:02.0", "Virtio", "disk-1", "", "", ""},
		"nvme0n1": {"pci-0000:5d:05.5-pci-10000:01:00.0-nvme-1", "", "NVMe", "PHAC1", "5cd2e40011223344", "SSD P5510", ""},
		"nvme1n1": {"pci-0000:81:00.0-nvme-1", "", "NVMe", "S4Y1", "36344730528020290025384500000001", "PM1733", ""},
		"mmcblk0": {"", "", "MMC", "0x1234", "", "DG4016", ""},
	}
	for _, d := range disks {
		w, ok := want[d.Name]
		if !ok {
			t.Errorf("%s is a disk", d.Name)
			continue
		}
		delete(want, d.Name)
		got := struct{ byPath, alias, transport, serial, wwn, model, hctl string }{d.ByPath, d.ByPathAlias, string(d.Transport), d.SerialNumber, d.WWN, d.Model, d.HCTL}
		if got != w {
			t.Errorf("%s:\n%+v, and not\n%+v", d.Name, got, w)
		}
		switch d.Name {
		case "sdb":
			if !d.Rotational || d.SizeBytes != 15628053168*512 || d.LogicalSectorBytes != 512 {
				t.Errorf("%+v", d)
			}
		case "sdc":
			if !d.Removable || !d.VirtualMedia || len(d.Mounted) != 1 || d.Mounted[0] != "/mnt/data" {
				t.Errorf("%+v", d)
			}
		case "sdd":
			if !d.ReadOnly {
				t.Errorf("%+v", d)
			}
		case "nvme0n1":
			if len(d.Holders) != 1 || d.Holders[0] != "dm-0 (vg-root)" || len(d.Mounted) != 1 || d.Mounted[0] != "/old" || d.FirmwareVersion != "2CV1" {
				t.Errorf("%+v", d)
			}
		}
	}
	for name := range want {
		t.Errorf("%s is not found", name)
	}
}

func TestListFails(t *testing.T) {
	if _, err := List(t.Context(), Tree{Sys: t.TempDir(), Proc: t.TempDir()}); err == nil {
		t.Error("no sysfs is no error")
	}
	tr := newTree(t)
	if err := os.RemoveAll(tr.Proc); err != nil {
		t.Fatal(err)
	}
	if _, err := List(t.Context(), tr.Tree); err == nil {
		t.Error("unknown mounts are no error")
	}
}
