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
	pageRemedy = "name the host and port of the BMC's Redfish service, and enable Redfish in the BMC"
	sshRemedy  = "an SSH server answers there: name the port of the BMC's Redfish service, which is 443 unless it was changed"
)

// errPage is a web page where Redfish has a JSON object.
var errPage = errors.New("a web page came instead of a Redfish resource: " + pageRemedy)

// remedy adds to an error of the network or of TLS what can be done about it, except for an unknown CA: where that is given the caller
// knows. It keeps the error, and with it its kind.
func remedy(err error) error {
	var (
		record   tls.RecordHeaderError
		hostname x509.HostnameError
		invalid  x509.CertificateInvalidError
	)
	add := func(what string) error { return fmt.Errorf("%w: %s", err, what) }
	switch {
	case errors.As(err, &hostname):
		return add("write a name into the address for which the certificate is, or have the BMC's certificate made for " + hostname.Host)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return add("renew the BMC's certificate, and compare the clocks of the BMC and of this machine")
	case errors.Is(err, http.ErrSchemeMismatch):
		return add("the port speaks HTTP without TLS: name the port of HTTPS, or write redfish+http://, which sends the credentials in the clear")
	case errors.As(err, &record) && string(record.RecordHeader[:4]) == "SSH-":
		return add(sshRemedy)
	case errors.As(err, &record):
		return add("the port does not speak TLS: name the port of the BMC's HTTPS")
	case answerBeginsWith(err, "SSH-"):
		return notHTTP(sshRemedy)
	case answerBeginsWith(err, `\x15\x03`), answerBeginsWith(err, `\x16\x03`): // the records of TLS that alert and that shake hands (RFC 8446, 5.1)
		return notHTTP("the port speaks HTTPS: write redfish:// instead of redfish+http://, or name the port of HTTP")
	case err != nil && strings.Contains(err.Error(), "malformed HTTP "):
		return notHTTP(pageRemedy)
	default:
		return err
	}
}

// notHTTP stands in for an error of net/http, which quotes what came: a stranger's words.
func notHTTP(what string) error { return errors.New("the answer is not HTTP: " + what) }

// answerBeginsWith is true for an answer that began with these bytes where HTTP was expected. net/http has no type for that, only words (Go 1.26).
func answerBeginsWith(err error, beginning string) bool {
	return err != nil && strings.Contains(err.Error(), `malformed HTTP response "`+beginning)
}
