package tftp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of packets (RFC 1350, section 5; OACK of RFC 2347).
const (
	opRead uint16 = iota + 1
	opWrite
	opData
	opAck
	opError
	opOptionAck
)

// The error codes that are sent or evaluated (RFC 1350, appendix; 8 of RFC 2347).
const (
	codeNotFound  = 1
	codeViolation = 2
	codeIllegal   = 4
	// codeOptions ends a transfer that the client started only to learn the size of the file.
	codeOptions = 8
)

const (
	headerLength = 4
	// A client that requests no block size gets blocks of 512 bytes (RFC 1350). The largest block fits into an Ethernet frame with the headers of IPv6, which
	// are longer than those of IPv4.
	defaultBlock, maxBlock = 512, 1448
	// maxWindow is how many blocks are sent without an acknowledgement (RFC 7440).
	maxWindow = 16
	// maxTimeout bounds the timeout that a client may request (RFC 2349): an idle transfer counts against the limit of transfers.
	maxTimeout = 10 * time.Second
	// maxRequest is the maximum size of a request (RFC 2347, section 2).
	maxRequest = 512
)

var errMalformed = errors.New("not a request of TFTP")

// request is a request for a file.
type request struct {
	write      bool
	name, mode string
	// block is the length of a block and window how many are sent at once. timeout is 0 if the client requests none.
	block, window int
	timeout       time.Duration
	// size is true if the client requests the file's size.
	size bool
	// options are the names of the accepted options, in their order. The server acknowledges these.
	options []string
}

// parseRequest decodes a request. It ignores options that are unknown or have an invalid value, as RFC 2347 requires.
func parseRequest(packet []byte) (request, error) {
	r := request{block: defaultBlock, window: 1}
	if len(packet) < 2 || len(packet) > maxRequest || packet[len(packet)-1] != 0 {
		return r, errMalformed
	}
	switch binary.BigEndian.Uint16(packet) {
	case opRead:
	case opWrite:
		r.write = true
	default:
		return r, errMalformed
	}
	fields := bytes.Split(packet[2:len(packet)-1], []byte{0})
	if len(fields) < 2 {
		return r, errMalformed
	}
	r.name, r.mode = string(fields[0]), strings.ToLower(string(fields[1]))
	for pair := range slices.Chunk(fields[2:], 2) {
		if len(pair) == 2 {
			r.option(strings.ToLower(string(pair[0])), string(pair[1]))
		}
	}
	return r, nil
}

func (r *request) option(name, value string) {
	n, err := strconv.Atoi(value)
	if err != nil || slices.Contains(r.options, name) {
		return
	}
	switch {
	case name == "blksize" && n >= defaultBlock:
		r.block = min(n, maxBlock)
	case name == "windowsize" && n >= 1:
		r.window = min(n, maxWindow)
	case name == "timeout" && n >= 1 && time.Duration(n)*time.Second <= maxTimeout:
		r.timeout = time.Duration(n) * time.Second
	case name == "tsize" && n == 0:
		r.size = true
	default:
		return
	}
	r.options = append(r.options, name)
}

// optionAck returns the acknowledgement of the accepted options, for a file of a size.
func (r *request) optionAck(size int) []byte {
	packet := binary.BigEndian.AppendUint16(nil, opOptionAck)
	values := map[string]int{"blksize": r.block, "windowsize": r.window, "timeout": int(r.timeout / time.Second), "tsize": size}
	for _, name := range r.options {
		packet = append(packet, name...)
		packet = append(packet, 0)
		packet = strconv.AppendInt(packet, int64(values[name]), 10)
		packet = append(packet, 0)
	}
	return packet
}

func errorPacket(code uint16, message string) []byte {
	packet := binary.BigEndian.AppendUint16(nil, opError)
	packet = binary.BigEndian.AppendUint16(packet, code)
	return append(append(packet, message...), 0)
}
