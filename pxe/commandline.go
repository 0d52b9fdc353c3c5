package pxe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// ErrCommandLine is passed to Booter.ObserveFailure if the kernel would not accept the whole command line.
var ErrCommandLine = errors.New("the kernel command line is too long")

// maxCommandLine is the maximum length of a command line in bytes. Linux accepts 2047 on x86 and arm64 and silently cuts off the rest. 128 of them are left for
// what the boot loader adds, such as initrd=.
const maxCommandLine = 2047 - 128

// commandLine returns the kernel command line of a script, with the location of the seed.
func commandLine(script Script, base string) (string, error) {
	added, err := seed.CommandLine(script.Format, script.Network, base+script.SeedPath)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(script.CommandLine + " " + added)
	if len(line) > maxCommandLine {
		return "", fmt.Errorf("%w: it has %d characters and %d fit, and %d of them are the provider's: shorten spec.boot.commandLine of the machine or spec.network of the host",
			ErrCommandLine, len(line), maxCommandLine, len(added))
	}
	return line, nil
}
