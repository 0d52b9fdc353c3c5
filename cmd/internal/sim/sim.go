// Package sim is the program bmcsim: emulated servers in one process, each with a BMC at its own address, and a control server that
// activates faults.
package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Run runs the program until ctx ends, and returns its exit code. It writes one line to stdout when all servers listen.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o := &options{}
	set := o.flags()
	showVersion := set.Bool("version", false, "Print the version and exit.")
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(stdout, usage, set.FlagUsagesWrapped(120))
		return exitOK
	case err == nil && *showVersion:
		writef(stdout, "bmcsim %s\n", version.String())
		return exitOK
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("%q is not a flag: bmcsim has only flags", set.Arg(0))
	case err == nil:
		err = o.complete(getenv)
	}
	if err != nil {
		writef(stderr, "bmcsim: %v (bmcsim --help lists the flags)\n", err)
		return exitUsage
	}
	if err := simulate(ctx, o, stdout, stderr); err != nil {
		writef(stderr, "bmcsim: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// writef writes to the user. It ignores errors, because they cannot be reported.
func writef(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

// simulate listens, prints the summary, and serves until ctx ends.
func simulate(ctx context.Context, o *options, stdout, stderr io.Writer) error {
	r := newRack(o, slog.NewTextHandler(stderr, nil))
	defer r.close() //nolint:contextcheck // it waits for goroutines that ctx has ended
	if err := r.start(ctx); err != nil {
		return err
	}
	control, err := r.startControl(ctx)
	if err != nil {
		return err
	}
	if o.hosts != "" {
		if err := r.writeHosts(stdout); err != nil {
			return err
		}
	}
	writef(stdout, "%s\n", r.summary(control))
	select {
	case <-ctx.Done():
		return nil
	case err := <-r.broken:
		return err
	}
}

// writeHosts writes the manifests to the file that --hosts names, or to stdout.
func (r *rack) writeHosts(stdout io.Writer) error {
	if r.opts.hosts == "-" {
		_, err := io.WriteString(stdout, r.manifests())
		return err
	}
	if err := writeSecret(r.opts.hosts, r.manifests()); err != nil {
		return fmt.Errorf("--hosts: %w", err)
	}
	return nil
}

// writeSecret writes a file atomically, with permissions for its owner only. It replaces an existing file, which may have had other
// permissions. It writes to an existing pipe or device.
func writeSecret(name, content string) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(name, []byte(content), 0o600)
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".bmcsim-*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name()) // the previous error is the cause
	}
	return err
}

// summary lists the addresses in one line.
func (r *rack) summary(control string) string {
	count := map[string]int{}
	first, last := map[string]string{}, map[string]string{}
	for _, s := range r.servers {
		if count[s.protocol] == 0 {
			first[s.protocol] = s.url
		}
		last[s.protocol] = s.url
		count[s.protocol]++
	}
	var parts []string
	for _, protocol := range []string{protocolRedfish, protocolIPMI} {
		switch n := count[protocol]; n {
		case 0:
		case 1:
			parts = append(parts, fmt.Sprintf("1 %s server at %s", protocol, first[protocol]))
		default:
			parts = append(parts, fmt.Sprintf("%d %s servers at %s to %s", n, protocol, first[protocol], last[protocol]))
		}
	}
	if control != "" {
		parts = append(parts, "control at "+control)
	}
	password := "the given password"
	if r.opts.defaultPassword {
		password = fmt.Sprintf("password %q", r.opts.password)
	}
	return fmt.Sprintf("bmcsim: %s; user %q, %s", strings.Join(parts, "; "), r.opts.username, password)
}

const usage = `bmcsim runs emulated servers. Each has a BMC at its own address: Redfish servers on consecutive TCP ports, IPMI
servers on consecutive UDP ports. A control server shows the commands that they received, and activates faults.

  bmcsim --redfish 10
  bmcsim --redfish 1000 --ipmi 100 --hosts hosts.yaml      then: kubectl apply -f hosts.yaml
  bmcsim --redfish 3 --tls-ca ca.crt --power-delay 5s
  curl http://127.0.0.1:7999/                              help of the control server

The servers power on and off, store boot overrides, and have virtual media. They have no firmware: they send no DHCP requests and
boot nothing, but they read the start of the image in the virtual drive if they would boot from it. The user name is "admin" and
the password is "password". Change them with --username and --password-file, or with BMC_USERNAME and BMC_PASSWORD in the environment.

%s`
