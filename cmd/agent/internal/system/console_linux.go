package system

import (
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// consoleTimeout is how long a console may take for a text: a full line takes a second at 1,200 baud.
const consoleTimeout = 5 * time.Second

// Consoles opens the consoles of the kernel. A person looks at the screen or at one of the serial ports, and /dev/console is only the last one that the command line names.
// Without any the log goes nowhere, and the agent works all the same. Messages of the kernel below a warning are kept off the consoles: they would bury the agent's.
func Consoles() io.Writer {
	list, _ := os.ReadFile("/proc/consoles") // without it the log goes to /dev/console
	names, out := consoleNames(string(list)), &consoles{timeout: consoleTimeout}
	if len(names) == 0 {
		names = []string{"console"}
	}
	for _, name := range names {
		if one, err := os.OpenFile("/dev/"+name, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err == nil { //nolint:gosec // the kernel has the names; not every console has a device
			out.open = append(out.open, one)
		}
	}
	_ = os.WriteFile("/proc/sys/kernel/printk", []byte("5 4 1 7\n"), 0) // without it the console has more messages
	return out
}

// consoleNames returns the devices of /proc/consoles, whose lines begin with them (admin-guide/serial-console.rst of Linux).
func consoleNames(list string) []string {
	var out []string
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out = append(out, fields[0])
		}
	}
	return out
}

// consoles writes to each console. It is not safe for concurrent use.
type consoles struct {
	open    []*os.File
	timeout time.Duration
}

// Write implements io.Writer. It never fails: a console that does not take the text in time, or breaks, gets no more, so that it does not keep the agent from its work.
func (c *consoles) Write(text []byte) (int, error) {
	usable := c.open[:0]
	for _, one := range c.open {
		_ = one.SetWriteDeadline(time.Now().Add(c.timeout)) // an error of a file without deadlines: it does not block
		if _, err := one.Write(text); err == nil {
			usable = append(usable, one)
		}
	}
	c.open = usable
	return len(text), nil
}
