package disktest

import (
	"encoding/binary"
	"math/rand/v2"
)

// Random returns bytes that have no zeros.
func Random(seed uint64, length int) []byte {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // content of tests
	b := make([]byte, length)
	for i := 0; i+8 <= length; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], random.Uint64()|0x0101010101010101)
	}
	for i := length &^ 7; i < length; i++ {
		b[i] = 1
	}
	return b
}
