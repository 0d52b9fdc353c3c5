package ipmi

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/crypto"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// session is an RMCP+ session. It is not safe for concurrent use. It has no background goroutine and no keep-alive.
type session struct {
	socket    *socket
	suite     types.CipherSuiteID
	privilege types.PrivilegeLevel
	consoleID uint32 // session ID that this driver chose: packets from the BMC contain it
	bmcID     uint32 // session ID that the BMC chose: packets to the BMC contain it
	keys      keys
	tag       uint8  // of handshake messages
	sent      uint32 // session sequence number of the last packet sent
	received  uint32 // and of the last one accepted
	message   uint8  // sequence number of the last message, 6 bits
	closed    bool
}

// login opens a session. The BMC refuses a cipher suite that it does not offer before credentials are used, so a proposal is not a login
// attempt. The sequence of IPMI 2.0, 13.15 is shortened: Get Channel Authentication Capabilities and Get Channel Cipher Suites are not
// authenticated, and BMCs answer them wrongly (ipmitool#363, gebn/bmc#60). The response to the proposal shows which suites are offered.
func login(ctx context.Context, socket *socket, endpoint bmc.Endpoint, opts options) (*session, error) {
	s := &session{socket: socket, privilege: opts.privilege}
	auth, err := s.propose(ctx, opts.suites)
	if err != nil {
		return nil, err
	}
	if err := s.authenticate(ctx, endpoint, auth); err != nil {
		return nil, err
	}
	if err := s.raise(ctx); err != nil {
		s.closeQuietly(ctx)
		return nil, err
	}
	return s, nil
}

// propose opens a session with the first cipher suite that the BMC accepts (IPMI 2.0, 13.17, 13.18).
func (s *session) propose(ctx context.Context, suites []types.CipherSuiteID) (types.AuthAlg, error) {
	var refused types.RmcpStatusCode
	for _, suite := range suites {
		auth, integrity, confidentiality, ok := types.GetCipherSuiteAlgorithms(suite)
		if !ok {
			continue
		}
		s.consoleID = random32()
		s.tag++
		request := &rmcpplus.OpenSessionRequest{MessageTag: s.tag, RemoteConsoleSessionID: s.consoleID}
		request.AuthenticationPayload, request.IntegrityPayload, request.ConfidentialityPayload =
			rmcpplus.NewAlgorithmPayloads(auth, integrity, confidentiality)
		answer := &rmcpplus.OpenSessionResponse{}
		if err := s.handshake(ctx, false, types.PayloadTypeRmcpOpenSessionRequest, request.Pack(), answer); err != nil {
			return 0, err
		}
		switch {
		case answer.RmcpStatusCode != types.RmcpStatusCodeNoErrors && notOffered(answer.RmcpStatusCode):
			refused = answer.RmcpStatusCode
			continue
		case answer.RmcpStatusCode != types.RmcpStatusCodeNoErrors:
			return 0, openError(answer.RmcpStatusCode, s.privilege)
		}
		picked := slices.IndexFunc(suites, func(suite types.CipherSuiteID) bool { return answers(answer, suite) })
		if picked < 0 {
			// Otherwise an attacker between the provider and the BMC could remove authentication.
			return 0, &bmc.Error{Kind: bmc.Failed, Op: "Log in", Err: fmt.Errorf("the BMC selected algorithms that belong to none of the cipher suites %d", suites)}
		}
		// virtualbmc always answers with suite 3, which may be the next proposal.
		auth, integrity, _, _ = types.GetCipherSuiteAlgorithms(suites[picked])
		s.suite, s.keys.integrity, s.bmcID = suites[picked], integrity, answer.ManagedSystemSessionID
		return auth, nil
	}
	return 0, &bmc.Error{Kind: bmc.Unsupported, Op: "Log in", Err: fmt.Errorf("the BMC offers none of the cipher suites %d: %s", suites, refused)}
}

// answers is true if the BMC selected the algorithms of the cipher suite.
func answers(answer *rmcpplus.OpenSessionResponse, suite types.CipherSuiteID) bool {
	auth, integrity, confidentiality, ok := types.GetCipherSuiteAlgorithms(suite)
	return ok && answer.AuthAlg == uint8(auth) && answer.IntegrityAlg == uint8(integrity) && answer.CryptAlg == uint8(confidentiality)
}

// authenticate proves both sides' knowledge of the password (RAKP, IPMI 2.0, 13.20 to 13.23, 13.31).
func (s *session) authenticate(ctx context.Context, endpoint bmc.Endpoint, auth types.AuthAlg) error {
	s.tag++
	one := &rmcpplus.RAKPMessage1{
		MessageTag: s.tag, ManagedSystemSessionID: s.bmcID, NameOnlyLookup: true, RequestedMaximumPrivilegeLevel: s.privilege,
		UsernameLength: uint8(len(endpoint.Username)), Username: []byte(endpoint.Username), //nolint:gosec // at most 16, see checkCredentials
	}
	_, _ = rand.Read(one.RemoteConsoleRandomNumber[:]) // it never fails
	two := &rmcpplus.RAKPMessage2{AuthAlg: auth}
	if err := s.handshake(ctx, true, types.PayloadTypeRAKPMessage1, one.Pack(), two); err != nil {
		return err
	}
	if two.RmcpStatusCode != types.RmcpStatusCodeNoErrors {
		return openError(two.RmcpStatusCode, s.privilege)
	}
	ours, theirs, guid := one.RemoteConsoleRandomNumber[:], two.ManagedSystemRandomNumber[:], two.ManagedSystemGUID[:]
	secret := crypto.PadPassword20([]byte(endpoint.Password))
	proof, err := crypto.RAKP2AuthCode(auth, s.consoleID, s.bmcID, ours, theirs, guid, one.Role(), endpoint.Username, secret)
	if err != nil {
		return bmc.Wrap("Log in", err)
	}
	if !crypto.Equal(proof, two.KeyExchangeAuthenticationCode) {
		s.abandon(auth)
		return &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: errors.New("the password is wrong: the BMC's proof belongs to another password. Some BMCs answer the same for an unknown user")}
	}
	proof, err = crypto.RAKP3AuthCode(auth, theirs, s.consoleID, one.Role(), endpoint.Username, secret)
	if err != nil {
		return bmc.Wrap("Log in", err)
	}
	s.tag++
	three := &rmcpplus.RAKPMessage3{MessageTag: s.tag, ManagedSystemSessionID: s.bmcID, KeyExchangeAuthenticationCode: proof}
	four := &rmcpplus.RAKPMessage4{AuthAlg: auth}
	if err := s.handshake(ctx, true, types.PayloadTypeRAKPMessage3, three.Pack(), four); err != nil {
		return err
	}
	if four.RmcpStatusCode != types.RmcpStatusCodeNoErrors {
		return openError(four.RmcpStatusCode, s.privilege)
	}
	sik, k1, k2, err := crypto.DeriveSessionKeys(auth, ours, theirs, one.Role(), endpoint.Username, secret)
	if err != nil {
		return bmc.Wrap("Log in", err)
	}
	s.keys.k1, s.keys.k2 = k1, k2
	proof, err = crypto.RAKP4ICV(auth, ours, s.bmcID, guid, sik)
	if err == nil && !crypto.Equal(proof, four.IntegrityCheckValue) {
		// The session is not closed: with other keys, the BMC would not accept the command.
		err = errors.New("the BMC's second proof is wrong: it may have a BMC key (Kg), which this driver does not support")
	}
	return bmc.Wrap("Log in", err)
}

// abandon reports to the BMC that its proof was rejected, so that it frees the session at once (IPMI 2.0, 13.22). The message is sent once
// without waiting for a response. The BMC counts it as one refused login.
func (s *session) abandon(auth types.AuthAlg) {
	three := &rmcpplus.RAKPMessage3{
		MessageTag: s.tag + 1, RmcpStatusCode: types.RmcpStatusCodeInvalidIntegrityCheckValue, ManagedSystemSessionID: s.bmcID,
		KeyExchangeAuthenticationCode: make([]byte, crypto.RAKP3AuthCodeLen(auth)),
	}
	_, _ = s.socket.Write(header{payload: types.PayloadTypeRAKPMessage3}.pack(three.Pack()))
}

// raise requests the privilege level: a session starts at user level (IPMI 2.0, 22.18).
func (s *session) raise(ctx context.Context) error {
	request := &app.SetSessionPrivilegeLevelRequest{PrivilegeLevel: s.privilege}
	code, _, err := s.send(ctx, ipmiRequest{command: request.Command(), data: request.Pack()})
	if err != nil {
		return err
	}
	const levelNotAvailable, levelTooHigh = 0x80, 0x81 // IPMI 2.0, 22.18
	switch code {
	case types.CodeOK:
		return nil
	case levelNotAvailable, levelTooHigh, types.CodeInsufficientPrivilege:
		return &bmc.Error{Kind: bmc.Unauthorized, Op: "Log in", Err: fmt.Errorf(
			"the BMC does not allow the account to be %s (completion code %02Xh): set a lower level in the URL, such as ?privilege=operator", levelName(s.privilege), uint8(code))}
	default:
		return refusal("Log in", code)
	}
}

// handshake sends a message of the handshake and decodes its response, whose payload type is the next number.
func (s *session) handshake(ctx context.Context, once bool, kind types.PayloadType, message []byte, answer types.Response) error {
	packet := header{payload: kind}.pack(message)
	err := s.socket.exchange(ctx, once, func() ([]byte, error) { return packet, nil }, func(packet []byte) bool {
		h, payload, _, ok := unpack(packet)
		if !ok || h.payload != kind+1 || h.session != 0 || len(payload) < 2 || payload[0] != s.tag {
			return false
		}
		if payload[1] != uint8(types.RmcpStatusCodeNoErrors) {
			// A refusal need not contain the session ID; that of ipmi_sim ends after the status.
			payload = append(slices.Clone(payload), make([]byte, 8)...)
		} else if len(payload) < 8 || binary.LittleEndian.Uint32(payload[4:]) != s.consoleID {
			return false
		}
		return decode("Log in", func() error { return answer.Unpack(payload) }) == nil
	})
	return exchangeError("Log in", err)
}

// send sends a request in the session. Each repeat is a new packet with the sequence number of the first message (IPMI 2.0, 6.12.8).
func (s *session) send(ctx context.Context, q ipmiRequest) (types.CompletionCode, []byte, error) {
	op := "Send " + q.command.Name
	if s.closed {
		return 0, nil, &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the connection is closed")}
	}
	s.message = (s.message + 1) & types.IPMIRequesterSequenceMax
	message := packMessage(q, s.message)
	var (
		code types.CompletionCode
		data []byte
	)
	err := s.socket.exchange(ctx, q.once, func() ([]byte, error) {
		s.sent++
		return s.keys.seal(header{payload: types.PayloadTypeIPMI, session: s.bmcID, sequence: s.sent}, message)
	}, func(packet []byte) bool {
		h, payload, err := s.keys.open(packet)
		// A sequence number that is not larger belongs to a replayed packet.
		if err != nil || h.payload != types.PayloadTypeIPMI || h.session != s.consoleID || h.sequence <= s.received {
			return false
		}
		var ok bool
		if code, data, ok = unpackMessage(payload, q, s.message); ok {
			s.received = h.sequence
		}
		return ok
	})
	return code, data, exchangeError(op, err)
}

// closeTimeout limits the end of a session, because an unreachable BMC must not delay the caller.
const closeTimeout = 2 * time.Second

// close ends the session at the BMC once, and then closes the socket even after an error.
func (s *session) close(ctx context.Context) error {
	if s.closed {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	request := &app.CloseSessionRequest{SessionID: s.bmcID}
	code, _, err := s.send(ctx, ipmiRequest{command: request.Command(), data: request.Pack()})
	s.closed = true
	const invalidSession = 0x87 // the session has ended already (IPMI 2.0, 22.19)
	if err == nil && code != types.CodeOK && code != invalidSession {
		err = refusal("Log out", code)
	}
	closeErr := exchangeError("Log out", s.socket.Close())
	return cmp.Or(err, closeErr)
}

// closeQuietly closes a session whose opening failed, even if ctx has ended. It drops the error, which would hide the cause.
func (s *session) closeQuietly(ctx context.Context) { _ = s.close(context.WithoutCancel(ctx)) }

// random32 returns a random number that is not 0, because 0 means no session.
func random32() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails
	return max(1, binary.LittleEndian.Uint32(b[:]))
}
