package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a process used since it started.
type Usage struct {
	// CPU is the CPU time in user space and in the kernel.
	CPU time.Duration
	// KiB is the current memory, PeakKiB the maximum.
	KiB, PeakKiB int
}

// tick is the unit of the times in /proc/PID/stat: USER_HZ, which is 100 for every architecture that Go knows.
const tick = 10 * time.Millisecond

// UsageOf reads the usage of a process (proc(5)).
func UsageOf(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before it may contain any bytes
	user, errUser := strconv.Atoi(fields[11])
	system, errSystem := strconv.Atoi(fields[12])
	u := Usage{CPU: time.Duration(user+system) * tick, KiB: kib(string(status), "VmRSS"), PeakKiB: kib(string(status), "VmHWM")}
	return u, errors.Join(errUser, errSystem)
}

// kib returns a size from /proc/PID/status. A process that is ending has no sizes.
func kib(status, name string) int {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}
