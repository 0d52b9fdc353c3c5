// Command agent makes the ramdisk of the agent from unpacked packages of Debian: the agent as /init, kernel modules, and the firmware that these name. The
// same input gives the same bytes. hack/agent.sh runs it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	kernel, firmware, list, program, output, xz, zstd string
	epoch, limit                                      int64
}

func main() {
	var o options
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	set.StringVar(&o.kernel, "kernel", "", "The unpacked package of the kernel.")
	set.StringVar(&o.firmware, "packages", "", "The folder with the unpacked packages of firmware.")
	set.StringVar(&o.list, "modules", "", "The file that lists the modules.")
	set.StringVar(&o.program, "program", "", "The agent.")
	set.StringVar(&o.output, "output", "", "The folder to write to.")
	set.StringVar(&o.xz, "xz", "xz", "The program xz.")
	set.StringVar(&o.zstd, "zstd", "zstd", "The program zstd.")
	set.Int64Var(&o.epoch, "epoch", 0, "The time of all files, in seconds since 1970.")
	set.Int64Var(&o.limit, "limit", 0, "The largest size of kernel and ramdisk together, in bytes.")
	err := set.Parse(os.Args[1:])
	if err == nil {
		err = build(o)
	}
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func build(o options) error {
	release, err := onlyEntry(filepath.Join(o.kernel, "usr/lib/modules"))
	if err != nil {
		return err
	}
	tree, err := newModuleTree(filepath.Join(o.kernel, "usr/lib/modules", release, "kernel"), o.xz)
	if err != nil {
		return err
	}
	modules, err := tree.selected(o.list)
	if err != nil {
		return err
	}
	r := &ramdisk{modified: time.Unix(o.epoch, 0)}
	program, err := os.ReadFile(o.program)
	if err != nil {
		return err
	}
	r.add("init", 0o755, program)
	r.link("sbin/modprobe", "/init") // request_module() of the kernel runs it (CONFIG_MODPROBE_PATH)
	for _, folder := range []string{"dev", "proc", "run", "sys", "etc", "tmp"} {
		r.folder(folder)
	}
	r.console("dev/console")
	addModules(r, release, modules)
	found, err := addFirmware(r, o.firmware, modules)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil { //nolint:gosec // files of a release, that everyone may read
		return err
	}
	if err := r.write(filepath.Join(o.output, "ramdisk"), o.zstd); err != nil {
		return err
	}
	if err := copyKernel(o, release); err != nil {
		return err
	}
	if err := writeLicences(o, found); err != nil {
		return err
	}
	if err := writeModuleList(filepath.Join(o.output, "modules"), modules, found); err != nil {
		return err
	}
	return report(o, r)
}

// onlyEntry returns the name of the only entry of a folder.
func onlyEntry(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	if len(entries) != 1 {
		return "", fmt.Errorf("%s has %d entries, and not 1", folder, len(entries))
	}
	return entries[0].Name(), nil
}

// copyKernel copies the kernel as it is: its signature is of these bytes.
func copyKernel(o options, release string) error {
	content, err := os.ReadFile(filepath.Join(o.kernel, "boot", "vmlinuz-"+release)) //nolint:gosec // the folder is ours
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.output, "kernel"), content, 0o644) //nolint:gosec // a file of a release, that everyone may read
}
