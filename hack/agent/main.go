// Command agent makes the ramdisk of the agent from unpacked packages of Debian, in two steps. The same input gives the same bytes. hack/agent.sh runs it.
//
//	base       write what no commit of ours changes: the kernel, the licences, and the archive with kernel modules and the firmware that these name
//	ramdisk    write the folder of an agent: the base, and the agent as /init in an archive of its own at the end of the ramdisk
//
// The kernel unpacks archives one after another (Documentation/driver-api/early-userspace/buffer-format.rst), so the large one is compressed once.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	kernel, firmware, list, xz, zstd, mksquashfs string
	base, program, output                        string
	limit                                        int64
}

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	set.StringVar(&o.kernel, "kernel", "", "The unpacked package of the kernel.")
	set.StringVar(&o.firmware, "packages", "", "The folder with the unpacked packages of firmware.")
	set.StringVar(&o.list, "modules", "", "The file that lists the modules.")
	set.StringVar(&o.base, "base", "", "The folder that the command base wrote.")
	set.StringVar(&o.program, "program", "", "The agent.")
	set.StringVar(&o.output, "output", "", "The folder to write to.")
	set.StringVar(&o.xz, "xz", "xz", "The program xz.")
	set.StringVar(&o.zstd, "zstd", "zstd", "The program zstd.")
	set.StringVar(&o.mksquashfs, "mksquashfs", "mksquashfs", "The program mksquashfs.")
	set.Int64Var(&o.limit, "limit", 0, "The largest size of kernel and ramdisk together, in bytes.")
	if err := set.Parse(args); err != nil {
		return err
	}
	switch set.Arg(0) {
	case "base":
		return writeBase(o)
	case "ramdisk":
		return writeRamdisk(o)
	default:
		return fmt.Errorf("%q is no command: use base or ramdisk", set.Arg(0))
	}
}

// writeBase writes a folder without the agent: its ramdisk has no /init yet.
func writeBase(o options) error {
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
	var r ramdisk
	r.link("sbin/modprobe", "/init") // request_module() of the kernel runs it (CONFIG_MODPROBE_PATH)
	for _, folder := range []string{"dev", "proc", "run", "sys", "etc", "tmp"} {
		r.folder(folder)
	}
	r.console("dev/console")
	addModules(&r, release, modules)
	found, err := addFirmware(&r, o.firmware, modules)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.output, 0o755); err != nil { //nolint:gosec // files of a release, that everyone may read
		return err
	}
	if err := r.write(filepath.Join(o.output, "ramdisk"), o.zstd); err != nil {
		return err
	}
	if err := writeKernel(filepath.Join(o.kernel, "boot", "vmlinuz-"+release), o.output, o.mksquashfs); err != nil {
		return err
	}
	if err := writeLicences(o, found); err != nil {
		return err
	}
	if err := writeModuleList(filepath.Join(o.output, "modules"), modules, found); err != nil {
		return err
	}
	printParts(&r)
	return nil
}

// writeRamdisk copies the base, and appends the agent to its ramdisk.
func writeRamdisk(o options) error {
	if err := os.CopyFS(o.output, os.DirFS(o.base)); err != nil {
		return err
	}
	program, err := os.ReadFile(o.program)
	if err != nil {
		return err
	}
	var r ramdisk
	r.add("init", 0o755, program)
	if err := r.write(filepath.Join(o.output, "ramdisk"), o.zstd); err != nil {
		return err
	}
	return checkSize(o)
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
