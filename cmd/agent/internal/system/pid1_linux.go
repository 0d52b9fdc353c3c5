package system

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// mounts are the file systems that the kernel does not mount for the first program.
var mounts = []struct{ kind, at string }{
	{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"},
}

// Mount mounts the kernel's file systems. What is mounted already is no error.
func Mount() error {
	var failed []error
	for _, m := range mounts {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			failed = append(failed, fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err))
		}
	}
	return errors.Join(failed...)
}

// EFIVariables is where the kernel shows the variables of UEFI.
const EFIVariables = "/sys/firmware/efi/efivars"

// MountEFI mounts the variables of UEFI, if the server booted with it. The file system is a module: it is loaded before.
func MountEFI() error {
	if Firmware() != wire.FirmwareUEFI {
		return nil
	}
	err := unix.Mount("efivarfs", EFIVariables, "efivarfs", 0, "")
	// Firmware without the runtime services for variables has the folder, and the mount fails.
	if err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount the variables of UEFI at %s: %w", EFIVariables, err)
	}
	return nil
}

// Firmware returns how the server booted.
func Firmware() wire.FirmwareMode {
	if _, err := os.Stat(filepath.Dir(EFIVariables)); err == nil {
		return wire.FirmwareUEFI
	}
	return wire.FirmwareBIOS
}

// KernelRelease returns the release of the kernel.
func KernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Release[:])
}

// End ends the server's work.
type End int

// How the server's work ends.
const (
	PowerOff End = unix.LINUX_REBOOT_CMD_POWER_OFF
	Restart  End = unix.LINUX_REBOOT_CMD_RESTART
)

// syncTimeout is how long the caches of disks may take. A disk that does not answer must not keep the server on.
const syncTimeout = 60 * time.Second

// Finish writes the caches of the disks and powers the server off, or restarts it. It returns only if the kernel refuses.
func Finish(end End) error {
	synced := make(chan struct{})
	go func() {
		unix.Sync()
		close(synced)
	}()
	select {
	case <-synced:
	case <-time.After(syncTimeout):
	}
	if err := unix.Reboot(int(end)); err != nil {
		return fmt.Errorf("reboot(%#x): %w", int(end), err)
	}
	return nil
}

// WaitForever never returns. It sleeps, because Go ends a program in which no goroutine can run again, as "select {}" would let it: the kernel would then panic and restart
// the server, and the firmware could boot what an earlier machine left on a disk.
func WaitForever() {
	for {
		time.Sleep(time.Hour) // a timer that is pending
	}
}
