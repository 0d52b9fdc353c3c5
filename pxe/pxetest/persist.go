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

// askAgain is the delay between two attempts. Real clients wait for seconds.
const askAgain = 50 * time.Millisecond

func (p *persistent) RoundTrip(request *http.Request) (*http.Response, error) {
	deadline := time.Now().Add(p.limit)
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
		case <-time.After(askAgain):
		case <-request.Context().Done():
			return nil, request.Context().Err()
		}
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
