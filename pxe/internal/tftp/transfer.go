package tftp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
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

// transfer sends a file over its own socket, which is connected to the client, so that packets of other senders do not arrive.
type transfer struct {
	conn    *net.UDPConn
	request request
	content []byte
	end     time.Time
	// answered is true once the client answered: it exists, and wants the file.
	answered  bool
	roundTrip time.Duration // of the last answer
	// sent counts the bytes of the file that were sent, with retransmissions.
	sent int
	// fetched is called once the client acknowledged all but the last blocks and these were sent. Their acknowledgement may be lost: firmware runs the
	// boot loader at once.
	fetched func()
}

// run sends the file until its last block is acknowledged.
func (t *transfer) run() error {
	t.end = time.Now().Add(transferTimeout)
	if len(t.request.options) > 0 {
		ack := t.request.optionAck(len(t.content))
		if _, err := t.await(0, 0, func() error { return t.write(ack) }); err != nil {
			return err
		}
	}
	// A file ends with a block that is not full, which may be empty.
	last := len(t.content)/t.request.block + 1
	for next := 1; next <= last; {
		until := min(next+t.request.window-1, last)
		acked, err := t.await(next-1, until, func() error {
			defer t.reportFetched(until == last && t.answered)
			return t.sendBlocks(next, until)
		})
		if err != nil {
			return err
		}
		next = acked + 1
	}
	t.reportFetched(true)
	return nil
}

func (t *transfer) reportFetched(fetched bool) {
	if fetched && t.fetched != nil {
		t.fetched()
		t.fetched = nil
	}
}

func (t *transfer) sendBlocks(from, to int) error {
	packet := make([]byte, 0, headerLength+t.request.block)
	for block := from; block <= to; block++ {
		packet = binary.BigEndian.AppendUint16(packet[:0], opData)
		packet = binary.BigEndian.AppendUint16(packet, uint16(block)) //nolint:gosec // it starts again from 0 after 65535
		start := (block - 1) * t.request.block
		packet = append(packet, t.content[start:min(start+t.request.block, len(t.content))]...)
		if err := t.write(packet); err != nil {
			return err
		}
		t.sent += len(packet) - headerLength
	}
	return nil
}

func (t *transfer) write(packet []byte) error {
	if err := t.conn.SetWriteDeadline(time.Now().Add(firstTimeout)); err != nil {
		return err
	}
	_, err := t.conn.Write(packet)
	return err
}

// await sends something until the client acknowledges a block later than before and not later than until, and returns that block. Options are acknowledged as
// block 0: before and until are 0 then.
func (t *transfer) await(before, until int, send func() error) (int, error) {
	wait := firstTimeout
	if t.roundTrip > 0 {
		wait = max(minTimeout, min(4*t.roundTrip, firstTimeout))
	}
	for try := 1; ; try++ {
		sent := time.Now()
		if err := send(); err != nil {
			return 0, err
		}
		if t.request.timeout > 0 {
			wait = t.request.timeout
		}
		acked, err := t.awaitOnce(before, until, time.Now().Add(wait))
		var netErr net.Error
		switch {
		case err == nil && try == 1:
			t.roundTrip = max(time.Since(sent), t.roundTrip*7/8)
			return acked, nil
		case err == nil: // the answer may be to an earlier packet, so it is no measurement
			return acked, nil
		case !errors.As(err, &netErr) || !netErr.Timeout():
			return 0, err
		case !t.answered && try >= maxFirstSends, try >= maxSends, time.Now().After(t.end):
			return 0, timeoutError{until}
		}
		wait = min(2*wait, maxRetryTimeout)
	}
}

func (t *transfer) awaitOnce(before, until int, deadline time.Time) (int, error) {
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	buffer := make([]byte, maxRequest)
	for {
		n, err := t.conn.Read(buffer)
		if err != nil {
			return 0, err
		}
		if n < headerLength {
			continue
		}
		number := binary.BigEndian.Uint16(buffer[2:])
		switch binary.BigEndian.Uint16(buffer) {
		case opAck:
			t.answered = true
			// A repeated acknowledgement is ignored: answering each with a block would double every packet from then on (RFC 1123,
			// section 4.2.3.1).
			if acked := before + int(number-uint16(before)); acked <= until && (acked > before || until == 0) { //nolint:gosec // modulo 65536
				return acked, nil
			}
		case opError:
			if number == codeOptions && before == 0 {
				return 0, errSizeOnly
			}
			message, _, _ := strings.Cut(string(buffer[headerLength:n]), "\x00")
			return 0, clientError{number, message}
		default:
		}
	}
}
