package pxetest

import (
	"io"
	"net/http"
	"time"
)

// persistent repeats requests as iPXE's scripts and cloud-init do: they survive the restart of a boot server.
type persistent struct {
	next  http.RoundTripper
	limit time.Duration
}

// The delay between two attempts doubles. Real clients wait for seconds.
const (
	askAgain       = 50 * time.Millisecond
	askAgainAtMost = time.Second
)

func (p *persistent) RoundTrip(request *http.Request) (*http.Response, error) {
	deadline, delay := time.Now().Add(p.limit), askAgain
	for {
		response, err := p.next.RoundTrip(request)
		if err == nil && response.StatusCode/100 != 5 || !time.Now().Before(deadline) {
			return response, err
		}
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		select {
		case <-time.After(delay):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
		delay = min(2*delay, askAgainAtMost)
		if request.GetBody != nil {
			body, err := request.GetBody()
			if err != nil {
				return nil, err
			}
			request = request.Clone(request.Context())
			request.Body = body
		}
	}
}
