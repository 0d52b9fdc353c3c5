package modules

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// kernelGroup is the multicast group of the kernel's own events. Group 2 has those of udev.
	kernelGroup = 1
	// maxEvent is the largest event of the kernel (UEVENT_BUFFER_SIZE is 2048, plus the header).
	maxEvent = 8192
	// poll is how often a receive returns without an event, to see whether it shall end.
	poll = time.Second
)

// Events is a subscription to the kernel's events of new devices.
type Events struct{ socket int }

// Listen subscribes. Events from then on are kept until Each reads them.
func Listen() (*Events, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open a socket for events of devices: %w", err)
	}
	interval := unix.NsecToTimeval(int64(poll))
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20), // a server with many disks sends thousands at once
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &interval),
		unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelGroup}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to events of devices: %w", err), unix.Close(socket))
	}
	return &Events{socket}, nil
}

// Each calls found with the alias of each device that appears, until ctx ends. lost is called if the kernel dropped events: then all devices must be read.
func (e *Events) Each(ctx context.Context, found func(alias string), lost func()) error {
	defer func() { _ = unix.Close(e.socket) }()
	buffer := make([]byte, maxEvent)
	for ctx.Err() == nil {
		n, _, err := unix.Recvfrom(e.socket, buffer, 0)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			lost()
		case err != nil:
			return fmt.Errorf("receive events of devices: %w", err)
		default:
			if alias := aliasOf(string(buffer[:n])); alias != "" {
				found(alias)
			}
		}
	}
	return ctx.Err()
}

// aliasOf returns the alias of an event for a new device: texts that end with a zero byte, the first of which is ACTION@PATH.
func aliasOf(event string) string {
	if !strings.HasPrefix(event, "add@") && !strings.HasPrefix(event, "change@") && !strings.HasPrefix(event, "bind@") {
		return ""
	}
	for text := range strings.SplitSeq(event, "\x00") {
		if alias, ok := strings.CutPrefix(text, "MODALIAS="); ok {
			return alias
		}
	}
	return ""
}
