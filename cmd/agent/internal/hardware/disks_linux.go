package hardware

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// commandTimeout is how long the kernel waits for the answer to a command, in milliseconds.
const commandTimeout = 10_000

// DeviceCommands sends commands to the disks of this server, through their device nodes in /dev, which it opens for reading.
type DeviceCommands struct{}

// nvmeCommand is struct nvme_passthru_cmd of linux/nvme_ioctl.h.
type nvmeCommand struct {
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

// The requests of ioctl(2).
const (
	nvmeIoctlAdmin = 0xc0484e41 // NVME_IOCTL_ADMIN_CMD, _IOWR('N', 0x41, struct nvme_passthru_cmd)
	scsiIoctlIO    = 0x2285     // SG_IO
)

// NVMeAdmin implements Disks.
func (DeviceCommands) NVMeAdmin(name string, opcode byte, namespace, cdw10 uint32, data []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&data[0])
	command := nvmeCommand{
		opcode: opcode, namespace: namespace, cdw10: cdw10, dataSize: uint32(len(data)), //nolint:gosec // at most 4096
		address:             uint64(uintptr(unsafe.Pointer(&data[0]))), //nolint:gosec // the data is pinned
		timeoutMilliseconds: commandTimeout,
	}
	status, err := deviceIoctl(name, nvmeIoctlAdmin, unsafe.Pointer(&command)) //nolint:gosec // the layout is the kernel's
	if err == nil && status != 0 {
		err = fmt.Errorf("the controller answers with the status %#x", status)
	}
	return err
}

// scsiCommand is struct sg_io_hdr of scsi/sg.h.
type scsiCommand struct {
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

// fromDevice is SG_DXFER_FROM_DEV.
const fromDevice = -3

// SCSI implements Disks.
func (DeviceCommands) SCSI(name string, cdb, data []byte) (int, error) {
	sense := make([]byte, 64)
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, b := range [][]byte{cdb, data, sense} {
		pin.Pin(&b[0])
	}
	command := scsiCommand{
		interfaceID: 'S', direction: fromDevice, cdbSize: uint8(len(cdb)), maxSense: uint8(len(sense)), dataSize: uint32(len(data)), //nolint:gosec // at most 16 and 512
		data: unsafe.Pointer(&data[0]), cdb: unsafe.Pointer(&cdb[0]), sense: unsafe.Pointer(&sense[0]), //nolint:gosec // all are pinned
		timeoutMilliseconds: commandTimeout,
	}
	_, err := deviceIoctl(name, scsiIoctlIO, unsafe.Pointer(&command)) //nolint:gosec // the layout is the kernel's
	if err != nil {
		return 0, err
	}
	if command.status != 0 || command.host != 0 || command.driver != 0 {
		return 0, fmt.Errorf("the device answers with the status %#x, sense key %#x, the host adapter with %#x", command.status, senseKey(sense[:command.senseSize]), command.host)
	}
	return max(0, len(data)-int(command.residual)), nil
}

// senseKey returns the sense key of fixed and descriptor format sense data (SPC-6, 4.4), or 0.
func senseKey(sense []byte) byte {
	switch {
	case len(sense) > 2 && sense[0]&0x7e == 0x70:
		return sense[2] & 0x0f
	case len(sense) > 1 && sense[0]&0x7e == 0x72:
		return sense[1] & 0x0f
	default:
		return 0
	}
}

// deviceIoctl sends a request to a disk and returns the result of the system call.
func deviceIoctl(name string, request uintptr, argument unsafe.Pointer) (uintptr, error) {
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
