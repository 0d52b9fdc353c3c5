// Command kubectl-baremetal is a plugin of kubectl for the servers of a management cluster: how they are, why they wait, what happened to them, and what a person does
// to them. `kubectl baremetal` runs it. It needs no right except those on the objects that it reads and writes. bmcctl is the tool that needs no cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	log.SetLogger(logr.Discard())
	t := newTool(genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	os.Exit(t.run(ctx, arguments(os.Args)))
}

// completionName is the program that kubectl runs to complete the arguments of the plugin, if it is in PATH. A link to this program with that name is enough.
const completionName = "kubectl_complete-baremetal"

// arguments returns the arguments of the command, given those of the program.
func arguments(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.TrimSuffix(filepath.Base(args[0]), ".exe") == completionName {
		return append([]string{"__complete"}, args[1:]...)
	}
	return args[1:]
}
