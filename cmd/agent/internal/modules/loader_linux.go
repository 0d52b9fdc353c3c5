package modules

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Loader loads modules into the kernel.
type Loader struct {
	// Root is the folder of the kernel's modules: /lib/modules/RELEASE.
	Root  string
	Index *Index
	// CommandLine is that of the kernel, with the parameters of modules.
	CommandLine string

	mu     sync.Mutex
	loaded map[string]bool
	// done are the names that Load was called with.
	done map[string]bool
}

// Open returns the loader for the running kernel, with its modules in /lib/modules.
func Open() (*Loader, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	root := filepath.Join("/lib/modules", unix.ByteSliceToString(name.Release[:]))
	index, err := ReadIndex(os.DirFS(root))
	if err != nil {
		return nil, fmt.Errorf("read the index of the kernel's modules: %w", err)
	}
	line, _ := os.ReadFile("/proc/cmdline") // without it, modules have their defaults: the kernel may ask for one before /proc is mounted
	return &Loader{Root: root, Index: index, CommandLine: string(line)}, nil
}

// Load loads the modules for a module's name or an alias. It returns the names of modules that it loaded. A name that no module serves is no error, and a
// name that Load was called with before is ignored. A module that fails does not keep the others from being loaded.
func (l *Loader) Load(name string) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loaded == nil {
		l.loaded, l.done = map[string]bool{}, map[string]bool{}
	}
	if l.done[name] {
		return nil, nil
	}
	l.done[name] = true
	var loaded []string
	var failed []error
	for _, module := range l.Index.Find(name) {
		for _, next := range l.Index.Order(module) {
			if l.loaded[next] {
				continue
			}
			l.loaded[next] = true
			if err := l.insert(next); err != nil {
				failed = append(failed, err)
				continue
			}
			loaded = append(loaded, next)
		}
	}
	return loaded, errors.Join(failed...)
}

// insert gives a module to the kernel. One that the kernel has is no error, nor is one for a processor or a device that is not there.
func (l *Loader) insert(module string) error {
	file, err := os.Open(filepath.Join(l.Root, l.Index.File(module)))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	with := parameters(module, l.CommandLine)
	err = unix.FinitModule(int(file.Fd()), with, 0)
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the kernel module %s with the parameters %q: %w", module, with, err)
	}
	return nil
}

// ForDevices loads the modules of all devices that the kernel knows, in sysfs, which is /sys. It repeats this until no module is loaded any more: a module
// of a bus finds more devices. Modules that fail are returned as one error.
func (l *Loader) ForDevices(sysfs string) ([]string, error) {
	var all []string
	var failed []error
	for {
		var loaded []string
		err := filepath.WalkDir(filepath.Join(sysfs, "devices"), func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Name() != "modalias" {
				return nil //nolint:nilerr // a device went while it was read
			}
			content, err := os.ReadFile(name) //nolint:gosec // in sysfs
			if alias := strings.TrimSpace(string(content)); err == nil && alias != "" {
				more, err := l.Load(alias)
				loaded = append(loaded, more...)
				failed = append(failed, err)
			}
			return nil
		})
		failed = append(failed, err)
		all = append(all, loaded...)
		if len(loaded) == 0 {
			return all, errors.Join(failed...)
		}
	}
}

// Modprobe is the program that the kernel runs for request_module(): modprobe -q -- NAME. It returns the exit code.
func Modprobe(args []string) int {
	l, err := Open()
	if err != nil {
		return 1
	}
	code := 0
	for _, name := range args {
		if strings.HasPrefix(name, "-") {
			continue
		}
		if len(l.Index.Find(name)) == 0 {
			code = 1
		}
		if _, err := l.Load(name); err != nil {
			code = 1
		}
	}
	return code
}
