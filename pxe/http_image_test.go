package pxe_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// imageAgents serves one image to every host. It answers no other request.
type imageAgents struct {
	pxe.Agents

	path string
}

func (i *imageAgents) CheckToken(context.Context, pxe.AgentRequest) error { return nil }

func (i *imageAgents) Image(context.Context, pxe.AgentRequest) (*pxe.OpenedImage, error) {
	data, err := os.Open(i.path)
	return &pxe.OpenedImage{Manifest: func() ([]byte, error) { return nil, nil }, Data: data}, err
}

// newImageLab is newLab with an image of size bytes.
func newImageLab(tb testing.TB, size int) (*lab, []byte) {
	tb.Helper()
	l, content := newLab(tb, 8), bytes.Repeat([]byte("an image"), size/8)
	path := filepath.Join(tb.TempDir(), "data")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	l.handler.Agents = &imageAgents{path: path}
	return l, content
}

func imageRequest(tb testing.TB, base, host string, from, to int) *http.Request {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, base+agent.Path(host, agent.EndpointImage), nil)
	if err != nil {
		tb.Fatal(err)
	}
	r.RemoteAddr = "192.0.2.9:4711"
	r.Header.Set("Authorization", "Bearer token")
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
	return r
}

// fileWriter is an answer that records from what it is copied.
type fileWriter struct {
	nowhere

	files, bytes int64
}

func (f *fileWriter) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok {
		if _, ok := limited.R.(*os.File); ok {
			f.files++
		}
	}
	n, err := io.Copy(io.Discard, r)
	f.bytes += n
	return n, err
}

// imageSent returns the value of capbm_image_sent_bytes_total.
func imageSent(g *WithT) float64 {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "capbm_image_sent_bytes_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	g.Fail("there is no metric capbm_image_sent_bytes_total")
	return 0
}

// TestImageSendfile: a range reaches the ReadFrom of the connection as a file, at most 1 MiB at a time, so that the kernel sends it. Its bytes are counted, each time.
func TestImageSendfile(t *testing.T) {
	g := NewWithT(t)
	l, _ := newImageLab(t, 4<<20)
	sent := imageSent(g)
	for n := range 2 {
		w := &fileWriter{nowhere: nowhere{header: http.Header{}}}
		l.handler.Mux().ServeHTTP(w, imageRequest(t, "", "dc/h", 1<<20, 4<<20))
		g.Expect(w.status).To(Equal(http.StatusPartialContent))
		g.Expect([]int64{w.files, w.bytes}).To(Equal([]int64{3, 3 << 20}))
		g.Expect(imageSent(g) - sent).To(BeEquivalentTo((n + 1) * 3 << 20))
	}
}

// deadlines is an answer that records the last deadline for a write.
type deadlines struct {
	nowhere

	last time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.last = t
	return nil
}

// TestImageAnswerTime: an answer from an image ends after five minutes, however fast the client reads: one that reads slowly would hold its place for days.
func TestImageAnswerTime(t *testing.T) {
	g := NewWithT(t)
	l, _ := newImageLab(t, 4<<20)
	l.handler.ClientTimeout = time.Hour // for each part
	w := &deadlines{nowhere: nowhere{header: http.Header{}}}
	l.handler.Mux().ServeHTTP(w, imageRequest(t, "", "dc/h", 0, 4<<20))
	g.Expect(w.status).To(Equal(http.StatusPartialContent))
	g.Expect(time.Until(w.last)).To(BeNumerically("~", 5*time.Minute, time.Minute))
}

// stalled opens connections whose clients request the image and read nothing.
func stalled(t *testing.T, server *httptest.Server, host string, count int) {
	t.Helper()
	for range count {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		r := imageRequest(t, server.URL, host, 0, 64<<20)
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 16)); err != nil { // the answer has begun
			t.Fatal(err)
		}
	}
}

// TestImageStalledHost: a host that requests the image and reads nothing takes neither the turn of another host nor other answers.
func TestImageStalledHost(t *testing.T) {
	g := NewWithT(t)
	l, content := newImageLab(t, 64<<20)
	server := httptest.NewServer(l.handler.Mux())
	t.Cleanup(server.CloseClientConnections)
	stalled(t, server, "dc/stalled", 4)
	response, err := server.Client().Do(imageRequest(t, server.URL, "dc/stalled", 0, 8))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(response.StatusCode).To(Equal(http.StatusAccepted), "the host has its share")
	g.Expect(response.Header.Get("Retry-After")).NotTo(BeEmpty())
	response, err = server.Client().Do(imageRequest(t, server.URL, "dc/h", 0, 8))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(response.Body)).To(Equal(content[:8]))
	g.Expect(response.Body.Close()).To(Succeed())
}

// TestImageFullSlots: while every turn is taken by clients that read nothing, scripts are answered.
func TestImageFullSlots(t *testing.T) {
	g := NewWithT(t)
	l, _ := newImageLab(t, 64<<20)
	server := httptest.NewServer(l.handler.Mux())
	t.Cleanup(server.CloseClientConnections)
	for host := range 16 {
		stalled(t, server, fmt.Sprintf("dc%d/stalled-%d", host/12, host), 4)
	}
	waiting := server.Client()
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := waiting.Do(imageRequest(t, server.URL, "dc/h", 0, 8).WithContext(short)) //nolint:bodyclose // there is no response
	g.Expect(err).To(MatchError(context.DeadlineExceeded), "it waits for a slot")
	g.Expect(scriptStatus(t, server)).To(Equal(http.StatusOK))
}

// TestImageShareOfNamespace: the hosts of one namespace do not take every turn.
func TestImageShareOfNamespace(t *testing.T) {
	g := NewWithT(t)
	l, content := newImageLab(t, 64<<20)
	server := httptest.NewServer(l.handler.Mux())
	t.Cleanup(server.CloseClientConnections)
	for host := range 12 {
		stalled(t, server, fmt.Sprintf("dc/stalled-%d", host), 4)
	}
	for host, want := range map[string]int{"dc/h": http.StatusAccepted, "other/h": http.StatusPartialContent} {
		response, err := server.Client().Do(imageRequest(t, server.URL, host, 0, 8))
		g.Expect(err).NotTo(HaveOccurred())
		body, err := io.ReadAll(response.Body)
		g.Expect(errors.Join(err, response.Body.Close())).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(want), host)
		if want == http.StatusPartialContent {
			g.Expect(body).To(Equal(content[:8]))
		}
	}
}

func scriptStatus(t *testing.T, server *httptest.Server) (int, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/ipxe/"+mac, nil)
	if err != nil {
		return 0, err
	}
	response, err := server.Client().Do(r)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// readImage reads an image in ranges as an agent does, and returns its digest.
func readImage(tb testing.TB, client *http.Client, base, host string, size, part int) ([sha256.Size]byte, error) {
	tb.Helper()
	sum := sha256.New()
	for at := 0; at < size; {
		response, err := client.Do(imageRequest(tb, base, host, at, min(at+part, size)))
		if err != nil {
			return [sha256.Size]byte{}, err
		}
		if response.StatusCode == http.StatusPartialContent {
			n, err := io.Copy(sum, response.Body)
			if err != nil {
				return [sha256.Size]byte{}, err
			}
			at += int(n)
		} else if response.StatusCode != http.StatusAccepted {
			return [sha256.Size]byte{}, fmt.Errorf("status %s", response.Status)
		}
		if err := response.Body.Close(); err != nil {
			return [sha256.Size]byte{}, err
		}
	}
	return [sha256.Size]byte(sum.Sum(nil)), nil
}

// TestImageManyHosts: 250 hosts read an image at the same time. All get it, and scripts are answered meanwhile.
func TestImageManyHosts(t *testing.T) {
	g := NewWithT(t)
	const size = 1 << 20
	l, content := newImageLab(t, size)
	server := httptest.NewServer(l.handler.Mux())
	t.Cleanup(server.Close)
	want := sha256.Sum256(content)
	var hosts errgroup.Group
	for n := range 250 {
		hosts.Go(func() error {
			client := &http.Client{Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			got, err := readImage(t, client, server.URL, fmt.Sprintf("dc/h-%d", n), size, size/4)
			if err == nil && got != want {
				err = fmt.Errorf("host %d has another image", n)
			}
			return err
		})
	}
	for range 50 {
		g.Expect(scriptStatus(t, server)).To(Equal(http.StatusOK))
	}
	g.Expect(hosts.Wait()).To(Succeed())
}

// BenchmarkImage is 10 hosts that read an image at once, from the routes of the boot server and from http.ServeFile. The processor time is that of this process:
// the server and the clients, which are the same in both.
func BenchmarkImage(b *testing.B) {
	const size, hosts = 64 << 20, 10
	l, _ := newImageLab(b, size)
	path := l.handler.Agents.(*imageAgents).path
	plain := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) })
	rates := map[string]float64{}
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"plain", plain}, {"boot", l.handler.Mux()}} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: hosts}}
			defer client.CloseIdleConnections()
			before, begin := processorTime(b), time.Now()
			for b.Loop() {
				var group errgroup.Group
				for n := range hosts {
					group.Go(func() error { return discardImage(b, client, server.URL, fmt.Sprintf("dc/h-%d", n), size) })
				}
				if err := group.Wait(); err != nil {
					b.Fatal(err)
				}
			}
			total := float64(b.N) * hosts * size
			rates[c.name] = total / time.Since(begin).Seconds() / 1e6
			b.ReportMetric(rates[c.name], "MB/s")
			b.ReportMetric((processorTime(b)-before).Seconds()/(total/(1<<30)), "cpu-s/GiB")
			if c.name == "boot" && rates["plain"] > 0 {
				b.ReportMetric(rates["boot"]/rates["plain"], "MB/s-ratio")
			}
		})
	}
}

// discardImage reads an image in ranges of 16 MiB, as an agent does.
func discardImage(b *testing.B, client *http.Client, base, host string, size int) error {
	b.Helper()
	for at := 0; at < size; at += 16 << 20 {
		response, err := client.Do(imageRequest(b, base, host, at, at+16<<20))
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, response.Body)
		if closeErr := response.Body.Close(); err != nil || closeErr != nil || n != 16<<20 {
			return fmt.Errorf("%s: %d bytes: %w", response.Status, n, err)
		}
	}
	return nil
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
