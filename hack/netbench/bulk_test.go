package netbench_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
)

// files makes a kernel, and an initrd of so many bytes.
func (b *bench) files(size int) (kernel, initrd string) {
	kernel, initrd = filepath.Join(b.dir, "kernel"), filepath.Join(b.dir, "initrd")
	g := NewWithT(b.t)
	g.Expect(os.WriteFile(kernel, []byte("a kernel"), 0o644)).To(Succeed())
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	g.Expect(os.WriteFile(initrd, content, 0o644)).To(Succeed())
	return kernel, initrd
}

// TestHTTP loads an initrd of 300 MB over HTTP, with 1 and with 200 clients at once.
func TestHTTP(t *testing.T) {
	b := newBench(t)
	kernel, initrd := b.files(300_000_000)
	ours := b.ours(initrd, kernel)
	// Who asks for the script starts the fetch of what it names. When that is there the script is not given, for the server did not ask DHCP.
	b.awaitURL(ours.server, "/ipxe/"+dashed(macOf(1)), "The boot is not ready yet")
	nginx := b.nginx()
	t.Logf("%-8s %8s %12s %18s", "server", "clients", "MB/s", "CPU ms a file")
	for _, clients := range []int{1, 200} {
		var reference float64
		for _, c := range []struct {
			name string
			s    *server
			url  string
		}{
			{"ours", ours.server, "http://" + serverAddress + ":8480/boot/" + dashed(macOf(1)) + "/1"},
			{"nginx", nginx, "http://" + serverAddress + ":8481/initrd"},
		} {
			before := c.s.cpu(t)
			rate := b.wrk(c.url, clients)
			cpu := c.s.cpu(t) - before
			loaded := rate * wrkSeconds / 300 // files
			ratio := ""
			if reference == 0 {
				reference = rate
			} else {
				ratio = fmt.Sprintf("  (ours: %.2f times as much)", reference/rate)
			}
			t.Logf("%-8s %8d %12.0f %18.0f%s", c.name, clients, rate, float64(cpu.Milliseconds())/loaded, ratio)
		}
	}
}

func dashed(mac string) string {
	return string(regexp.MustCompile(":").ReplaceAll([]byte(mac), []byte("-")))
}

const wrkSeconds = 8

var wrkRead = regexp.MustCompile(`in [0-9.]+s, ([0-9.]+)([KMGT]?B) read`)

// wrk returns the MB a second that so many clients load together. It counts what it reads, also of a file that is not whole at the end.
func (b *bench) wrk(url string, clients int) float64 {
	b.t.Helper()
	g := NewWithT(b.t)
	out := b.load(tools("usr/bin/wrk"), "--threads", strconv.Itoa(min(clients, 2)), "--connections", strconv.Itoa(clients),
		"--duration", fmt.Sprintf("%ds", wrkSeconds), "--timeout", "60s", url)
	found := wrkRead.FindStringSubmatch(out)
	g.Expect(found).To(HaveLen(3), out)
	g.Expect(out).NotTo(ContainSubstring("Non-2xx"))
	n, err := strconv.ParseFloat(found[1], 64)
	g.Expect(err).NotTo(HaveOccurred())
	// wrk's units are powers of 1024.
	return n * map[string]float64{"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}[found[2]] / 1e6 / wrkSeconds
}

// awaitURL waits until a server answers a path with a text at its beginning.
func (b *bench) awaitURL(s *server, path, begin string) {
	b.t.Helper()
	NewWithT(b.t).Eventually(func(g Gomega) {
		select {
		case <-s.done:
			StopTrying("the server ended").Now()
		default:
		}
		out, err := b.loading(tools("usr/bin/curl"), "--silent", "--max-time", "5", "http://"+serverAddress+":8480"+path).Output()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(out)).To(ContainSubstring(begin))
	}, "120s", "200ms").Should(Succeed())
}
