package ipmi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// refusal is the error of a response with a completion code that is not 00h (IPMI 2.0, table 5-2).
func refusal(op string, code types.CompletionCode) error {
	text := fmt.Sprintf("the BMC refused with completion code %02Xh", uint8(code))
	if meaning := code.String(); meaning != "" {
		text += ": " + strings.TrimSpace(meaning)
	}
	return &bmc.Error{Kind: kindOfCode(code), Op: op, Err: fmt.Errorf("%w", &completionError{code, text})}
}

// completionError is the error of a completion code.
type completionError struct {
	code types.CompletionCode
	text string
}

func (e *completionError) Error() string { return e.text }

// codeOf returns the completion code of a completionError. ok is false for any other error.
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

// isRefusal is true for a response with an error that does not mean that the BMC is unavailable: the BMC does not have the requested data.
func isRefusal(err error) bool {
	_, refused := codeOf(err)
	return refused && bmc.KindOf(err) != bmc.Unreachable
}

// ignoreOptional returns only errors that mean that the BMC is unreachable. It is for functions that a BMC need not have.
func ignoreOptional(err error) error {
	if bmc.KindOf(err) == bmc.Unreachable {
		return err
	}
	return nil
}

// decode runs a decoder of the library on data from the BMC, and returns a panic as an error: the decoders of go-ipmi v0.9.1 do not check
// all of their input. No upstream issue was found. Delete the recover when they are fuzzed upstream.
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

// openError is the error of a status in the response to an Open Session Request or a RAKP message (IPMI 2.0, table 13-15).
func openError(status types.RmcpStatusCode, privilege types.PrivilegeLevel) error {
	said := fmt.Sprintf("the BMC refused with status %02Xh: %s", uint8(status), status)
	e := &bmc.Error{Kind: bmc.Failed, Op: "Log in", Err: errors.New(said)}
	switch status {
	case types.RmcpStatusCodeNoResToCreateSess, types.RmcpStatusCodeNoResToCreateSessAtRole:
		e.Kind, e.Err = bmc.Unreachable, errors.New(said+": all of its sessions are in use")
	case types.RmcpStatusCodeInvalidSessionID, types.RmcpStatusCodeInactiveSessionID:
		e.Kind = bmc.Unreachable // the BMC restarted, or replaced the session
	case types.RmcpStatusCodeUnauthorizedName:
		// IPMI 2.0, table 13-15: 0Dh, before the password is compared. BMCs also answer so if the account is disabled, may not use the LAN channel, or may
		// not have the level.
		e.Kind = bmc.Unauthorized
		e.Err = fmt.Errorf("%s: the BMC has no enabled user of that name for IPMI over LAN as %s, and did not check the password; correct the user name, enable the "+
			"user for IPMI over LAN, or set a lower level in the URL, such as ?privilege=operator", said, levelName(privilege))
	case types.RmcpStatusCodeInvalidRole, types.RmcpStatusCodeUnauthorizedRoleOfPriLevel:
		e.Kind = bmc.Unauthorized
		e.Err = fmt.Errorf("%s; if the account may not be %s, set a lower level in the URL, such as ?privilege=operator", said, levelName(privilege))
	case types.RmcpStatusCodeInvalidNameLength, types.RmcpStatusCodeUnauthorizedGUID, types.RmcpStatusCodeInvalidIntegrityCheckValue:
		e.Kind = bmc.Unauthorized
	default: // unexpected
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

// notOffered is true for the statuses of an Open Session Response that mean that the BMC does not offer the cipher suite.
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
