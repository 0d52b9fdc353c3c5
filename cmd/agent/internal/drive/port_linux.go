package drive

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The requests of ioctl(2).
const (
	ioctlNamespace = 0x4e40     // NVME_IOCTL_ID, _IO('N', 0x40)
	ioctlAdmin     = 0xc0484e41 // NVME_IOCTL_ADMIN_CMD, _IOWR('N', 0x41, struct nvme_passthru_cmd)
	ioctlSCSI      = 0x2285     // SG_IO
)

// KernelPort is a drive of this server, by the kernel's name of its block device.
type KernelPort string

// passthrough is struct nvme_passthru_cmd of linux/nvme_ioctl.h.
type passthrough struct {
	opcode, flags          uint8
	_                      uint16
	namespace, cdw2, cdw3  uint32
	metadata, address      uint64
	metadataSize, dataSize uint32
	cdw10, cdw11, cdw12    uint32
	cdw13, cdw14, cdw15    uint32
	timeoutMilliseconds    uint32
	result                 uint32
}

// Admin implements Port.
func (p KernelPort) Admin(c *AdminCommand) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	command := passthrough{
		opcode: c.Opcode, namespace: c.Namespace, cdw10: c.CDW10, cdw11: c.CDW11, timeoutMilliseconds: milliseconds(c.Timeout),
		dataSize: uint32(len(c.Data)), //nolint:gosec // at most 4096
	}
	if len(c.Data) > 0 {
		pin.Pin(&c.Data[0])
		command.address = uint64(uintptr(unsafe.Pointer(&c.Data[0]))) //nolint:gosec // the data is pinned
	}
	status, err := p.ioctl(ioctlAdmin, unsafe.Pointer(&command)) //nolint:gosec // the layout is the kernel's
	if err != nil {
		return err
	}
	c.Result = command.result
	if code := uint16(status & 0x7ff); code != 0 {
		return &NVMeError{Status: code}
	}
	return nil
}

// Namespace implements Port.
func (p KernelPort) Namespace() (uint32, error) {
	id, err := p.ioctl(ioctlNamespace, nil)
	return uint32(id), err //nolint:gosec // 32 bits
}

// sgHeader is struct sg_io_hdr of scsi/sg.h.
type sgHeader struct {
	interfaceID, direction  int32
	cdbSize, maxSense       uint8
	vectors                 uint16
	dataSize                uint32
	data, cdb, sense        unsafe.Pointer
	timeoutMilliseconds     uint32
	flags                   uint32
	id                      int32
	user                    unsafe.Pointer
	status, masked, message uint8
	senseSize               uint8
	host, driver            uint16
	residual                int32
	duration, info          uint32
}

// The directions of the data, and the bit of the driver status that says that there is sense data (scsi/sg.h).
const (
	sgNone, sgTo, sgFrom = -1, -2, -3
	driverSense          = 0x08
)

// SCSI implements Port.
func (p KernelPort) SCSI(c *SCSICommand) error {
	sense := make([]byte, 64)
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&c.CDB[0])
	pin.Pin(&sense[0])
	h := sgHeader{
		interfaceID: 'S', direction: sgNone, cdbSize: uint8(len(c.CDB)), maxSense: uint8(len(sense)), dataSize: uint32(len(c.Data)), //nolint:gosec // at most 16 and 2048
		cdb: unsafe.Pointer(&c.CDB[0]), sense: unsafe.Pointer(&sense[0]), timeoutMilliseconds: milliseconds(c.Timeout), //nolint:gosec // all are pinned
	}
	if len(c.Data) > 0 {
		pin.Pin(&c.Data[0])
		h.data, h.direction = unsafe.Pointer(&c.Data[0]), sgFrom //nolint:gosec // it is pinned
		if c.Send {
			h.direction = sgTo
		}
	}
	if _, err := p.ioctl(ioctlSCSI, unsafe.Pointer(&h)); err != nil { //nolint:gosec // the layout is the kernel's
		return err
	}
	c.Received = max(0, len(c.Data)-int(h.residual))
	switch {
	case h.host != 0 || h.driver&^driverSense != 0:
		return fmt.Errorf("the command did not reach the drive: host status %#x, driver status %#x", h.host, h.driver)
	case h.status != 0 || h.driver&driverSense != 0:
		return &SenseError{Status: h.status, Sense: sense[:h.senseSize]}
	default:
		return nil
	}
}

func milliseconds(d time.Duration) uint32 {
	return uint32(min(d/time.Millisecond, 1<<31)) //nolint:gosec // 25 days fit
}

// ioctl sends a request and returns the result of the system call. It opens the device for each command. The runner holds the disk
// open for reading meanwhile, so that its name does not become that of another disk.
func (p KernelPort) ioctl(request uintptr, argument unsafe.Pointer) (uintptr, error) {
	name := string(p)
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return 0, fmt.Errorf("%q is not the name of a disk", name)
	}
	fd, err := unix.Open(filepath.Join("/dev", name), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open: %w", err)
	}
	result, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	err = unix.Close(fd)
	if errno != 0 {
		return 0, fmt.Errorf("ioctl: %w", errors.Join(errno, err))
	}
	return result, err
}
