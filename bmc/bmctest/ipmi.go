package bmctest

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ipmibmc "github.com/bougou/go-ipmi/pkg/bmc"
	"github.com/bougou/go-ipmi/pkg/hal"
	"github.com/bougou/go-ipmi/pkg/protocol"
	"github.com/bougou/go-ipmi/pkg/rmcpplus"
	"github.com/bougou/go-ipmi/pkg/server"
	"github.com/bougou/go-ipmi/pkg/types"
)

// ServeIPMI is the server's IPMI BMC, for one UDP socket. It returns when conn is closed and its goroutines have ended. It has the faults
// whose FaultInfo.IPMI is true:
//
//   - Down and Hang drop every packet, Slow answers late, TruncatedJSON cuts each answer in its middle;
//   - Unauthorized401 ends every session, and drops its further packets, as BMCs do;
//   - SessionTableFull refuses new sessions, Busy503 answers "node busy";
//   - RebootMidCall executes the next chassis command and does not answer; the other faults belong to single commands.
func (m *Machine) ServeIPMI(conn net.PacketConn) error {
	state := &ipmiState{machine: m}
	info := ipmibmc.DeviceInfo{
		DeviceID: 0x20, DeviceRevision: 1, FirmwareMajor: 1, FirmwareMinor: 0x00, IPMIVersion: 0x02,
		AdditionalDeviceSupport: 0x85, // chassis, event log, sensors; the library adds the repository and the FRU
	}
	state.bmc = ipmibmc.New(info, m.guid(), state, ipmibmc.WithV15Disabled())
	ctx, cancel := context.WithCancel(context.Background())
	wrapped := &ipmiConn{PacketConn: conn, state: state, ctx: ctx}
	defer wrapped.end(cancel)
	srv := server.NewServer(state.bmc, wrapped, server.WithHandlerRegistry(ipmiRegistry()), server.WithServerBufferSize(1024))
	return srv.Serve(ctx)
}

// ipmiUser is the slot of the one account. Slot 1 is the anonymous one.
const ipmiUser = 2

// ipmiState is the state of an IPMI BMC that the Machine does not have.
type ipmiState struct {
	machine  *Machine
	bmc      *ipmibmc.BMC
	dropNext atomic.Bool // the next answer is dropped

	mu       sync.Mutex
	noExpiry bool      // the boot flags do not expire
	flagsSet time.Time // when the boot flags were written
}

var _ hal.HAL = &ipmiState{}

// Chassis is nil: ipmiCommands handles the chassis commands, because the handlers of go-ipmi v0.9.1 have neither boot flags nor NMI.
func (*ipmiState) Chassis() hal.ChassisHAL { return nil }

// Sensors is nil: go-ipmi v0.9.1 has no handler that uses it.
func (*ipmiState) Sensors() hal.SensorHAL { return nil }

// Storage contains the FRU and the sensor repository.
func (s *ipmiState) Storage() hal.StorageHAL { return ipmiStorage{s} }

// Network is nil.
func (*ipmiState) Network() hal.NetworkHAL { return nil }

// GPIO is nil.
func (*ipmiState) GPIO() hal.GPIOHAL { return nil }

// I2C is nil.
func (*ipmiState) I2C() hal.I2CHAL { return nil }

// Console is nil.
func (*ipmiState) Console() hal.ConsoleHAL { return nil }

// Close does nothing.
func (*ipmiState) Close() error { return nil }

// refreshUser updates the account with the current credentials.
func (s *ipmiState) refreshUser() {
	s.machine.mu.Lock()
	name, password := s.machine.opts.Username, s.machine.opts.Password
	s.machine.mu.Unlock()
	_ = s.bmc.Users.Upsert(ipmiUser, func(u *ipmibmc.User) error { // the slot is in range and the name is the only one
		u.Name, u.Enabled = name, true
		u.SetPassword([]byte(password))
		u.ChannelAccess[1] = ipmibmc.UserChannelAccess{MaxPrivilege: ipmibmc.PrivilegeLevelAdministrator, Enabled: true}
		return nil
	})
}

// guid is the UUID as IPMI sends it: the last byte first (IPMI 2.0, 20.8).
func (m *Machine) guid() (guid [16]byte) {
	b, err := hex.DecodeString(strings.ReplaceAll(m.opts.UUID, "-", ""))
	if err != nil || len(b) != len(guid) {
		return guid
	}
	slices.Reverse(b)
	return [16]byte(b)
}

// swappedGUID is the UUID as in the SMBIOS table: the first three fields with the last byte first (DSP0134, 7.2.1).
func (m *Machine) swappedGUID() [16]byte {
	guid := m.guid()
	slices.Reverse(guid[:])
	slices.Reverse(guid[0:4])
	slices.Reverse(guid[4:6])
	slices.Reverse(guid[6:8])
	return guid
}

// ipmiConn is the socket of a BMC that may misbehave.
type ipmiConn struct {
	net.PacketConn

	state *ipmiState
	ctx   context.Context //nolint:containedctx // it ends with the server; net.PacketConn has no context

	mu        sync.Mutex
	answering sync.WaitGroup
}

// ReadFrom returns the next packet that the BMC does not drop.
func (c *ipmiConn) ReadFrom(buffer []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.PacketConn.ReadFrom(buffer)
		if err != nil || c.hears(buffer[:n], from) {
			return n, from, err
		}
	}
}

func (c *ipmiConn) hears(packet []byte, from net.Addr) bool {
	faults := &c.state.machine.faults
	if faults.on(Down) || faults.on(Hang) {
		return false
	}
	session, _, kind, _, payload, ok := protocol.ParseRMCPPlusHeader(packet)
	switch {
	case !ok:
		return true
	case session != 0 && faults.take(Unauthorized401):
		_ = c.state.bmc.Sessions.Close(session) // an unknown session has ended already
		return false
	case kind != uint8(types.PayloadTypeRmcpOpenSessionRequest):
		return true
	}
	c.state.refreshUser()
	if !faults.take(SessionTableFull) || len(payload) < 8 {
		return true
	}
	refusal := &rmcpplus.OpenSessionResponse{MessageTag: payload[0], RmcpStatusCode: types.RmcpStatusCodeNoResToCreateSess}
	answer := protocol.BuildRMCPPlusPacket(uint8(types.PayloadTypeRmcpOpenSessionResponse), 0, 0, 0, refusal.Pack())
	_, _ = c.WriteTo(answer, from)
	return false
}

// WriteTo sends a response with the active faults.
func (c *ipmiConn) WriteTo(packet []byte, to net.Addr) (int, error) {
	faults := &c.state.machine.faults
	if refusesLogin(packet) {
		c.state.machine.mu.Lock()
		c.state.machine.refused++
		c.state.machine.mu.Unlock()
	}
	if c.state.dropNext.CompareAndSwap(true, false) {
		return len(packet), nil
	}
	if faults.on(Slow) {
		timer := time.NewTimer(300 * time.Millisecond)
		defer timer.Stop()
		if !c.wait(timer.C) {
			return 0, net.ErrClosed
		}
	}
	if faults.on(TruncatedJSON) {
		packet = packet[:len(packet)/2]
	}
	return c.PacketConn.WriteTo(packet, to)
}

// refusesLogin is true for the response that ends a refused login. For a wrong password that is RAKP message 4: most clients detect it in
// message 2 and report it in message 3, whose status the response repeats (IPMI 2.0, 13.22 and 13.23).
func refusesLogin(packet []byte) bool {
	session, _, kind, _, payload, ok := protocol.ParseRMCPPlusHeader(packet)
	if !ok || session != 0 || len(payload) < 2 || kind != uint8(types.PayloadTypeRAKPMessage2) && kind != uint8(types.PayloadTypeRAKPMessage4) {
		return false
	}
	switch types.RmcpStatusCode(payload[1]) {
	case types.RmcpStatusCodeNoErrors,
		types.RmcpStatusCodeInvalidSessionID, types.RmcpStatusCodeInactiveSessionID: // a repeat, for a session that has ended or started
		return false
	default:
		return true
	}
}

// end interrupts responses that are delayed.
func (c *ipmiConn) end(cancel context.CancelFunc) {
	c.mu.Lock()
	cancel()
	c.mu.Unlock()
	c.answering.Wait()
}

// wait waits, or returns when the server ends. The server waits for it.
func (c *ipmiConn) wait(until <-chan time.Time) bool {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return false
	}
	c.answering.Add(1)
	c.mu.Unlock()
	defer c.answering.Done()
	select {
	case <-until:
		return true
	case <-c.ctx.Done():
		return false
	}
}
