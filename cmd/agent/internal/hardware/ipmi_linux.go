package hardware

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SystemInterface sends commands to the BMC by the kernel's IPMI driver (Linux, Documentation/driver-api/ipmi.rst).
type SystemInterface struct {
	// Device is the device node: /dev/ipmi0.
	Device string

	messages atomic.Int64
}

// The structures of linux/ipmi.h.
type (
	ipmiAddress struct {
		kind    int32
		channel int16
		lun     uint8
	}
	ipmiMessage struct {
		netFn, command uint8
		size           uint16
		data           unsafe.Pointer
	}
	ipmiRequest struct {
		address     unsafe.Pointer
		addressSize uint32
		id          int
		message     ipmiMessage
	}
	ipmiReceive struct {
		kind        int32
		address     unsafe.Pointer
		addressSize uint32
		id          int
		message     ipmiMessage
	}
)

const (
	ipmiSystemInterface = 0x0c       // IPMI_SYSTEM_INTERFACE_ADDR_TYPE
	ipmiBMCChannel      = 0x0f       // IPMI_BMC_CHANNEL
	ipmiSend            = 0x8028690d // IPMICTL_SEND_COMMAND, _IOR('i', 13, struct ipmi_req)
	ipmiReceiveTruncate = 0xc030690b // IPMICTL_RECEIVE_MSG_TRUNC, _IOWR('i', 11, struct ipmi_recv)
	// maxResponse is IPMI_MAX_MSG_LENGTH.
	maxResponse = 272
	// responseTimeout is how long a BMC may take for one response. The specification allows 5 s for the commands of a system interface.
	responseTimeout = 5 * time.Second
	// maxForeign is the maximum number of messages that are skipped because they answer an earlier command.
	maxForeign = 16
)

// Command implements BMC.
func (s *SystemInterface) Command(ctx context.Context, netFn, command byte, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	fd, err := unix.Open(s.Device, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
		return nil, fmt.Errorf("%s: %w", s.Device, ErrNoBMC)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.Device, err)
	}
	defer unix.Close(fd) //nolint:errcheck // the response is here, or there is an error
	id := int(s.messages.Add(1))
	if err := sendIPMI(fd, id, netFn, command, data); err != nil {
		return nil, fmt.Errorf("IPMI: send: %w", err)
	}
	for range maxForeign {
		if err := waitReadable(ctx, fd); err != nil {
			return nil, fmt.Errorf("IPMI: the BMC does not answer: %w", err)
		}
		got, response, err := receiveIPMI(fd)
		if err != nil {
			return nil, fmt.Errorf("IPMI: receive: %w", err)
		}
		if got == id {
			return response, nil
		}
	}
	return nil, fmt.Errorf("IPMI: %d messages came and none is the response", maxForeign)
}

func sendIPMI(fd, id int, netFn, command byte, data []byte) error {
	var pin runtime.Pinner
	defer pin.Unpin()
	address := &ipmiAddress{kind: ipmiSystemInterface, channel: ipmiBMCChannel}
	pin.Pin(address)
	r := &ipmiRequest{
		address: unsafe.Pointer(address), addressSize: uint32(unsafe.Sizeof(*address)), id: id, //nolint:gosec // it is pinned
		message: ipmiMessage{netFn: netFn, command: command, size: uint16(len(data))}, //nolint:gosec // requests have a few bytes
	}
	if len(data) > 0 {
		pin.Pin(&data[0])
		r.message.data = unsafe.Pointer(&data[0]) //nolint:gosec // it is pinned
	}
	return ioctl(fd, ipmiSend, unsafe.Pointer(r)) //nolint:gosec // the layout is the kernel's
}

func receiveIPMI(fd int) (id int, response []byte, err error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	// The kernel writes an address of any kind: the largest has 36 bytes.
	address, data := make([]byte, 64), make([]byte, maxResponse)
	pin.Pin(&address[0])
	pin.Pin(&data[0])
	r := &ipmiReceive{
		address: unsafe.Pointer(&address[0]), addressSize: uint32(len(address)), //nolint:gosec // it is pinned
		message: ipmiMessage{size: maxResponse, data: unsafe.Pointer(&data[0])}, //nolint:gosec // it is pinned
	}
	err = ioctl(fd, ipmiReceiveTruncate, unsafe.Pointer(r)) //nolint:gosec // the layout is the kernel's
	if err != nil && !errors.Is(err, unix.EMSGSIZE) {
		return 0, nil, err
	}
	return r.id, data[:min(int(r.message.size), maxResponse)], nil
}

// waitReadable waits until a message can be received, or for the end of ctx, which has a deadline.
func waitReadable(ctx context.Context, fd int) error {
	const slice = 100 * time.Millisecond // how late the end of ctx is noticed
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // a file descriptor is small
		n, err := unix.Poll(poll, int(slice.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		if n > 0 {
			return nil
		}
	}
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument))
	if errno != 0 {
		return errno
	}
	return nil
}
