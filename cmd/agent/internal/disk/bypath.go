package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// byPath computes the names that udev's path_id gives a disk in /dev/disk/by-path (udev-builtin-path_id.c of systemd 257), since no udev runs in the ramdisk.
// It follows the devices upwards, and each bus adds its part. alias is the compatible name, if it is another one.
func (s sysDisk) byPath() (name, alias string) {
	p := pathID{sys: s.tree.Sys}
	dir := s.dir
	if strings.Contains(dir, "/nvme-subsystem/") {
		dir = s.oneNVMePath()
	}
	p.nsid = readText(filepath.Join(dir, "nsid"))
	if !p.walk(dir) {
		return "", ""
	}
	name, alias = strings.Join(p.parts, "-"), strings.Join(p.compat, "-")
	switch {
	case p.virtio:
		alias = "virtio-" + alias
	case alias == name:
		alias = ""
	}
	return name, alias
}

// oneNVMePath returns the folder of the only path of an NVMe disk in a subsystem. With several paths none stands for the disk.
func (s sysDisk) oneNVMePath() string {
	m := regexp.MustCompile(`^(nvme\d+)(n\d+)$`).FindStringSubmatch(s.name)
	if m == nil {
		return ""
	}
	found, err := filepath.Glob(filepath.Join(s.tree.Sys, "block", m[1]+"c*"+m[2]))
	if err != nil || len(found) != 1 {
		return ""
	}
	dir, err := filepath.EvalSymlinks(found[0])
	if err != nil {
		return ""
	}
	return dir
}

// pathID is a name that is being computed.
type pathID struct {
	sys, nsid     string
	parts, compat []string
	// transport is true if the name says which of the disks of its parent it is, and parent if that parent has a name.
	transport, parent bool
	// virtio is true below a virtio device: the compatible name has a prefix.
	virtio bool
}

func (p *pathID) prepend(part string) { p.prependBoth(part, part) }

func (p *pathID) prependBoth(part, compat string) {
	p.parts, p.compat = append([]string{part}, p.parts...), append([]string{compat}, p.compat...)
}

// subsystem returns the name of the subsystem of a device, or nothing for a folder that is no device.
func subsystem(dir string) string {
	to, err := os.Readlink(filepath.Join(dir, "subsystem"))
	if err != nil {
		return ""
	}
	return filepath.Base(to)
}

// walk goes up from a device. A bus that has several levels, such as bridges of PCI, adds one part.
func (p *pathID) walk(dir string) bool {
	previous := ""
	for dir = filepath.Dir(dir); len(dir) > len(p.sys)+len("/devices"); dir = filepath.Dir(dir) {
		kind := subsystem(dir)
		if kind == "" {
			if _, err := os.Stat(filepath.Join(dir, "uevent")); err == nil {
				previous = "" // a device without a subsystem separates buses, such as the root of a PCI domain behind VMD
			}
			continue
		}
		base := filepath.Base(dir)
		isDevice := scsiAddress.MatchString(base)
		switch {
		case kind == "scsi" && isDevice:
			p.scsi(dir, base)
		case kind == previous || kind == "scsi":
		default:
			p.bus(kind, base)
		}
		previous = kind
	}
	return p.transport && p.parent && len(p.parts) > 0
}

func (p *pathID) bus(kind, base string) {
	switch kind {
	case "pci":
		p.prepend("pci-" + base)
		p.parent = true
	case "platform", "acpi", "amba", "xen":
		p.prepend(kind + "-" + base)
		p.parent = true
	case "nvme":
		if p.nsid != "" {
			p.prepend("nvme-" + p.nsid)
			p.transport, p.parent = true, true
		}
	case "virtio":
		p.transport = true
		p.virtio = true
	case "usb":
		if _, port, ok := strings.Cut(base, "-"); ok {
			p.prepend("usb-0:" + port)
			p.transport = true
		}
	}
}

var (
	scsiAddress = regexp.MustCompile(`^\d+:\d+:\d+:\d+$`)
	hostDir     = regexp.MustCompile(`^host(\d+)$`)
)

// scsi adds the part of a SCSI device, by the transport that its place in the tree shows.
func (p *pathID) scsi(dir, address string) {
	var h, c, t, l int
	if _, err := fmt.Sscanf(address, "%d:%d:%d:%d", &h, &c, &t, &l); err != nil {
		return
	}
	lun := fmt.Sprintf("lun-%d", l)
	if l >= 256 {
		lun = fmt.Sprintf("lun-0x%04x%04x00000000", l&0xffff, l>>16&0xffff)
	}
	p.transport = true
	switch {
	case strings.Contains(dir, "/rport-"):
		rport := between(dir, "/rport-")
		p.prepend("fc-" + readText(filepath.Join(p.sys, "class", "fc_remote_ports", "rport-"+rport, "port_name")) + "-" + lun)
	case strings.Contains(dir, "/end_device-"):
		p.sas(dir, lun)
	case strings.Contains(dir, "/ata"):
		port := readText(filepath.Join(p.sys, "class", "ata_port", "ata"+between(dir, "/ata"), "port_no"))
		if port == "" {
			p.transport = false
			return
		}
		if c != 0 { // behind a port multiplier
			p.prependBoth(fmt.Sprintf("ata-%s.%d.0", port, c), "ata-"+port)
		} else {
			p.prependBoth(fmt.Sprintf("ata-%s.%d", port, t), "ata-"+port)
		}
	case strings.Contains(dir, "/session"):
		p.transport = false // iSCSI: the agent starts no session
	default:
		p.prepend(fmt.Sprintf("scsi-%d:%d:%d:%d", h-firstHost(dir), c, t, l))
	}
}

// sas adds the part of a SAS device: the phy at the controller or the expander, or the address of a wide port.
func (p *pathID) sas(dir, lun string) {
	target := "end_device-" + between(dir, "/end_device-")
	device := filepath.Join(p.sys, "class", "sas_device", target)
	end, _, _ := strings.Cut(dir, "/"+target)
	port := filepath.Base(end)
	if readText(filepath.Join(p.sys, "class", "sas_port", port, "num_phys")) != "1" {
		p.prepend("sas-" + readText(filepath.Join(device, "sas_address")) + "-" + lun)
		return
	}
	phy := "phy" + readText(filepath.Join(device, "phy_identifier"))
	expander := filepath.Base(filepath.Dir(end))
	if address := readText(filepath.Join(p.sys, "class", "sas_device", expander, "sas_address")); address != "" {
		p.prepend("sas-exp" + address + "-" + phy + "-" + lun)
		return
	}
	p.prepend("sas-" + phy + "-" + lun)
}

// firstHost returns the lowest number of the SCSI hosts of a controller: numbers count from it, since those of the kernel depend on the order of drivers.
func firstHost(dir string) int {
	for ; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		if !hostDir.MatchString(filepath.Base(dir)) {
			continue
		}
		lowest := -1
		entries, err := os.ReadDir(filepath.Dir(dir))
		if err != nil {
			return 0
		}
		for _, e := range entries {
			if m := hostDir.FindStringSubmatch(e.Name()); m != nil {
				if n, err := strconv.Atoi(m[1]); err == nil && (lowest < 0 || n < lowest) {
					lowest = n
				}
			}
		}
		return max(lowest, 0)
	}
	return 0
}

// between returns what follows marker, up to the next slash.
func between(dir, marker string) string {
	_, after, _ := strings.Cut(dir, marker)
	name, _, _ := strings.Cut(after, "/")
	return name
}
