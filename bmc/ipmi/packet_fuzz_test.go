package ipmi_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
)

// mutated changes the bytes at the positions given; a position behind the end cuts the packet.
func mutated(packet, changes []byte) []byte {
	for i := 0; i+1 < len(changes); i += 2 {
		if at := int(changes[i]); at < len(packet) {
			packet[at] ^= changes[i+1]
		} else {
			packet = packet[:min(len(packet), int(changes[i+1]))]
		}
	}
	return packet
}

// FuzzPackets: changed packets of a BMC cannot make the driver panic, wait longer than its
// timeout, or end with an error that has no kind.
func FuzzPackets(f *testing.F) {
	f.Add(uint8(0), []byte{0, 1})
	f.Add(uint8(1), []byte{17, 0xff, 4, 9})
	f.Add(uint8(3), []byte{14, 0xff, 15, 0xff})
	f.Add(uint8(4), []byte{14, 0x10, 5, 0x80})
	f.Add(uint8(2), []byte{255, 3})
	hastier := &ipmi.Driver{Permit: loopback, RequestTimeout: 60 * time.Millisecond, RepeatAfter: 30 * time.Millisecond}
	f.Fuzz(func(t *testing.T, which uint8, changes []byte) {
		var sent atomic.Int32
		_, endpoint := newMachine(t, options(), saying(func(packet []byte) [][]byte {
			if n := sent.Add(1) - 1; n%8 != int32(which%8) {
				return [][]byte{packet}
			}
			return [][]byte{mutated(packet, changes)}
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client, err := hastier.Open(ctx, endpoint)
		if err == nil {
			_, err = client.Describe(ctx)
			closeErr := client.Close(ctx)
			if err == nil {
				err = closeErr
			}
		}
		var known *bmc.Error
		if err != nil && !errors.As(err, &known) {
			t.Errorf("an error without a kind: %v", err)
		}
		if ctx.Err() != nil {
			t.Errorf("it took longer than its timeouts: %v", err)
		}
	})
}
