package controllers

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestCertificateRemedy: the message suggests a CA only if one would help.
func TestCertificateRemedy(t *testing.T) {
	for err, asks := range map[error]bool{
		x509.UnknownAuthorityError{}: true,
		x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"bmc.example"}}, Host: "192.0.2.1"}: false,
		x509.CertificateInvalidError{Reason: x509.Expired}:                                                       false,
		x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}:                                           true,
	} {
		problem := BMCProblem(bmc.Wrap("Connect", err), 1, time.Now())
		if strings.Contains(problem.Message, "spec.bmc.caSecretName") != asks {
			t.Errorf("%T: %s", err, problem.Message)
		}
	}
}

// TestRefusedLoginRemedy: a login that is not tried does not promise that another one is.
func TestRefusedLoginRemedy(t *testing.T) {
	for _, test := range []struct {
		err          error
		says, denies string
	}{
		{errors.New("401"), "Changed credentials are tried at once", "also not with changed ones"},
		{fmt.Errorf("%w: two were refused", bmc.ErrLoginDeferred), "also not with changed ones, or on request", "tried at once"},
	} {
		message := BMCProblem(&bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", RetryAfter: time.Minute, Err: test.err}, 1, time.Now()).Message
		if !strings.Contains(message, test.says) || strings.Contains(message, test.denies) {
			t.Errorf("%v: %s", test.err, message)
		}
	}
}
