package controllers

import (
	"crypto/x509"
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
