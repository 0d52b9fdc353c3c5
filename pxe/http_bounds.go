package pxe

import (
	"cmp"
	"context"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	// maxWrite is how much of an answer a client must receive before the timeout. So a download of some GiB may take long, and the connection of a client that
	// stops reading is closed.
	maxWrite = 1 << 20
	// maxBody bounds the body of a request.
	maxBody = agent.MaxBody
)

// withBounds wraps the routes: it bounds bodies and waiting, and cleans paths. The ServeMux would redirect the client to the clean path, which shim does not
// follow: it asks for grubx64.efi behind two slashes.
func (h *Handler) withBounds(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), timeout: cmp.Or(h.ClientTimeout, time.Minute)}
		p.extend()
		if r.ContentLength != 0 {
			// A read deadline would cut off a long answer too, so it is set only if there is a body.
			_ = p.control.SetReadDeadline(time.Now().Add(p.timeout)) // a recorder has no deadlines
		}
		// This is the only copy of the request: the guard of the route finds its requestError in the context.
		clean := r.WithContext(context.WithValue(r.Context(), requestErrorKey{}, &requestError{}))
		clean.URL = &url.URL{Path: path.Clean("/" + strings.ReplaceAll(r.URL.Path, `\`, "/")), RawQuery: r.URL.RawQuery}
		clean.Body = http.MaxBytesReader(p, r.Body, maxBody)
		next.ServeHTTP(p, clean)
	})
}

// deadlineWriter is a ResponseWriter whose deadline moves forward while the client receives data. Files still go from the disk to the network within the kernel
// (sendfile).
type deadlineWriter struct {
	http.ResponseWriter

	control *http.ResponseController
	timeout time.Duration
	end     time.Time // when the answer ends at the latest; zero for no limit
	sent    int64     // bytes of the body
}

func (p *deadlineWriter) extend() {
	deadline := time.Now().Add(p.timeout)
	if !p.end.IsZero() && p.end.Before(deadline) {
		deadline = p.end
	}
	_ = p.control.SetWriteDeadline(deadline) // a recorder has no deadlines
}

// Unwrap is for http.ResponseController.
func (p *deadlineWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write writes a part of an answer.
func (p *deadlineWriter) Write(b []byte) (int, error) {
	p.extend()
	n, err := p.ResponseWriter.Write(b)
	p.sent += int64(n)
	return n, err
}

// ReadFrom copies a file into the answer. It passes on the file itself, a part at a time: net.TCPConn would not recognize the file in another reader, and would
// not use sendfile.
func (p *deadlineWriter) ReadFrom(from io.Reader) (int64, error) {
	limited, ok := from.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: from, N: math.MaxInt64}
	}
	var total int64
	for limited.N > 0 {
		p.extend()
		part, source := min(limited.N, maxWrite), limited.R
		medium, spliced := limited.R.(*mediaReader)
		if spliced {
			var err error
			if source, part, err = medium.next(part); err != nil || part == 0 {
				return total, err
			}
		}
		n, err := io.Copy(p.ResponseWriter, &io.LimitedReader{R: source, N: part})
		if spliced {
			medium.advance(source, n)
		}
		total, p.sent = total+n, p.sent+n
		limited.N -= n
		if err != nil || n < part {
			return total, err
		}
	}
	return total, nil
}
