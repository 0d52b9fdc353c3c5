// Command docs writes the generated parts of the documentation. `docs reference` writes those of docs/reference that follow from the --help of the
// programs, and the tables of reasons, which follow from inventory/why.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	log.SetLogger(logr.Discard()) // the library of explanations reaches the client of controller-runtime, and connects to nothing
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1) //nolint:gocritic // the signal handler ends with the process
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 || args[0] != "reference" {
		return errors.New("write: go run ./hack/docs reference")
	}
	pages, err := reference(ctx, ".")
	if err != nil {
		return err
	}
	for name, content := range pages {
		if err := os.WriteFile(filepath.FromSlash(name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}
