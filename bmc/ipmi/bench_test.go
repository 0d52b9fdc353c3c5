package ipmi_test

import (
	"context"
	"net"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
)

// fleet is how many BMCs the benchmarks poll.
const fleet = 1000

// steady has the default timeouts, because a busy machine may answer slowly.
var steady = &ipmi.Driver{Permit: loopback}

func emulate(b *testing.B, n int) []bmc.Endpoint {
	b.Helper()
	endpoints := make([]bmc.Endpoint, n)
	for i := range endpoints {
		_, endpoints[i] = newMachine(b, bmctest.Options{UUID: systemUUID, Username: "admin", Password: "secret"})
	}
	return endpoints
}

// heap is the memory in use after a collection.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// cpu is the time that this process and its ended children used.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var used syscall.Rusage
		if err := syscall.Getrusage(who, &used); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	return sum
}

// polls runs a poll of one BMC after the other. The CPU time is that of the driver and of the emulator, which share the process.
func polls(b *testing.B, poll func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	before, n := cpu(b), 0
	for b.Loop() {
		if err := poll(n % fleet); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(n), "cpu-µs/poll")
}

// BenchmarkPollReconnecting reads the power state with a new session each time.
func BenchmarkPollReconnecting(b *testing.B) {
	before := heap()
	endpoints := emulate(b, fleet)
	emulated := (heap() - before) / fleet
	polls(b, func(i int) error {
		client, err := steady.Open(context.Background(), endpoints[i])
		if err != nil {
			return err
		}
		if _, err := client.PowerState(context.Background()); err != nil {
			return err
		}
		return client.Close(context.Background())
	})
	b.ReportMetric(emulated, "B/emulated-BMC")
}

// BenchmarkPollKept reads the power state in a session that is kept.
func BenchmarkPollKept(b *testing.B) {
	endpoints := emulate(b, fleet)
	clients := make([]bmc.Client, fleet)
	connect := func(i int) error {
		client, err := steady.Open(context.Background(), endpoints[i])
		clients[i] = client
		return err
	}
	before := heap()
	for i := range clients {
		if err := connect(i); err != nil {
			b.Fatal(err)
		}
	}
	held := (heap() - before) / fleet // with what the emulator holds for the session
	b.Cleanup(func() {
		for _, c := range clients {
			_ = c.Close(context.Background())
		}
	})
	polls(b, func(i int) error {
		_, err := clients[i].PowerState(context.Background())
		return err
	})
	b.ReportMetric(held, "B/idle-BMC")
}

// BenchmarkPollIpmitool runs ipmitool for each poll, like drivers that do not implement the protocol.
func BenchmarkPollIpmitool(b *testing.B) {
	path, err := exec.LookPath("ipmitool")
	if err != nil {
		b.Skip("ipmitool is not installed: apt-get install ipmitool")
	}
	endpoints := emulate(b, fleet)
	polls(b, func(i int) error {
		host, port, err := net.SplitHostPort(endpoints[i].URL.Host)
		if err != nil {
			return err
		}
		command := exec.CommandContext(b.Context(), path, "-I", "lanplus", "-C", "17", "-H", host, "-p", port, "-U", "admin", "-E", "power", "status")
		command.Env = []string{"IPMI_PASSWORD=secret"}
		return command.Run()
	})
}
