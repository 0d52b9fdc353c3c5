package redfish

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// busyError is a response with Retry-After.
type busyError struct {
	status int
	after  time.Duration
}

func (e *busyError) Error() string {
	return fmt.Sprintf("the BMC answered %d %s", e.status, http.StatusText(e.status))
}

// answerError is an error response (DSP0266, 8.6).
type answerError struct {
	status int
	code   string
	// ids and messages are those of the error and of its extended information.
	ids, messages []string
	// webPage is true for a web page, and plainHTTP for a TLS port that received the request without TLS.
	webPage, plainHTTP bool
}

// Error quotes the messages of the Redfish error.
func (e *answerError) Error() string {
	status := fmt.Sprintf("the BMC answered %d %s", e.status, http.StatusText(e.status))
	switch {
	case e.plainHTTP:
		return status + ": the port serves HTTPS: write redfish:// instead of redfish+http://, or use the HTTP port"
	case e.status == http.StatusForbidden:
		status += " (the account may lack the privilege, or the BMC a licence)"
	case e.webPage:
		return status + " with a web page: " + webPageRemedy
	}
	text := strings.Join(e.messages, " ")
	if text == "" {
		return status
	}
	return fmt.Sprintf("%s: %.200s", status, text)
}

// errorOf reads an error response. A body that is not a Redfish error is not quoted, because any server at the address could write into a
// condition.
func errorOf(status int, body []byte) error {
	e := &answerError{status: status, webPage: isWebPage(body), plainHTTP: status == http.StatusBadRequest && rejectsPlainHTTP(body)}
	r, err := decode(body)
	if err != nil {
		return e
	}
	r = r.object("error")
	e.code = r.text("code")
	infos := r.list("@Message.ExtendedInfo")
	for _, info := range infos {
		id := info.text("MessageId")
		e.ids = append(e.ids, id)
		message := info.text("Message")
		if message == "" && id != "" { // some services omit the text, which is in the message registry
			message = strings.TrimSpace(id + " " + strings.Join(info.texts("MessageArgs"), " "))
		}
		e.addMessage(message)
	}
	if len(e.messages) == 0 { // otherwise the top-level message only refers to the details, or repeats them
		e.addMessage(r.text("message"))
	}
	return e
}

// addMessage adds a message once.
func (e *answerError) addMessage(message string) {
	message = strings.Join(strings.Fields(message), " ")
	if message != "" && !slices.Contains(e.messages, message) {
		e.messages = append(e.messages, message)
	}
}

// isWebPage is true for a web page.
func isWebPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// rejectsPlainHTTP is true for the response of common web servers to a request without TLS at a TLS port (Go, nginx, Apache).
func rejectsPlainHTTP(body []byte) bool {
	text := strings.ToLower(string(body[:min(len(body), 2048)]))
	return strings.Contains(text, "https server") || strings.Contains(text, "https port") || strings.Contains(text, "ssl-enabled server port")
}

// wrap returns the error of a request as a *bmc.Error. It returns nil for nil.
func wrap(op string, err error) error {
	var (
		known *bmc.Error
		e     *answerError
		busy  *busyError
	)
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &busy):
		return &bmc.Error{Kind: bmc.Unreachable, Op: op, Err: busy, RetryAfter: busy.after}
	case errors.As(err, &e) && slices.ContainsFunc(transient, func(id string) bool { return hasMessageID(err, id) }):
		return &bmc.Error{Kind: bmc.Unreachable, Op: op, Err: e, RetryAfter: 30 * time.Second}
	case errors.As(err, &e):
		return &bmc.Error{Kind: kindOfStatus(e.status), Op: op, Err: e}
	default:
		return bmc.Wrap(op, remedy(err))
	}
}

// transient are the messages of a BMC that is not ready, sometimes for minutes: during the server's power-on self test (HPE;
// openstack/ironic redfish-post-boot-retry), and while the BMC itself starts (Dell; openstack/sushy, quadsproject/badfish#129).
var transient = []string{"UnableToModifyDuringSystemPOST", "SWC0700", "SYS518"}

// hasMessageID is true for a response with this message ID of any registry.
func hasMessageID(err error, id string) bool {
	var e *answerError
	if !errors.As(err, &e) {
		return false
	}
	return strings.HasSuffix(e.code, id) || slices.ContainsFunc(e.ids, func(s string) bool { return strings.HasSuffix(s, id) })
}

// statusOf returns the HTTP status of an answerError, or 0.
func statusOf(err error) int {
	var e *answerError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

func kindOfStatus(status int) bmc.Kind {
	switch status {
	case http.StatusUnauthorized:
		return bmc.Unauthorized
	case http.StatusNotFound, http.StatusGone:
		return bmc.NotFound
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return bmc.Unsupported
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return bmc.Unreachable
	default:
		return bmc.Failed
	}
}
