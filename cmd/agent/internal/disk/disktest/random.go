package disktest

import (
	"encoding/binary"
	"math/rand/v2"
)

// Random returns bytes that have no zeros. Each 512 bytes start with eight of their own, and repeat others: to draw all of them takes the race detector seconds.
func Random(seed uint64, length int) []byte {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // content of tests
	drawn := func(b []byte) {
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:], random.Uint64()|0x0101010101010101)
		}
	}
	pattern := make([]byte, 4096)
	drawn(pattern)
	b := make([]byte, length)
	for at := 0; at < length; at += 512 {
		sector := b[at:min(at+512, length)]
		copy(sector, pattern[at/512%7*512:])
		drawn(sector[:min(8, len(sector))])
	}
	return b
}
