package pxe

import (
	"cmp"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

const (
	// stretch is how much of an answer a client must take before its patience is up. So a download of some GiB takes as long as it
	// takes, and who stops reading is hung up on.
	stretch = 1 << 20
	// maxBody bounds what a client sends with a request.
	maxBody = 64 << 10
)

// bound stands before the routes: it bounds bodies and waiting, and cleans paths. The routes would send the client on to the clean
// path, which shim does not follow: it asks for grubx64.efi behind two slashes.
func (h *Handler) bound(next http.Handler) http.Handler {
	next = http.MaxBytesHandler(next, maxBody)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &patient{ResponseWriter: w, control: http.NewResponseController(w), patience: cmp.Or(h.Patience, time.Minute)}
		p.extend()
		if r.ContentLength != 0 {
			// A reader's deadline would cut off a long answer too: it is set only where there is something to read.
			_ = p.control.SetReadDeadline(time.Now().Add(p.patience)) // a recorder has none
		}
		clean := *r
		clean.URL = &url.URL{Path: path.Clean("/" + strings.ReplaceAll(r.URL.Path, `\`, "/")), RawQuery: r.URL.RawQuery}
		next.ServeHTTP(p, &clean)
	})
}

// patient is a ResponseWriter whose deadline moves on with what the client takes. Files go from the disk to the network within
// the kernel (sendfile), as they do without it.
type patient struct {
	http.ResponseWriter

	control  *http.ResponseController
	patience time.Duration
}

func (p *patient) extend() {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.patience)) // a recorder has none
}

// Unwrap is for http.ResponseController.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Write writes a part of an answer.
func (p *patient) Write(b []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(b)
}

// ReadFrom copies a file into the answer. It hands on the file itself, a stretch at a time: another reader around it would hide
// from net.TCPConn that it is one.
func (p *patient) ReadFrom(from io.Reader) (int64, error) {
	limited, ok := from.(*io.LimitedReader)
	if !ok {
		limited = &io.LimitedReader{R: from, N: math.MaxInt64}
	}
	var total int64
	for limited.N > 0 {
		p.extend()
		part := min(limited.N, stretch)
		n, err := io.Copy(p.ResponseWriter, &io.LimitedReader{R: limited.R, N: part})
		total += n
		limited.N -= n
		if err != nil || n < part {
			return total, err
		}
	}
	return total, nil
}
