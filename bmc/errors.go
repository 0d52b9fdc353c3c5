package bmc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// Kind is the kind of error of a BMC call. It determines what the caller can do about it.
type Kind string

const (
	// Unauthorized means that the BMC refused the credentials. BMCs also answer so while they restart.
	Unauthorized Kind = "Unauthorized"
	// Unreachable means that the BMC did not answer in time, or that it was busy.
	Unreachable Kind = "Unreachable"
	// BadCertificate means that the BMC's certificate does not verify.
	BadCertificate Kind = "BadCertificate"
	// NotFound means that the BMC does not manage the system that the URL names, or that it manages several and the URL names none.
	NotFound Kind = "NotFound"
	// Unsupported means that the BMC does not have the requested function.
	Unsupported Kind = "Unsupported"
	// Busy means that the BMC refused a command temporarily, because the power is in transition or another job uses the server. Nothing was
	// done. The caller may repeat the command soon.
	Busy Kind = "Busy"
	// Failed means that the BMC answered with an error, or that its answer cannot be used.
	Failed Kind = "Failed"
)

// Error is an error of a BMC call.
type Error struct {
	Kind Kind
	// Op is the operation, for the start of a sentence.
	Op  string
	Err error
	// RetryAfter is how long the caller should wait before it contacts the BMC again. If it is zero, the caller decides.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns err as an *Error with the kind that Classify returns. It returns nil and an *Error unchanged.
func Wrap(op string, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{Kind: Classify(err), Op: op, Err: err}
}

// KindOf returns the kind of an error of a BMC call.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Classify(err)
}

// RetryAfter returns how long to wait before the BMC is contacted again after an error of a BMC call. If it is zero, the caller decides.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// WrongCertificate is true for a certificate error that another CA does not fix: the certificate is for another name, or it has expired.
func WrongCertificate(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, new(x509.HostnameError)) || errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// Classify returns the kind of an error from the network or from TLS.
func Classify(err error) Kind {
	var (
		verification *tls.CertificateVerificationError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		operation    *net.OpError
		resolution   *net.DNSError
		network      net.Error
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid):
		return BadCertificate
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &operation), errors.As(err, &resolution),
		errors.As(err, &network) && network.Timeout(),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return Unreachable
	default:
		return Failed
	}
}
