package main

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/registration"
)

const aboutInventory = `bmcctl inventory FILE checks a CSV file of servers, and prints the objects as YAML: a BareMetalHost for each, and with --with-passwords a Secret with the
credentials of its BMC. It contacts no cluster; kubectl baremetal register FILE registers the servers. If a line is invalid, it reports every invalid line.
FILE may be - for the standard input. The guide "Register servers" describes the columns.

  bmcctl inventory rack.csv
  bmcctl inventory rack.csv --namespace rack1 --with-passwords

`

func inventory(_ context.Context, args []string, c console) error {
	var output string
	withPasswords := false
	do := &registration.Registration{Program: "bmcctl", Out: c.out, Err: c.err}
	set := pflag.NewFlagSet("inventory", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	set.StringVarP(&do.Namespace, "namespace", "n", "", "Namespace of the hosts. Defaults to none.")
	set.StringVarP(&output, "output", "o", "yaml", "Output `format`: yaml.")
	set.BoolVar(&withPasswords, "with-passwords", false, "Also print the Secrets.")
	switch err := set.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s%s", aboutInventory, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	case set.NArg() != 1:
		return usageErrorf("bmcctl inventory takes one file, but got %d: write bmcctl inventory rack.csv", set.NArg())
	case output != "yaml":
		return usageErrorf("--output: %q is unknown: use yaml", output)
	}
	err := do.Read(set.Arg(0), c.in)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return usageErrorf("%v", err)
	case err != nil:
		return err
	}
	err = do.Print(withPasswords)
	if errors.Is(err, registration.ErrReported) {
		return errReported
	}
	return err
}
