package agenttest_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

// imagingTimeout is how long an image of 1.5 GiB may take: at least three times what it takes on a quiet machine with two processors.
const imagingTimeout = 20 * time.Minute

// diskArgs are the arguments of QEMU for a disk of 24 GiB in a file.
func diskArgs(file string) []string {
	return []string{
		"-drive", "if=none,id=disk,format=raw,cache=writeback,file=" + file,
		"-device", "virtio-blk-pci,drive=disk,serial=FIGURES",
	}
}

func blankDisk(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk.raw")
	NewWithT(t).Expect(os.WriteFile(file, nil, 0o600)).To(Succeed())
	NewWithT(t).Expect(os.Truncate(file, 24<<30)).To(Succeed())
	return file
}

// TestThroughput writes a sparse image of 20 GiB with 1.5 GiB of data, and logs how much is sent, and how fast the agent writes beside dd in the same guest.
// The figures are in docs/agent.md.
func TestThroughput(t *testing.T) {
	g := NewWithT(t)
	const size, data = 20 << 30, 1536 << 20
	service, from := prepared(t, sparseImage(t, size, data))
	w := newSegment(t, "10.99.0.0/24")
	w.dnsmasq(t, "10.99.0.100,10.99.0.150,2m")
	s, sent := serve(t, w.address(), agent.PowerOff), &atomic.Int64{}
	info := s.provide(t, service, from, sent)

	m := start(t, machine{cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}}, server: s.url, memory: minMemory, args: diskArgs(blankDisk(t))})
	m.awaitImage(s)
	written, steps := s.Result().Written, s.steps()
	g.Expect(written.ImageBytes).To(BeNumerically(">=", data/2))
	rate := float64(written.ImageBytes) / steps[wire.StepWriting].Seconds() / 1e6
	whole := float64(written.ImageBytes) / float64(max(written.Seconds, 1)) / 1e6

	ddRate := dd(t, blankDisk(t)) / 1e6
	t.Logf("image: %d bytes, of which %d are data; sent: %d bytes (%.1f %% of the image, %.3f times the data)",
		int64(size), info.DataBytes, sent.Load(), 100*float64(sent.Load())/size, float64(sent.Load())/float64(info.DataBytes))
	t.Logf("steps: %v", steps)
	t.Logf("download, verification and write: %.1f MB/s; dd with a flush: %.1f MB/s; share %.2f", rate, ddRate, rate/ddRate)
	t.Logf("the same with wipe, flush, read-back and commit: %.1f MB/s in %d s; share %.2f", whole, written.Seconds, whole/ddRate)
}

// provide serves an image to an agent, whose plan is to write it without bootstrap data, and counts the bytes that are sent.
func (s *server) provide(t *testing.T, service *image.Service, from image.Source, sent *atomic.Int64) image.Info {
	t.Helper()
	opened, err := service.Open("default", from)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = opened.Close() })
	s.Plan = imagePlan(opened.Info)
	s.Handle = func(endpoint string, w http.ResponseWriter, r *http.Request) {
		serveImage(opened, sent, endpoint, w, r)
	}
	return opened.Info
}

func imagePlan(of image.Info) agent.Plan {
	return agent.Plan{Title: "figures", Purpose: agent.Provision, Provision: &agent.ProvisionPlan{
		Manifest: of.ManifestDigest, DataSource: wire.DataSourceNone, PartitionGUID: "8a5b7f0c-3d1e-4a6f-9b2c-5d4e3f2a1b0c", BootEntry: "figures",
	}}
}

// awaitImage waits until an image is written, and the server is off.
func (r *running) awaitImage(s *server) {
	r.t.Helper()
	g := NewWithT(r.t)
	g.Eventually(func() bool { return s.Result() != nil || r.isOff() }, imagingTimeout, "200ms").Should(BeTrue())
	result := s.Result()
	g.Expect(result).NotTo(BeNil(), "the server went off before")
	g.Expect(result.Failure).To(BeNil())
	g.Expect(result.Written.Committed).To(BeTrue())
	r.awaitOff()
}

// steps returns how long each step of the agent took, by its reports. The last one lasts until the result.
func (s *server) steps() map[wire.AgentStep]time.Duration {
	took := map[wire.AgentStep]time.Duration{}
	var step wire.AgentStep
	var begin time.Time
	for _, r := range append(s.Requests(agent.EndpointProgress), s.Requests(agent.EndpointResult)...) {
		var p agent.Progress
		_ = json.Unmarshal(r.Body, &p) // a result has no step
		if p.Step == step {
			continue
		}
		if step != "" {
			took[step] += r.At.Sub(begin)
		}
		step, begin = p.Step, r.At
	}
	return took
}

// serveImage answers the requests of a Provision plan, and counts the bytes of manifest and image.
func serveImage(opened *image.Opened, sent *atomic.Int64, endpoint string, w http.ResponseWriter, r *http.Request) {
	counted := &countingWriter{w, sent}
	switch endpoint {
	case agent.EndpointManifest:
		content, err := opened.Manifest()
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = counted.Write(content) // the client is gone
	case agent.EndpointImage:
		http.ServeContent(counted, r, "", time.Time{}, io.NewSectionReader(opened.Data, 0, opened.Info.Header.Size))
	case agent.EndpointCommit:
		w.WriteHeader(http.StatusNoContent)
	default:
		http.NotFound(w, r)
	}
}

type countingWriter struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (w *countingWriter) Write(content []byte) (int, error) {
	n, err := w.ResponseWriter.Write(content)
	w.sent.Add(int64(n))
	return n, err
}

// sparseImage makes an image of a size that boots by a BIOS: Debian's, with random data behind it up to the given amount.
func sparseImage(t *testing.T, size, data int64) string {
	t.Helper()
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "sparse.raw")
	out, err := exec.CommandContext(t.Context(), "cp", "--sparse=always", debianImage, file).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out)+": make osimage builds it")
	used, err := exec.CommandContext(t.Context(), "du", "--block-size=1", file).Output()
	g.Expect(err).NotTo(HaveOccurred())
	there, err := strconv.ParseInt(string(bytes.Fields(used)[0]), 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	target, err := os.OpenFile(file, os.O_WRONLY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = target.Close() }()
	g.Expect(target.Truncate(size)).To(Succeed())
	_, err = target.Seek(size/2, io.SeekStart)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.CopyN(target, rand.Reader, data-there)
	g.Expect(err).NotTo(HaveOccurred())
	return file
}

// prepared prepares an image from an origin on this machine.
func prepared(t *testing.T, file string) (*image.Service, image.Source) {
	t.Helper()
	g := NewWithT(t)
	content, err := os.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = content.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, content)
	g.Expect(err).NotTo(HaveOccurred())
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, file) }))
	t.Cleanup(origin.Close)
	service, err := image.New(image.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(service.Close)
	from := image.Source{URL: origin.URL + "/sparse.raw", Checksum: fmt.Sprintf("sha256:%x", sum.Sum(nil))}
	g.Eventually(func() error {
		_, err := service.Prepare(t.Context(), "default", from, nil)
		if err != nil && !errors.Is(err, image.ErrNotYet) {
			return StopTrying(err.Error())
		}
		return err
	}, imagingTimeout, "200ms").Should(Succeed())
	return service, from
}

// ddScript is the first program of a guest that writes 1.5 GiB to its disk with dd.
const ddScript = `#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /sbin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
modprobe virtio_pci
modprobe virtio_blk
until [ -b /dev/vda ]; do :; done
read began rest </proc/uptime
dd if=/dev/zero of=/dev/vda bs=1M count=1536 conv=fsync
read ended rest </proc/uptime
echo "dd from $began to $ended"
poweroff -f
`

// ddResult is what the script prints at its end: Debian's busybox prints no rate.
var ddResult = regexp.MustCompile(`dd from ([0-9.]+) to ([0-9.]+)`)

// dd returns the bytes per second that dd writes in a guest with the agent's kernel and modules.
func dd(t *testing.T, disk string) float64 {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(os.Mkdir(filepath.Join(folder, "bin"), 0o755)).To(Succeed())
	busybox, err := os.ReadFile("/bin/busybox")
	g.Expect(err).NotTo(HaveOccurred(), "hack/agenttest.sh installs it")
	g.Expect(os.WriteFile(filepath.Join(folder, "bin/busybox"), busybox, 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "dd"), []byte(ddScript), 0o755)).To(Succeed())
	// The kernel unpacks several archives one after the other. One that is not compressed has to begin at a multiple of 4 bytes.
	ramdisk, err := filepath.Abs(filepath.Join(output, "ramdisk"))
	g.Expect(err).NotTo(HaveOccurred())
	initrd := filepath.Join(t.TempDir(), "initrd")
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", `cd "$1"; cp "$2" "$3"; truncate -s %4 "$3"; find . | cpio --quiet -o -H newc >>"$3"`, "sh", folder, ramdisk, initrd).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	m := start(t, machine{commandLine: "rdinit=/dd", memory: minMemory, args: diskArgs(disk), initrd: initrd})
	g.Eventually(m.exited, imagingTimeout).Should(BeClosed())
	found := ddResult.FindStringSubmatch(m.said())
	g.Expect(found).To(HaveLen(3), m.said())
	began, err := strconv.ParseFloat(found[1], 64)
	g.Expect(err).NotTo(HaveOccurred())
	ended, err := strconv.ParseFloat(found[2], 64)
	g.Expect(err).NotTo(HaveOccurred())
	return (1536 << 20) / (ended - began)
}
