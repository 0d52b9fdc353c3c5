package tftp

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The results of requests, as a label of a metric.
const (
	outcomeSent      = "sent"      // the file was sent, and the client has all of it
	outcomeSize      = "size"      // the client wanted to know the size
	outcomeAborted   = "aborted"   // the client ended the transfer
	outcomeTimeout   = "timeout"   // the client stopped answering
	outcomeFailed    = "failed"    // the packets could not be sent
	outcomeNotFound  = "not-found" // there is no such file
	outcomeRefused   = "refused"   // a write request, or a mode other than octet
	outcomeMalformed = "malformed" // not a request
	outcomeBusy      = "busy"      // too many at once: no answer, clients ask again
)

var (
	requests = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_tftp_requests_total", Help: "TFTP requests for boot loaders, by result.",
	}, []string{"result"})
	sentBytes = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_tftp_sent_bytes_total", Help: "Bytes of boot loaders sent over TFTP, including retransmissions.",
	})
)
