package pxe_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// nowhere is an answer that no client reads.
type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(status int)      { n.status = status }

// BenchmarkRequest is the cost of a request in this process, from the routes to the answer, without the network and the API: a script in each
// dialect, a file of the seed with its token, and a guess of a client above its limit, which ends at the guard.
func BenchmarkRequest(b *testing.B) {
	l := newLab(b, 8)
	l.booter.Data = seed.Data{InstanceID: "host-uid-1000-1", Hostname: "m-1", ProviderID: "baremetal://dc/h/m-1", UserData: []byte("#cloud-config\n"), ReportPath: "/report/dc/h/token/up"}
	mux := l.handler.Mux()
	honest, guesser := netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("192.0.2.66")
	for name, c := range map[string]struct {
		path   string
		from   netip.Addr
		status int
	}{
		"ipxe":     {"/ipxe/" + mac, honest, http.StatusOK},
		"grub":     {"/grub/" + mac, honest, http.StatusOK},
		"seed":     {"/seed/dc/h/token/meta-data", honest, http.StatusOK},
		"guessing": {"/seed/dc/h/guess/meta-data", guesser, http.StatusForbidden},
	} {
		b.Run(name, func(b *testing.B) {
			r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: c.path}, RemoteAddr: netip.AddrPortFrom(c.from, 4711).String()}
			w := &nowhere{header: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				w.status = http.StatusOK
				clear(w.header)
				if mux.ServeHTTP(w, r); w.status != c.status {
					b.Fatal(w.status)
				}
			}
		})
	}
}
