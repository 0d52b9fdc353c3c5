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

// The error codes that are sent or looked at (RFC 1350, appendix; 8 of RFC 2347).
const (
	codeNotFound  = 1
	codeViolation = 2
	codeIllegal   = 4
	// codeOptions is what a client ends a transfer with that it began to learn a file's size.
	codeOptions = 8
)

const (
	headerLength = 4
	// A client that asks for no block size gets blocks of 512 bytes (RFC 1350). A block of the largest fits into an Ethernet frame
	// with the headers of IPv6, which are the longer ones.
	defaultBlock, largestBlock = 512, 1448
	// largestWindow is how many blocks are sent before an acknowledgement is awaited (RFC 7440).
	largestWindow = 16
	// longestTimeout bounds what a client may ask for (RFC 2349): until then it keeps a transfer from others.
	longestTimeout = 10 * time.Second
	// longestRequest is the largest request that is looked at (RFC 2347, section 2: the maximum is 512).
	longestRequest = 512
)

var errMalformed = errors.New("not a request of TFTP")

// request asks for a file.
type request struct {
	write      bool
	name, mode string
	// block is the length of a block and window how many are sent at once. timeout is 0 if the client asks for none.
	block, window int
	timeout       time.Duration
	// size is true for a client that wants to know the file's size.
	size bool
	// options are the names of the options that were understood, in their order: these are acknowledged.
	options []string
}

// parseRequest takes a request apart. Options that are not known, or whose value is not good, are as if they were not there:
// RFC 2347 wants it so.
func parseRequest(packet []byte) (request, error) {
	r := request{block: defaultBlock, window: 1}
	if len(packet) < 2 || len(packet) > longestRequest || packet[len(packet)-1] != 0 {
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
		r.block = min(n, largestBlock)
	case name == "windowsize" && n >= 1:
		r.window = min(n, largestWindow)
	case name == "timeout" && n >= 1 && time.Duration(n)*time.Second <= longestTimeout:
		r.timeout = time.Duration(n) * time.Second
	case name == "tsize" && n == 0:
		r.size = true
	default:
		return
	}
	r.options = append(r.options, name)
}

// optionAck acknowledges the options that were understood, for a file of a size.
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
