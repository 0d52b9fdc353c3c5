//go:build linux

// Command waits is the end of an agent: no other goroutine runs.
package main

import (
	"os"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/system"
)

func main() {
	_, _ = os.Stdout.WriteString("waiting\n")
	system.WaitForever()
}
