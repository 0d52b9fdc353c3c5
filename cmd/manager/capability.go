package main

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// raiseBindService makes the capability to listen on ports below 1024 effective, if this process may have it. The file /manager of the image permits it, and
// does not make it effective, so that it also starts in containers that drop the capability.
func raiseBindService() error {
	const bit = 1 << unix.CAP_NET_BIND_SERVICE
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3} // of the calling thread
	var sets [2]unix.CapUserData                                           // of the capabilities 0 to 31, and 32 to 63
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("read the capabilities of this process: %w", err)
	}
	if sets[0].Permitted&bit == 0 || sets[0].Effective&bit != 0 {
		return nil
	}
	sets[0].Effective |= bit
	// Each thread has capabilities of its own.
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])), 0) //nolint:gosec // capset(2) takes pointers
	if errno != 0 {
		return fmt.Errorf("make the capability NET_BIND_SERVICE effective: %w", errno)
	}
	return nil
}
