package pxetest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"
)

// The kinds of TFTP packets that the client uses (RFC 1350, section 5; OACK of RFC 2347).
const (
	tftpRead  = 1
	tftpData  = 3
	tftpAck   = 4
	tftpError = 5
	tftpOACK  = 6
)

const (
	// tftpHeader is the length of the kind and the number of a packet.
	tftpHeader = 4
	// tftpAttempts is how often a packet is sent without an answer.
	tftpAttempts = 10
)

// TFTPClient fetches files over TFTP with a window (RFC 7440), which github.com/pin/tftp does not have (v3.2.0; no upstream issue was found). It makes little load of
// its own, so it is for measurements, too. It is not safe for concurrent use.
type TFTPClient struct {
	// Conn is a socket that is not connected.
	Conn *net.UDPConn
	// Server is where requests go.
	Server netip.AddrPort
	// BlockSize is the requested size of a block, and Window how many blocks are requested at once. 0 requests no such option.
	BlockSize, Window int
	// Timeout is how long the client waits for a packet before it repeats its own. Defaults to a second.
	Timeout time.Duration

	peer   netip.AddrPort // the source of the first answer, from which all others must come
	buffer []byte
}

// Fetch fetches a file and writes it to w.
func (c *TFTPClient) Fetch(name string, w io.Writer) error {
	f := &tftpFetch{TFTPClient: c, w: w, block: 512, window: 1, last: c.request(name)}
	c.peer = netip.AddrPort{}
	if c.buffer == nil {
		c.buffer = make([]byte, 1<<16)
	}
	to := c.Server
	for attempt := 0; attempt < tftpAttempts; {
		if _, err := c.Conn.WriteToUDPAddrPort(f.last, to); err != nil {
			return err
		}
		answered, over, err := f.receive()
		if err != nil || over {
			return err
		}
		if attempt++; answered {
			attempt, to = 0, c.peer
		}
	}
	return fmt.Errorf("no answer to %d packets", tftpAttempts)
}

func (c *TFTPClient) request(name string) []byte {
	packet := binary.BigEndian.AppendUint16(nil, tftpRead)
	packet = append(packet, name+"\x00octet\x00"...)
	if c.BlockSize > 0 {
		packet = append(packet, "blksize\x00"+strconv.Itoa(c.BlockSize)+"\x00"...)
	}
	if c.Window > 0 {
		packet = append(packet, "windowsize\x00"+strconv.Itoa(c.Window)+"\x00"...)
	}
	return packet
}

// tftpFetch is one transfer.
type tftpFetch struct {
	*TFTPClient

	w             io.Writer
	block, window int
	received      int    // the last block of those that were received in their order
	unacked       int    // blocks since the last acknowledgement
	last          []byte // what is sent next, and repeated without an answer
}

// receive waits for the packets that c.last asks for, and sets c.last to the answer. answered is false if there were none. over is true after the last block.
func (f *tftpFetch) receive() (answered, over bool, err error) {
	timeout := f.Timeout
	if timeout == 0 {
		timeout = time.Second
	}
	if err := f.Conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return false, false, err
	}
	for {
		n, from, err := f.Conn.ReadFromUDPAddrPort(f.buffer)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if f.received > 0 {
				f.acknowledge() // also what came before the loss
			}
			return false, false, nil
		case err != nil:
			return false, false, err
		case !f.peer.IsValid():
			f.peer = from
		case f.peer != from:
			continue
		}
		acknowledge, over, err := f.handle(f.buffer[:n])
		if err != nil || over {
			return true, over, err
		}
		if acknowledge {
			return true, false, nil
		}
	}
}

// handle handles a packet. acknowledge is true if f.last has to be sent.
func (f *tftpFetch) handle(packet []byte) (acknowledge, over bool, err error) {
	if len(packet) < tftpHeader {
		return false, false, nil
	}
	number := binary.BigEndian.Uint16(packet[2:])
	switch binary.BigEndian.Uint16(packet) {
	case tftpError:
		return false, false, fmt.Errorf("the server says %q (error %d)", packet[tftpHeader:], number)
	case tftpOACK:
		if f.received > 0 {
			return false, false, nil
		}
		f.options(packet[2:])
		f.acknowledge()
		return true, false, nil
	case tftpData:
		if number != uint16(f.received+1) { //nolint:gosec // it starts again from 0 after 65535
			return false, false, nil // a block is lost, or was received before: the server repeats what is not acknowledged
		}
		f.received, f.unacked = f.received+1, f.unacked+1
		if _, err := f.w.Write(packet[tftpHeader:]); err != nil {
			return false, false, err
		}
		over = len(packet)-tftpHeader < f.block
		if !over && f.unacked < f.window {
			return false, false, nil
		}
		f.acknowledge()
		if over {
			_, err = f.Conn.WriteToUDPAddrPort(f.last, f.peer)
		}
		return true, over, err
	default:
		return false, false, nil
	}
}

// options takes the options that the server acknowledged.
func (f *tftpFetch) options(fields []byte) {
	var words []string
	for start, i := 0, 0; i < len(fields); i++ {
		if fields[i] == 0 {
			words, start = append(words, string(fields[start:i])), i+1
		}
	}
	for i := 0; i+1 < len(words); i += 2 {
		value, err := strconv.Atoi(words[i+1])
		switch {
		case err != nil:
		case words[i] == "blksize":
			f.block = value
		case words[i] == "windowsize":
			f.window = value
		default:
		}
	}
}

func (f *tftpFetch) acknowledge() {
	f.unacked = 0
	f.last = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(f.last[:0:0], tftpAck), uint16(f.received)) //nolint:gosec // modulo 65536
}
