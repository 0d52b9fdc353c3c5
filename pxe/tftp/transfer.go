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
	// firstTimeout is how long an answer is waited for, and twice as long each time that none comes, up to lastTimeout. A client that
	// is seen to answer faster is waited for four times as long as it takes, and for leastTimeout at least.
	leastTimeout, firstTimeout, lastTimeout = 200 * time.Millisecond, time.Second, 4 * time.Second
	// tries is how often a packet is sent that is not answered. A client that never answered may be none: anybody can write any
	// sender's address on a request.
	tries, firstTries = 6, 3
	// longest bounds a transfer: whoever acknowledges a block now and then must not keep it for ever.
	longest = 10 * time.Minute
)

// errSizeOnly ends a transfer that was begun to learn the size of the file: UEFI firmware does so before it allocates memory.
var errSizeOnly = errors.New("the client wanted to know the size")

// clientError is what a client ends a transfer with.
type clientError struct {
	code    uint16
	message string
}

func (e clientError) Error() string {
	return fmt.Sprintf("the client says %q (error %d)", e.message, e.code)
}

// timeoutError ends a transfer whose client does not answer any more.
type timeoutError struct{ block int }

func (e timeoutError) Error() string {
	return fmt.Sprintf("the client does not acknowledge block %d", e.block)
}

// transfer sends a file over a socket of its own, which is connected to the client: other senders are not heard.
type transfer struct {
	conn    *net.UDPConn
	request request
	content []byte
	end     time.Time
	// heard is true when the client answered: it is there, and wants the file. trip is how long its answers take.
	heard bool
	trip  time.Duration
	// sent counts the bytes of the file that were sent, each time that they were.
	sent int
	// fetched is called once the client acknowledged all but the last blocks and these were sent. That it has them too is not always
	// told: firmware runs the boot loader, and its last acknowledgement may be lost.
	fetched func()
}

// run sends the file until its last block is acknowledged.
func (t *transfer) run() error {
	t.end = time.Now().Add(longest)
	if len(t.request.options) > 0 {
		ack := t.request.optionAck(len(t.content))
		if _, err := t.await(0, 0, func() error { return t.write(ack) }); err != nil {
			return err
		}
	}
	// A file ends with a block that is not full, an empty one if need be.
	last := len(t.content)/t.request.block + 1
	for next := 1; next <= last; {
		until := min(next+t.request.window-1, last)
		acked, err := t.await(next-1, until, func() error {
			defer t.note(until == last && t.heard)
			return t.sendBlocks(next, until)
		})
		if err != nil {
			return err
		}
		next = acked + 1
	}
	t.note(true)
	return nil
}

func (t *transfer) note(fetched bool) {
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

// await sends something until a block is acknowledged that is later than before and not later than until, and returns that
// block. Of options, block 0 is what is acknowledged: before and until are 0 then.
func (t *transfer) await(before, until int, send func() error) (int, error) {
	wait := firstTimeout
	if t.trip > 0 {
		wait = max(leastTimeout, min(4*t.trip, firstTimeout))
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
			t.trip = max(time.Since(sent), t.trip*7/8)
			return acked, nil
		case err == nil: // it may answer what was sent first
			return acked, nil
		case !errors.As(err, &netErr) || !netErr.Timeout():
			return 0, err
		case !t.heard && try >= firstTries, try >= tries, time.Now().After(t.end):
			return 0, timeoutError{until}
		}
		wait = min(2*wait, lastTimeout)
	}
}

func (t *transfer) awaitOnce(before, until int, deadline time.Time) (int, error) {
	if err := t.conn.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	buffer := make([]byte, longestRequest)
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
			t.heard = true
			// An acknowledgement that was sent before is passed over: answering each with a block would double every packet from then
			// on (RFC 1123, section 4.2.3.1).
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
