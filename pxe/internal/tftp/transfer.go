package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

const (
	// The timeout of the first packet is firstTimeout. It doubles after each timeout, up to maxRetryTimeout. After a faster answer it is four times the round
	// trip, and minTimeout at least.
	minTimeout, firstTimeout, maxRetryTimeout = 200 * time.Millisecond, time.Second, 4 * time.Second
	// maxSends is how often an unanswered packet is sent, maxFirstSends how often to a client that never answered: the source address of a request may be forged.
	maxSends, maxFirstSends = 6, 3
	// transferTimeout bounds a transfer: a client that acknowledges a block now and then must not keep it forever.
	transferTimeout = 10 * time.Minute
)

// errSizeOnly ends a transfer whose client wanted only the size of the file. UEFI firmware does so before it allocates memory.
var errSizeOnly = errors.New("the client wanted to know the size")

// clientError is an error packet of a client, which ends the transfer.
type clientError struct {
	code    uint16
	message string
}

func (e clientError) Error() string {
	return fmt.Sprintf("the client says %q (error %d)", e.message, e.code)
}

// timeoutError ends a transfer whose client stopped answering.
type timeoutError struct{ block int }

func (e timeoutError) Error() string {
	return fmt.Sprintf("the client does not acknowledge block %d", e.block)
}

// transfer sends a file to a client. It reacts to packets and to timeouts, and never waits.
type transfer struct {
	request request
	packet  []byte // the request as it was received
	from    netip.AddrPort
	peer    peer
	content []byte
	// fetched is called once the client acknowledged all but the last blocks and these were sent. Their acknowledgement may be lost: firmware runs the
	// boot loader at once.
	fetched func()
	// ended is true once the result is recorded.
	ended bool

	// answered is true once the client answered: it exists, and wants the file.
	answered  bool
	roundTrip time.Duration // of the last answer
	// sent counts the bytes of the file that were sent, with retransmissions.
	sent int
	// Blocks up to acked are acknowledged, and blocks up to until are sent. until is 0 until the client acknowledges the options, as block 0.
	acked, until int
	// sends is how often the last packets were sent, sentAt when they were sent last, and deadline when they are sent again. wait is the time in between.
	sends            int
	wait             time.Duration
	sentAt, deadline time.Time
	end              time.Time
}

// last is the number of the last block. A file ends with a block that is not full, which may be empty.
func (t *transfer) last() int { return len(t.content)/t.request.block + 1 }

// begin sends the acknowledgement of the options, or without options the first blocks.
func (t *transfer) begin(now time.Time, s *socket) {
	t.end, t.wait = now.Add(transferTimeout), firstTimeout
	if len(t.request.options) > 0 {
		t.send(now, s)
		return
	}
	t.advance(now, s)
}

// advance sends the blocks that follow the acknowledged ones.
func (t *transfer) advance(now time.Time, s *socket) {
	t.until, t.sends, t.wait = min(t.acked+t.request.window, t.last()), 0, firstTimeout
	if t.roundTrip > 0 {
		t.wait = max(minTimeout, min(4*t.roundTrip, firstTimeout))
	}
	t.send(now, s)
}

// send sends what the client has to acknowledge next.
func (t *transfer) send(now time.Time, s *socket) {
	if t.request.timeout > 0 {
		t.wait = t.request.timeout
	}
	t.sends++
	t.sentAt, t.deadline = now, now.Add(t.wait)
	if t.until == 0 {
		s.queue(t, t.peer, t.request.optionAck(len(t.content)), nil)
		return
	}
	for block := t.acked + 1; block <= t.until && !t.ended; block++ {
		start := (block - 1) * t.request.block
		content := t.content[start:min(start+t.request.block, len(t.content))]
		t.sent += len(content)
		s.queueBlock(t, uint16(block), content) //nolint:gosec // it starts again from 0 after 65535
	}
	t.reportFetched(t.until == t.last() && t.answered)
}

// repeat sends the packets of the last send again. An error ends the transfer.
func (t *transfer) repeat(now time.Time, s *socket) error {
	if !t.answered && t.sends >= maxFirstSends || t.sends >= maxSends || !now.Before(t.end) {
		return timeoutError{t.until}
	}
	t.wait = min(2*t.wait, maxRetryTimeout)
	t.send(now, s)
	return nil
}

func (t *transfer) reportFetched(fetched bool) {
	if fetched && t.fetched != nil {
		t.fetched()
		t.fetched = nil
	}
}

// isRepeated is true for the request of this transfer, which a client repeats until it has an answer. A client that acknowledged a block and was sent the last ones
// has the file, and requests it again.
func (t *transfer) isRepeated(packet []byte) bool {
	return bytes.Equal(packet, t.packet) && (!t.answered || t.until < t.last())
}

// receive handles a packet of the client that is no request. over is true if it ends the transfer, with an error unless the client has the file.
func (t *transfer) receive(packet []byte, now time.Time, s *socket) (over bool, err error) {
	if len(packet) < headerLength {
		return false, nil
	}
	number := binary.BigEndian.Uint16(packet[2:])
	switch kindOf(packet) {
	case opAck:
		return t.acknowledge(number, now, s), nil
	case opError:
		if number == codeOptions && t.acked == 0 {
			return true, errSizeOnly
		}
		message, _, _ := strings.Cut(string(packet[headerLength:]), "\x00")
		return true, clientError{number, message}
	default:
		return false, nil
	}
}

// acknowledge handles the acknowledgement of the blocks up to one with a number. It returns true for the last block.
func (t *transfer) acknowledge(number uint16, now time.Time, s *socket) bool {
	t.answered = true
	// A repeated acknowledgement is ignored: answering each with a block would double every packet from then on (RFC 1123, section 4.2.3.1).
	acked := t.acked + int(number-uint16(t.acked)) //nolint:gosec // modulo 65536
	if acked > t.until || acked == t.acked && t.until != 0 {
		return false
	}
	if t.sends == 1 { // otherwise the answer may be to an earlier packet, and is no measurement
		t.roundTrip = max(now.Sub(t.sentAt), t.roundTrip*7/8)
	}
	if t.acked = acked; acked == t.last() {
		t.reportFetched(true)
		return true
	}
	t.advance(now, s)
	return false
}
