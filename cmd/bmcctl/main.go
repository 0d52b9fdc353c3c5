// Command bmcctl shows a BMC's model and capabilities, and tests whether they work. It also plans firmware settings, inserts virtual media, checks and prints
// the servers of a CSV file as objects, and verifies certificates of erasures. It needs no cluster: kubectl-baremetal is the tool that does.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)   // a second signal ends it at once
	ctrl.SetLogger(logr.Discard()) // errors are returned, and printed here
	os.Exit(run(ctx, os.Args[1:], console{in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv}))
}

// console is what a command reads from and writes to.
type console struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
}

// writef writes to the user. It ignores errors, because they cannot be reported.
func writef(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

// usageError is a mistake in the command line, with the remedy.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usageErrorf(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// run runs a command and returns the exit code.
func run(ctx context.Context, args []string, c console) int {
	commands := map[string]func(context.Context, []string, console) error{
		"probe": probe, "qualify": qualify, "plan": plan, "profile": profile, "media": media, "inventory": inventory, "erasures": erasures,
	}
	if len(args) == 0 {
		writef(c.err, usage)
		return exitUsage
	}
	do := commands[args[0]]
	switch {
	case do != nil:
		return exitCode(do(ctx, args[1:], c), c)
	case args[0] == "help", args[0] == "-h", args[0] == "--help":
		writef(c.out, usage)
		return exitOK
	case args[0] == "--version":
		writef(c.out, "bmcctl %s\n", version.String())
		return exitOK
	default:
		return exitCode(usageErrorf("there is no command %q: use bmcctl probe, bmcctl qualify, bmcctl plan, bmcctl profile, bmcctl media, bmcctl inventory or bmcctl erasures", args[0]), c)
	}
}

// errReported is the error of a command that has already printed its error.
var errReported = errors.New("the error was printed")

// exitCode prints the error in one line, and returns the exit code.
func exitCode(err error, c console) int {
	var misuse *usageError
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return exitOK
	case errors.As(err, &misuse):
		writef(c.err, "bmcctl: %s (bmcctl --help has examples)\n", clean(misuse.text))
		return exitUsage
	case errors.Is(err, errReported):
	case errors.Is(err, context.Canceled):
		writef(c.err, "bmcctl: interrupted\n")
	default:
		writef(c.err, "bmcctl: %s\n", clean(err.Error()))
	}
	return exitFailed
}

// parse parses the arguments of a command, and returns the one that is not a flag.
func parse(set *pflag.FlagSet, args []string, c console, about string) (string, error) {
	set.SortFlags = false
	set.Usage = func() {}
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s\n%s", about, set.FlagUsagesWrapped(120))
		return "", err
	case err != nil:
		return "", usageErrorf("%v", err)
	case set.NArg() != 1:
		return "", usageErrorf("bmcctl %s takes one URL, but got %d: write bmcctl %s redfish://192.0.2.10", set.Name(), set.NArg(), set.Name())
	}
	return set.Arg(0), nil
}

// clean returns a text as one line without control characters, because BMCs are not trusted.
func clean(text string) string { return terminal.Line(text) }

const usage = `bmcctl shows the model and the capabilities of a BMC, and tests whether they work. It needs no cluster: kubectl baremetal is the tool that does.

  bmcctl probe URL       read a BMC without changing anything
  bmcctl qualify URL     test all capabilities on an unused server: it is powered off and on several times
  bmcctl plan URL        show what a profile of firmware settings would change on a server, without changing anything
  bmcctl profile URL     write the firmware settings of a good server as a profile
  bmcctl media COMMAND   insert an image into a virtual drive, eject it, or print what the drives contain
  bmcctl inventory FILE  check a CSV file of servers, and print their objects
  bmcctl erasures verify FILE  verify exported certificates of sanitization

The user name and the password come from --username and --password-file, or from BMC_USERNAME and BMC_PASSWORD in the environment;
at a terminal, bmcctl asks for the password.

  export BMC_USERNAME=admin
  bmcctl probe redfish://192.0.2.10 --ca bmc-ca.crt
  bmcctl probe redfish://192.0.2.10/redfish/v1/Systems/1 --sensors --events 10
  bmcctl probe ipmi://192.0.2.10 -o json --password-file pass | jq .inventory
  bmcctl qualify redfish://192.0.2.10 --insecure-skip-tls-verify --yes
  bmcctl qualify redfish://192.0.2.10 --yes --image http://images.example/boot.iso --must VirtualMedia,SecureBoot
  bmcctl qualify redfish://192.0.2.10 --yes --boot-media boot.iso --must VirtualMedia
  bmcctl profile redfish://192.0.2.10 >profile.yaml
  bmcctl plan --profile profile.yaml redfish://192.0.2.11
  bmcctl media insert redfish://192.0.2.10 http://images.example/boot.iso
  bmcctl inventory rack.csv -o yaml
  bmcctl erasures verify erasures.json --key erasure-keys.pem

The exit code is 0 on success (qualify: the BMC is fit; plan: nothing is refused; erasures verify: all are valid), 1 on failure, and 2 if the command line is wrong.
bmcctl COMMAND --help lists the flags. bmcctl --version prints the version.
`
