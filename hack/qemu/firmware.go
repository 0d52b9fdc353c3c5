package qemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Firmware is the firmware of a server, with the chipset that it needs.
type Firmware struct {
	// Args are arguments of QEMU. FOLDER in them is the folder of the machine.
	Args []string
	// Variables is the file with which the variables of a UEFI begin. Empty for a BIOS.
	Variables string
}

// BIOS is SeaBIOS. graphics=off sends the output of firmware to the serial console.
func BIOS() Firmware {
	return Firmware{Args: []string{"-machine", "pc,accel=tcg,graphics=off"}}
}

// UEFI is OVMF.
func UEFI() Firmware {
	return Firmware{
		Args: []string{
			"-machine", "q35,accel=tcg,graphics=off",
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,unit=1,format=raw,file=FOLDER/vars",
		},
		Variables: "/usr/share/OVMF/OVMF_VARS_4M.fd",
	}
}

// SecureUEFI is OVMF whose Secure Boot is on, with the keys that servers are sold with.
func SecureUEFI() Firmware {
	return Firmware{
		Args: []string{
			"-machine", "q35,accel=tcg,graphics=off,smm=on",
			// Only the firmware may write its variables, or Secure Boot would be one write away from being off.
			"-global", "driver=cfi.pflash01,property=secure,value=on", "-global", "ICH9-LPC.disable_s3=1",
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
			"-drive", "if=pflash,unit=1,format=raw,file=FOLDER/vars",
		},
		Variables: "/usr/share/OVMF/OVMF_VARS_4M.ms.fd",
	}
}

// SecureUEFIOfARM is the UEFI of QEMU's arm64 server, with the same keys and Secure Boot on.
func SecureUEFIOfARM() Firmware {
	return Firmware{Args: armArgs, Variables: "/usr/share/AAVMF/AAVMF_VARS.ms.fd"}
}

// UEFIOfARM is the UEFI of QEMU's arm64 server.
func UEFIOfARM() Firmware {
	return Firmware{Args: armArgs, Variables: "/usr/share/AAVMF/AAVMF_VARS.fd"}
}

var armArgs = []string{
	"-machine", "virt,accel=tcg",
	"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/AAVMF/AAVMF_CODE.fd",
	"-drive", "if=pflash,unit=1,format=raw,file=FOLDER/vars",
}

// Prepare puts the variables of the firmware into the folder of a machine.
func (f Firmware) Prepare(folder string) (err error) {
	if f.Variables == "" {
		return nil
	}
	source, err := os.Open(f.Variables)
	if err != nil {
		return fmt.Errorf("open the variables of the firmware, which hack/firmware.sh installs: %w", err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(filepath.Join(folder, "vars")) //nolint:gosec // a test names it
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	_, err = io.Copy(target, source)
	return err
}
