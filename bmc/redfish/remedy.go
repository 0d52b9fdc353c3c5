package redfish

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

const (
	webPageRemedy = "use the host and port of the BMC's Redfish service, and enable Redfish in the BMC"
	sshRemedy     = "an SSH server answers there: use the port of the BMC's Redfish service, which is 443 by default"
)

// errWebPage is the error of a web page in place of a JSON object.
var errWebPage = errors.New("the server answered with a web page instead of a Redfish resource: " + webPageRemedy)

// remedy adds the remedy to an error of the network or of TLS. It adds none for an unknown CA, because only the caller knows where the CA
// is configured. It wraps the error, so its kind does not change.
func remedy(err error) error {
	var (
		record   tls.RecordHeaderError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	add := func(what string) error { return fmt.Errorf("%w: %s", err, what) }
	switch {
	case errors.As(err, &hostname):
		return add("use a name in the address that the certificate contains, or issue a certificate for " + hostname.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return add("renew the BMC's certificate, and compare the clocks of the BMC and of this machine")
	case errors.Is(err, http.ErrSchemeMismatch):
		return add("the port serves HTTP without TLS: use the HTTPS port, or write redfish+http://, which sends the credentials in plain text")
	case errors.As(err, &record) && string(record.RecordHeader[:4]) == "SSH-":
		return add(sshRemedy)
	case errors.As(err, &record):
		return add("the port does not serve TLS: use the BMC's HTTPS port")
	case answerBeginsWith(err, "SSH-"):
		return notHTTP(sshRemedy)
	case answerBeginsWith(err, `\x15\x03`), answerBeginsWith(err, `\x16\x03`): // TLS records of the types alert and handshake (RFC 8446, 5.1)
		return notHTTP("the port serves HTTPS: write redfish:// instead of redfish+http://, or use the HTTP port")
	case err != nil && strings.Contains(err.Error(), "malformed HTTP "):
		return notHTTP(webPageRemedy)
	default:
		return err
	}
}

// notHTTP replaces an error of net/http, because that quotes the response, which is not trusted.
func notHTTP(what string) error { return errors.New("the answer is not HTTP: " + what) }

// answerBeginsWith is true if a response that is not HTTP began with the prefix. net/http has no error type for it (Go 1.26; no upstream issue
// found), so the text is matched. Delete when it has one.
func answerBeginsWith(err error, prefix string) bool {
	return err != nil && strings.Contains(err.Error(), `malformed HTTP response "`+prefix)
}
