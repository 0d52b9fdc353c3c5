package redfish_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

const fleet = 1000

// newFleet starts emulated BMCs and returns their endpoints. The CPU time of the benchmark includes the emulators.
func newFleet(b *testing.B, query string) []bmc.Endpoint {
	b.Helper()
	endpoints := make([]bmc.Endpoint, fleet)
	for i := range endpoints {
		machine := bmctest.NewMachine(bmctest.Options{Name: strconv.Itoa(i), Username: "admin", Password: "secret", UUID: testUUID})
		server := httptest.NewServer(machine)
		b.Cleanup(func() { server.CloseClientConnections(); server.Close(); machine.Close() })
		u, err := url.Parse(server.URL)
		if err != nil {
			b.Fatal(err)
		}
		u.Scheme, u.RawQuery = redfish.SchemeInsecure, query
		endpoints[i] = bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}
	}
	return endpoints
}

// BenchmarkPowerPoll polls the power of 1,000 BMCs repeatedly through a pool. An op is one poll of one BMC, including the
// emulator's part. bytes/idle-BMC is the heap of the pool and the driver for an idle BMC.
func BenchmarkPowerPoll(b *testing.B) {
	for name, query := range map[string]string{"basic": "", "session": "auth=session"} {
		b.Run(name, func(b *testing.B) {
			endpoints := newFleet(b, query)
			driver := &redfish.Driver{Permit: bmctest.Loopback}
			before := heap()
			goroutines := runtime.NumGoroutine()
			pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: driver.Driver()}, bmc.PoolOptions{Rate: 1e6})
			pollAll := func(n int) {
				var wg sync.WaitGroup
				for i := range n {
					if i > 0 && i%fleet == 0 {
						wg.Wait()
					}
					e := endpoints[i%fleet]
					wg.Add(1)
					pool.Submit(bmc.Job{
						Key: e.URL.Host, Endpoint: e,
						Run: func(ctx context.Context, c bmc.Client) error { _, err := c.PowerState(ctx); return err },
						Done: func(err error) {
							if err != nil {
								b.Error(err)
							}
							wg.Done()
						},
					})
				}
				wg.Wait()
			}
			pollAll(fleet)
			b.ReportAllocs()
			b.ResetTimer()
			used := cpu(b)
			pollAll(b.N)
			b.StopTimer()
			b.ReportMetric(float64((cpu(b)-used).Microseconds())/float64(b.N), "cpu-µs/poll")
			driver.CloseIdleConnections()
			b.ReportMetric(float64(heap()-before)/fleet, "bytes/idle-BMC")
			b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/fleet, "goroutines/idle-BMC")
			pool.Close()
		})
	}
}

// cpu is the time that this process used, that of the emulators included.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
