package ipmi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// refusal is the error of an answer with a completion code that is not 00h (IPMI 2.0, table 5-2).
func refusal(op string, code types.CompletionCode) error {
	text := fmt.Sprintf("the BMC refused with completion code %02Xh", uint8(code))
	if said := code.String(); said != "" {
		text += ": " + strings.TrimSpace(said)
	}
	return &bmc.Error{Kind: kindOfCode(code), Op: op, Err: fmt.Errorf("%w", &completionError{code, text})}
}

// completionError is a completion code in words.
type completionError struct {
	code types.CompletionCode
	text string
}

func (e *completionError) Error() string { return e.text }

// codeOf returns the completion code that an error is about; ok is false for any other error.
func codeOf(err error) (code types.CompletionCode, ok bool) {
	var e *completionError
	if errors.As(err, &e) {
		return e.code, true
	}
	return 0, false
}

func kindOfCode(code types.CompletionCode) bmc.Kind {
	switch code {
	case types.CodeInvalidCommand, types.CodeInvalidCommandForLUN, types.CodeSubFnDisabled:
		return bmc.Unsupported
	case types.CodeInsufficientPrivilege:
		return bmc.Unauthorized
	case types.CodeNodeBusy, types.CodeProcessTimeout, types.CodeCannotProvideResponse, types.CodeCannotProvideResponseSDRRInUpdate,
		types.CodeCannotProvideResponseFirmwareUpdate, types.CodeCannotProvideResponseBMCInitialize, types.CodeDestinationUnavailable:
		return bmc.Unreachable
	default:
		return bmc.Failed
	}
}

// isRefusal is true for answers that say that the BMC does not have what was asked for, and that say nothing of the BMC being gone.
func isRefusal(err error) bool {
	_, refused := codeOf(err)
	return refused && bmc.KindOf(err) != bmc.Unreachable
}

// ignoreOptional turns the errors of what a BMC need not have into nil.
func ignoreOptional(err error) error {
	if bmc.KindOf(err) == bmc.Unreachable {
		return err
	}
	return nil
}

// decode runs a decoder over what a BMC sent. What the network brings may be anything, and the library's decoders check much of it
// but not all: a panic is an answer that cannot be read, and no end of the process.
func decode(op string, parse func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &bmc.Error{Kind: bmc.Failed, Op: op, Err: fmt.Errorf("the BMC's answer cannot be decoded: %v", r)}
		}
	}()
	if err := parse(); err != nil {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: fmt.Errorf("the BMC's answer cannot be decoded: %w", err)}
	}
	return nil
}

// openError is the error of a status in the answer to an Open Session Request or a RAKP message (IPMI 2.0, table 13-15).
func openError(status types.RmcpStatusCode, privilege types.PrivilegeLevel) error {
	said := fmt.Sprintf("the BMC refused with status %02Xh: %s", uint8(status), status)
	e := &bmc.Error{Kind: bmc.Failed, Op: "Log in", Err: errors.New(said)}
	switch status {
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		e.Kind, e.Err = bmc.Unreachable, errors.New(said+": all of its sessions are taken")
	case types.RmcpStatusCodeInvalidSessionID, types.RmcpStatusCodeInactiveSessionID:
		e.Kind = bmc.Unreachable // it forgot the session meanwhile: it restarted, or needed the room
	case types.RmcpStatusCodeUnauthorizedName:
		// IPMI 2.0, table 13-15: 0Dh, before any password is compared. BMCs say so too where the account is disabled, may not use the LAN channel, or may
		// not have the level.
		e.Kind = bmc.Unauthorized
		e.Err = fmt.Errorf("%s: the BMC has no enabled user of that name for IPMI over LAN as %s, and did not look at the password; correct the user name, enable the "+
			"user for IPMI over LAN, or name a lower level in the URL, such as ?privilege=operator", said, levelName(privilege))
	case types.RmcpStatusCodeInvalidRole, types.RmcpStatusCodeUnauthorizedRoleOfPriLevel:
		e.Kind = bmc.Unauthorized
		e.Err = fmt.Errorf("%s; an account that may not be %s needs a lower level in the URL, such as ?privilege=operator", said, levelName(privilege))
	case types.RmcpStatusCodeInvalidNameLength, types.RmcpStatusCodeUnauthorizedGUID, types.RmcpStatusCodeInvalidIntegrityCheckValue:
		e.Kind = bmc.Unauthorized
	default: // nonsense
	}
	return e
}

func levelName(level types.PrivilegeLevel) string {
	for name, l := range privileges {
		if l == level {
			return name
		}
	}
	return "that"
}

// notOffered is true for the statuses of an Open Session Response that mean that the BMC does not have the cipher suite.
func notOffered(status types.RmcpStatusCode) bool {
	switch status {
	case types.RmcpStatusCodeInvalidAuthAlg, types.RmcpStatusCodeInvalidIntegrityAlg, types.RmcpStatusCodeInvalidConfidentAlg,
		types.RmcpStatusCodeNoMatchingAuthPayload, types.RmcpStatusCodeNoMatchingIntegrityPayload,
		types.RmcpStatusCodeNoCipherSuiteMatch, types.RmcpStatusCodeIllegalParameter:
		return true
	default:
		return false
	}
}
