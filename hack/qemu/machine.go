// Package qemu runs emulated PCs for tests: their firmware, their processes and their serial consoles. hack/firmware.sh installs what it needs.
package qemu

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// Machine is a PC that can be switched on and off.
type Machine struct {
	folder string

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// New returns a machine that is off. Its files are in the folder.
func New(folder string) *Machine { return &Machine{folder: folder} }

// File is a file in the folder of the machine.
func (m *Machine) File(name string) string { return filepath.Join(m.folder, name) }

// On starts the machine with arguments for QEMU, after those that all machines have: a processor, and the serial console. FOLDER in the arguments is the
// folder of the machine. The channel that On returns is closed when the machine is off, also if it was not Off that ended it. A machine that is on stays on.
func (m *Machine) On(args ...string) (<-chan struct{}, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process != nil {
		return m.exited, nil
	}
	output, err := os.OpenFile(m.File("console"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("qemu-system-x86_64", m.args(args)...) //nolint:noctx,gosec // ended by Off, after its output was read; a test gives the arguments
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // Linux takes the end of the thread that started a process for that of its parent
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, or switched off by its guest
		}
		_ = output.Close()
		m.mu.Lock()
		m.process = nil
		m.mu.Unlock()
		close(exited)
	}()
	// The goroutine needs the lock only after this.
	if err := <-started; err != nil {
		return nil, err
	}
	m.process, m.exited = cmd, exited
	return exited, nil
}

// args is QEMU's command line.
func (m *Machine) args(more []string) []string {
	args := append([]string{
		"-cpu", "Nehalem", "-smp", "1", "-nodefaults", "-display", "none", "-no-reboot",
		"-chardev", "file,id=serial,append=on,path=FOLDER/console", "-serial", "chardev:serial",
	}, more...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FOLDER", m.folder)
	}
	return args
}

// Off switches the machine off, like a pulled plug.
func (m *Machine) Off() {
	m.mu.Lock()
	process, exited := m.process, m.exited
	m.mu.Unlock()
	if process != nil {
		_ = process.Process.Kill() // an error says that it is gone
		<-exited
	}
}

// IsOn is true while the machine is on.
func (m *Machine) IsOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.process != nil
}

// Console returns what the machine wrote to its serial console, as Printable text.
func (m *Machine) Console() string {
	content, err := os.ReadFile(m.File("console"))
	if err != nil {
		return err.Error()
	}
	return Printable(content)
}

// Printable drops escape sequences, which move the cursor, and control characters.
func Printable(content []byte) string {
	var out strings.Builder
	escape := false
	for _, c := range content {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c < '@' || c == '['
		case c == '\n' || c >= ' ' && c <= '~':
			_ = out.WriteByte(c)
		default:
		}
	}
	return out.String()
}
