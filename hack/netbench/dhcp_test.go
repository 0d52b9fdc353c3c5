package netbench_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestDHCP finds how many DISCOVER-OFFER-REQUEST-ACK exchanges a second each server answers, with a thousand clients that say that
// they are PXE firmware of a BIOS, through a relay, which perfdhcp plays.
func TestDHCP(t *testing.T) {
	b := newBench(t)
	kernel, initrd := b.files(1 << 20)
	t.Logf("%-10s %12s %12s %16s %14s", "server", "exchanges/s", "drops at it", "CPU an answer", "mean delay")
	var reference float64
	for _, c := range []struct {
		name  string
		start func() *server
	}{
		{"ours", func() *server { return b.ours(initrd, kernel).server }},
		{"kea", b.kea},
		{"dnsmasq", b.dnsmasq},
	} {
		s := c.start()
		b.awaitAnswers(s)
		b.exchange(500, 6) // every client has its lease from here on
		best := b.fastest(s)
		s.stop()
		ratio := ""
		if reference == 0 {
			reference = best.rate
		} else {
			ratio = fmt.Sprintf("  (ours: %.2f times as many)", reference/best.rate)
		}
		t.Logf("%-10s %12.0f %11.2f%% %16s %11.2f ms%s", c.name, best.rate, 100*best.drops, best.cpu, best.delay, ratio)
	}
}

// run is the outcome of a run of perfdhcp.
type dhcpRun struct {
	rate  float64 // exchanges a second
	drops float64 // the part of the DISCOVERs and REQUESTs without an answer
	delay float64 // the mean time to an OFFER in ms
	cpu   time.Duration
}

// awaitAnswers waits until a server answers.
func (b *bench) awaitAnswers(s *server) {
	b.t.Helper()
	NewWithT(b.t).Eventually(func(g Gomega) {
		select {
		case <-s.done:
			StopTrying("the server ended").Now()
		default:
		}
		g.Expect(b.exchange(20, 1).drops).To(BeNumerically("<", 0.5))
	}, "90s", "100ms").Should(Succeed())
}

var (
	perfDrops = regexp.MustCompile(`(?s)sent packets: (\d+).*?received packets: (\d+)`)
	perfDelay = regexp.MustCompile(`avg delay: ([0-9.]+) ms`)
)

// exchange runs perfdhcp at a rate for so many seconds.
func (b *bench) exchange(rate, seconds int) dhcpRun {
	b.t.Helper()
	g := NewWithT(b.t)
	out, _ := b.loading(tools("usr/sbin/perfdhcp"), "-4", "-l", clientDevice, "-R", strconv.Itoa(hosts), "-b", "mac="+macOf(0),
		"-o", "60,"+fmt.Sprintf("%x", "PXEClient:Arch:00000:UNDI:002001"), "-o", "93,0000",
		"-r", strconv.Itoa(rate), "-p", strconv.Itoa(seconds), "-W", "500000", serverAddress).CombinedOutput() // it ends with 3 after drops
	text := string(out)
	number := func(found []string) float64 {
		g.Expect(found).NotTo(BeEmpty(), text)
		n, err := strconv.ParseFloat(found[len(found)-1], 64)
		g.Expect(err).NotTo(HaveOccurred())
		return n
	}
	r := dhcpRun{}
	var sent, received float64
	for _, part := range strings.Split(text, "***Statistics for:")[1:] {
		found := perfDrops.FindStringSubmatch(part)
		g.Expect(found).To(HaveLen(3), text)
		sent += number(found[:2])
		received += number(found)
		r.rate = number(found) / float64(seconds) // the last part is that of the ACKs
	}
	if sent > 0 {
		r.drops = 1 - received/sent
	}
	if found := perfDelay.FindStringSubmatch(text); found != nil {
		r.delay = number(found)
	}
	return r
}

// fastest finds the highest rate at which a server leaves less than one packet of a hundred without an answer.
func (b *bench) fastest(s *server) dhcpRun {
	b.t.Helper()
	const seconds = 4
	var best dhcpRun
	low, high := 0, 40_000
	for high-low > max(low/20, 50) {
		rate := (low + high) / 2
		before := s.cpu(b.t)
		r := b.exchange(rate, seconds)
		r.cpu = (s.cpu(b.t) - before) / time.Duration(max(1, 2*r.rate*seconds))
		if r.drops < 0.01 && r.rate > 0.95*float64(rate) {
			low, best = rate, r
		} else {
			high = rate
		}
	}
	return best
}
