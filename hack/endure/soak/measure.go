package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// usage is what the manager used, in all its processes.
type usage struct {
	mu         sync.Mutex
	since      time.Time
	cpu        time.Duration // of the processes that have ended
	pid        int
	now        time.Duration // of the current process
	mostMemory int           // KiB
}

// watchUsage reads every second what the manager used, until ctx ends.
func watchUsage(ctx context.Context, s *soak) *usage {
	u := &usage{since: time.Now()}
	s.background.Go(func() {
		for {
			u.read(s.plane.ManagerPid())
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	})
	return u
}

func (u *usage) read(pid int) {
	used, err := proc.UsageOf(pid)
	if err != nil {
		return // it has ended
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if pid != u.pid {
		u.cpu, u.pid = u.cpu+u.now, pid
	}
	u.now, u.mostMemory = used.CPU, max(u.mostMemory, used.KiB)
}

// print prints what a host costs.
func (u *usage) print(hosts int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	elapsed := time.Since(u.since)
	cores := (u.cpu + u.now).Seconds() / elapsed.Seconds()
	fmt.Printf("\nThe manager used %.2f cores and at most %d MiB: %.2f millicores and %.2f MiB for each of %d hosts, over %s\n",
		cores, u.mostMemory/1024, 1000*cores/float64(hosts), float64(u.mostMemory)/1024/float64(hosts), hosts, elapsed.Round(time.Second))
}

// footprint is what a manager at rest holds.
type footprint struct{ goroutines, files, temporary, leases int }

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d open files and connections, %d temporary files, %d address leases", f.goroutines, f.files, f.temporary, f.leases)
}

func (s *soak) footprint(ctx context.Context) (footprint, error) {
	profile, err := s.goroutines(ctx)
	if err != nil {
		return footprint{}, err
	}
	var f footprint
	first, _, _ := strings.Cut(profile, "\n")
	if _, err := fmt.Sscanf(first, "goroutine profile: total %d", &f.goroutines); err != nil {
		return f, fmt.Errorf("%q: %w", first, err)
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.plane.ManagerPid()))
	if err != nil {
		return f, err
	}
	f.files = len(files)
	err = filepath.WalkDir(s.temp, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			f.temporary++
		}
		return err
	})
	if err != nil {
		return f, err
	}
	leases, err := s.plane.Kubectl(ctx, "-n", "capbm-system", "get", "leases", "-o", "name")
	f.leases = len(strings.Fields(leases))
	return f, err
}

// goroutines reads the manager's profile of its goroutines.
func (s *soak) goroutines(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.profiler+"/debug/pprof/goroutine?debug=1", nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(response.Body)
	return string(content), errors.Join(err, response.Body.Close())
}
