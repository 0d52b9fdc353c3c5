package redfish

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish/schemas"

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

// wrap gives an error of a request its kind. It returns nil for nil.
func wrap(op string, err error) error {
	var (
		answer *schemas.Error
		busy   *busyError
	)
	switch {
	case errors.As(err, &busy):
		return &bmc.Error{Kind: bmc.Unreachable, Op: op, Err: busy, RetryAfter: busy.after}
	case errors.As(err, &answer) && slices.ContainsFunc(transient, func(id string) bool { return saysID(err, id) }):
		return &bmc.Error{Kind: bmc.Unreachable, Op: op, Err: errors.New(says(answer)), RetryAfter: 30 * time.Second}
	case errors.As(err, &answer):
		return &bmc.Error{Kind: kindOfStatus(answer.HTTPReturnedStatusCode), Op: op, Err: errors.New(says(answer))}
	case errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, new(*url.Error)):
		// It is gofish's decoder that came to the end of an answer, which is in memory: the network brought all of it.
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the BMC's answer is no JSON object: it ends too early")}
	default:
		return bmc.Wrap(op, err)
	}
}

// transient are the messages of a BMC that is not ready now, for minutes at times: while the server is in its power-on self test
// (HPE; openstack/ironic redfish-post-boot-retry), and while the BMC itself starts (Dell; openstack/sushy, quadsproject/badfish#129).
var transient = []string{"UnableToModifyDuringSystemPOST", "SWC0700", "SYS518"}

// saysID is true for an answer with this message, whatever the registry that it is from.
func saysID(err error, id string) bool {
	var answer *schemas.Error
	if !errors.As(err, &answer) {
		return false
	}
	if strings.HasSuffix(answer.Code, id) {
		return true
	}
	return slices.ContainsFunc(answer.ExtendedInfos, func(info schemas.ErrExtendedInfo) bool { return strings.HasSuffix(info.MessageID, id) })
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

// says quotes what the BMC says, from the fields that Redfish has for it. A body that is no Redfish error is not quoted: whatever
// answers at the address would get its words into a condition.
func says(answer *schemas.Error) string {
	var said []string
	if answer.Code != "" {
		said = append(said, answer.Message)
	}
	for _, info := range answer.ExtendedInfos {
		said = append(said, info.Message)
	}
	text := strings.Join(strings.Fields(strings.Join(said, " ")), " ")
	status := fmt.Sprintf("the BMC answered %d %s", answer.HTTPReturnedStatusCode, http.StatusText(answer.HTTPReturnedStatusCode))
	if answer.HTTPReturnedStatusCode == http.StatusForbidden {
		status += " (the account may lack the privilege, or the BMC a licence)"
	}
	if answer.HTTPReturnedStatusCode == 0 {
		return "the BMC's answer could not be read"
	}
	if text == "" {
		return status
	}
	return fmt.Sprintf("%s: %.200s", status, text)
}
