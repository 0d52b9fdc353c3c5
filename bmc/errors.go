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

// Kind says what kind of error a BMC call ended with, and so what can be done about it.
type Kind string

// The kinds of error.
const (
	// Unauthorized means that the BMC refused the credentials. BMCs say so too while they restart.
	Unauthorized Kind = "Unauthorized"
	// Unreachable means that the BMC did not answer in time, or that it was busy.
	Unreachable Kind = "Unreachable"
	// BadCertificate means that the BMC's certificate does not verify.
	BadCertificate Kind = "BadCertificate"
	// NotFound means that the BMC does not manage the system named, or manages several and none is named.
	NotFound Kind = "NotFound"
	// Unsupported means that the BMC cannot do what was asked.
	Unsupported Kind = "Unsupported"
	// Busy means that the BMC refused a command for now, since the power is in transition or another job has the server. Nothing was done, and the
	// same command is worth another try soon.
	Busy Kind = "Busy"
	// Failed means that the BMC answered with an error or with nonsense.
	Failed Kind = "Failed"
)

// Error is an error of a BMC call.
type Error struct {
	Kind Kind
	// Op is what was tried, for a sentence that begins with it.
	Op  string
	Err error
	// RetryAfter is how long the BMC is to be left alone; zero leaves it to the caller.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns an error of a BMC call with the kind that Classify finds. It returns nil for nil, and an *Error as it is.
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

// RetryAfter returns how long the BMC is to be left alone after an error of a BMC call; zero leaves it to the caller.
func RetryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// WrongCertificate is true for an error with a certificate that no other CA makes right: it is for another name, or expired.
func WrongCertificate(err error) bool {
	var invalid x509.CertificateInvalidError
	return errors.As(err, new(x509.HostnameError)) || errors.As(err, &invalid) && invalid.Reason == x509.Expired
}

// Classify tells the kind of an error that the network or TLS gave.
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
