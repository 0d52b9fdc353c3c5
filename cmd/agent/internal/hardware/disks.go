package hardware

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Disks sends commands that read to disks. name is the kernel's name, such as sda. A command waits at most for commandTimeout in the kernel, but error recovery of
// a defective disk may take longer.
type Disks interface {
	// NVMeAdmin sends an NVMe admin command that returns len(data) bytes.
	NVMeAdmin(name string, opcode byte, namespace, cdw10 uint32, data []byte) error
	// SCSI sends a SCSI command that returns at most len(data) bytes. It returns the number of bytes, and an error unless the status is GOOD.
	SCSI(name string, cdb, data []byte) (int, error)
}

// The NVMe admin commands that are sent.
const (
	nvmeGetLogPage    = 0x02
	nvmeIdentify      = 0x06
	nvmeController    = 1          // CNS of Identify: the controller
	nvmeSMART         = 0x02       // the log page SMART / Health Information
	nvmeAllNamespaces = 0xffffffff // the log page is that of the controller
)

// capabilities are what a disk says of itself.
type capabilities struct {
	index    int
	health   string
	erase    []string
	problems []string
	// answered is true if erase is complete: an empty one means that the disk has no such command.
	answered bool
}

func (c *capabilities) problemf(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

// overwrite is the erase method of each disk that has said which others it has. Without it they are unknown.
const overwrite = "overwrite"

// disks adds health and erase methods to disks. Each disk is asked in a goroutine of its own: one that does not answer before the end of ctx is a problem, and
// its goroutine ends when the kernel gives up its command.
func (c *collector) disks(ctx context.Context, disks []agent.Disk) {
	answers := make(chan capabilities, len(disks))
	waiting := map[int]bool{}
	for i, d := range disks {
		disks[i].Erase = c.logicalMethods(d.Name)
		if c.Disks != nil && d.Transport != "usb" && d.Transport != "mmc" {
			waiting[i] = true
			go func() { answers <- ask(c.Disks, i, d) }()
		}
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			delete(waiting, a.index)
			disks[a.index].Health = a.health
			disks[a.index].Erase = append(a.erase, disks[a.index].Erase...)
			if a.answered {
				disks[a.index].Erase = append(disks[a.index].Erase, overwrite)
			}
			slices.Sort(a.problems)
			for _, p := range a.problems {
				c.problemf("disk %s: %s", disks[a.index].Name, p)
			}
		case <-ctx.Done():
			for i := range disks {
				if waiting[i] {
					c.problemf("disk %s: it did not answer commands: %v", disks[i].Name, context.Cause(ctx))
				}
			}
			return
		}
	}
}

// logicalMethods returns the methods of the block layer.
func (c *collector) logicalMethods(name string) []string {
	var out []string
	if strings.ContainsAny(name, "/\x00") || name == "" || name == "." || name == ".." {
		return nil
	}
	for _, m := range []struct{ file, method string }{{"discard_max_bytes", "discard"}, {"write_zeroes_max_bytes", "write-zeroes"}} {
		if n, ok := c.number("sys/block", name, "queue", m.file); ok && n > 0 {
			out = append(out, m.method)
		}
	}
	return out
}

// ask asks a disk by commands of its protocol.
func ask(disks Disks, index int, d agent.Disk) capabilities {
	out := capabilities{index: index}
	switch d.Transport {
	case "nvme":
		out.askNVMe(disks, d.Name)
	case "sata", "sas", "scsi", "ata", "fc", "iscsi":
		out.askSCSI(disks, d.Name)
	default: // it has no commands
		out.answered = true
	}
	return out
}

func (c *capabilities) askNVMe(disks Disks, name string) {
	identity := make([]byte, nvmeIdentifySize)
	err := disks.NVMeAdmin(name, nvmeIdentify, 0, nvmeController, identity)
	if err == nil {
		c.erase, err = ParseNVMeIdentify(identity)
		c.answered = err == nil
	}
	if err != nil {
		c.problemf("NVMe Identify Controller: %v", err)
	}
	log := make([]byte, nvmeSMARTSize)
	// NUMDL counts 32 bit words from zero.
	err = disks.NVMeAdmin(name, nvmeGetLogPage, nvmeAllNamespaces, (nvmeSMARTSize/4-1)<<16|nvmeSMART, log)
	if err == nil {
		c.health, err = ParseNVMeHealth(log)
	}
	if err != nil {
		c.problemf("NVMe SMART / Health Information: %v", err)
	}
}

func (c *capabilities) askSCSI(disks Disks, name string) {
	data := make([]byte, 255)
	n, err := disks.SCSI(name, inquiryCDB(0, uint16(len(data))), data) //nolint:gosec // 255
	var pages []byte
	if err == nil {
		pages, err = ParseVPDPages(data[:min(n, len(data))])
	}
	if err != nil {
		c.problemf("SCSI INQUIRY: %v", err)
		return
	}
	if slices.Contains(pages, vpdATA) {
		c.askATA(disks, name)
		return
	}
	c.answered = true
	for _, s := range sanitizeActions {
		answer := make([]byte, 64)
		// A disk without the command REPORT SUPPORTED OPERATION CODES refuses it: then SANITIZE is not relied on.
		n, err := disks.SCSI(name, supportedOperationCDB(opSanitize, s.action, uint32(len(answer))), answer) //nolint:gosec // 64
		if err == nil && ParseSupportedOperation(answer[:min(n, len(answer))]) {
			c.erase = append(c.erase, s.method)
		}
	}
}

func (c *capabilities) askATA(disks Disks, name string) {
	data := make([]byte, ataIdentifySize)
	n, err := disks.SCSI(name, ataIdentifyCDB(), data)
	var id ATAIdentity
	if err == nil {
		id, err = ParseATAIdentify(data[:min(n, len(data))])
	}
	if err != nil {
		c.problemf("ATA IDENTIFY DEVICE: %v", err)
		return
	}
	c.erase, c.answered = id.Methods, true
	if id.Frozen {
		c.problemf("ATA security is frozen by the firmware: a security erase needs a power cycle of the disk, or another setting of the firmware")
	}
	if id.Locked {
		c.problemf("ATA security is locked by a password: the disk cannot be read, written or erased without it")
	}
}
