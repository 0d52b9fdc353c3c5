//go:build linux

// Command agent is the first program of the agent's ramdisk (/init), which reads the hardware of a server, writes an image to its disk, or erases its disks,
// as the boot server's plan says. It is also the modprobe of that ramdisk. In a machine that runs another system it is an ordinary program, which works on a
// file as its disk.
package main

import (
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/modules"
)

func main() {
	switch {
	case filepath.Base(os.Args[0]) == "modprobe":
		os.Exit(modules.Modprobe(os.Args[1:]))
	case os.Getpid() == 1:
		runAsInit()
	default:
		os.Exit(runAsProgram(os.Args[1:]))
	}
}
