// Command bmcsim runs emulated servers, each with its own BMC, to try the provider or to test other software for BMCs.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/sim"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	os.Exit(sim.Run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}
