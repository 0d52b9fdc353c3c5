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

// busyError is an answer that asks to come back later.
type busyError struct {
	status int
	after  time.Duration
}

func (e *busyError) Error() string {
	return fmt.Sprintf("the BMC answered %d %s", e.status, http.StatusText(e.status))
}

// answerError is an answer that is an error (DSP0266, 8.6).
type answerError struct {
	status int
	code   string
	// ids and messages are those of the error and of its extended information.
	ids, messages []string
	// page is true for a web page, and plainHTTP where a TLS port says that the request came without TLS.
	page, plainHTTP bool
}

func (e *answerError) Error() string { return says(e) }

// errorOf reads an answer that is an error. A body that is no Redfish error is not quoted: whatever answers at the address would get
// its words into a condition.
func errorOf(status int, body []byte) error {
	e := &answerError{status: status, page: isPage(body), plainHTTP: status == http.StatusBadRequest && rejectsPlainHTTP(body)}
	r, err := decode(body)
	if err != nil {
		return e // the status says enough
	}
	r = r.object("error")
	e.code = r.text("code")
	infos := r.list("@Message.ExtendedInfo")
	for _, info := range infos {
		id := info.text("MessageId")
		e.ids = append(e.ids, id)
		message := info.text("Message")
		if message == "" && id != "" { // some services leave the sentence to the registry of messages
			message = strings.TrimSpace(id + " " + strings.Join(info.texts("MessageArgs"), " "))
		}
		e.addMessage(message)
	}
	if len(e.messages) == 0 { // it only says where the details are, or repeats them
		e.addMessage(r.text("message"))
	}
	return e
}

// addMessage notes a message, unless it was said already.
func (e *answerError) addMessage(message string) {
	message = strings.Join(strings.Fields(message), " ")
	if message != "" && !slices.Contains(e.messages, message) {
		e.messages = append(e.messages, message)
	}
}

// isPage is true for a web page.
func isPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// rejectsPlainHTTP is true for what TLS ports of common web servers answer to a request without TLS (Go, nginx, Apache).
func rejectsPlainHTTP(body []byte) bool {
	text := strings.ToLower(string(body[:min(len(body), 2048)]))
	return strings.Contains(text, "https server") || strings.Contains(text, "https port") || strings.Contains(text, "ssl-enabled server port")
}

// wrap gives an error of a request its kind. It returns nil for nil.
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

// transient are the messages of a BMC that is not ready now, for minutes at times: while the server is in its power-on self test
// (HPE; openstack/ironic redfish-post-boot-retry), and while the BMC itself starts (Dell; openstack/sushy, quadsproject/badfish#129).
var transient = []string{"UnableToModifyDuringSystemPOST", "SWC0700", "SYS518"}

// hasMessageID is true for an answer with this message, whatever the registry that it is from.
func hasMessageID(err error, id string) bool {
	var e *answerError
	if !errors.As(err, &e) {
		return false
	}
	return strings.HasSuffix(e.code, id) || slices.ContainsFunc(e.ids, func(said string) bool { return strings.HasSuffix(said, id) })
}

// statusOf returns the HTTP status of an answer that is an error, or 0.
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

// says quotes what the BMC says, from the fields that Redfish has for it.
func says(e *answerError) string {
	status := fmt.Sprintf("the BMC answered %d %s", e.status, http.StatusText(e.status))
	switch {
	case e.plainHTTP:
		return status + ": the port speaks HTTPS: write redfish:// instead of redfish+http://, or name the port of HTTP"
	case e.status == http.StatusForbidden:
		status += " (the account may lack the privilege, or the BMC a licence)"
	case e.page:
		return status + " with a web page: " + pageRemedy
	}
	text := strings.Join(e.messages, " ")
	if text == "" {
		return status
	}
	return fmt.Sprintf("%s: %.200s", status, text)
}
