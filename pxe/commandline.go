package pxe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// ErrCommandLine is told to Booter.Failed when the kernel would not take the whole of the command line.
var ErrCommandLine = errors.New("the kernel command line is too long")

// maxCommandLine is how long a command line may be, in bytes. Linux takes 2047 on x86 and arm64 and cuts off the rest without a word;
// some are left for what the boot loader adds, such as initrd=.
const maxCommandLine = 2047 - 128

// commandLine is the kernel command line of a script, with where the seed is.
func commandLine(script Script, base string) (string, error) {
	ours, err := seed.CommandLine(script.Format, script.Network, base+script.SeedPath)
	if err != nil {
		return "", err
	}
	line := strings.TrimSpace(script.CommandLine + " " + ours)
	if len(line) > maxCommandLine {
		return "", fmt.Errorf("%w: it has %d characters and %d fit, and %d of them are the provider's: shorten spec.boot.commandLine of the machine or spec.network of the host",
			ErrCommandLine, len(line), maxCommandLine, len(ours))
	}
	return line, nil
}
