package manifest

import (
	"bytes"
	"crypto/sha256"
	"testing"
)

// FuzzDecode: what Decode accepts is what Encode writes, and its chunks cover the image.
func FuzzDecode(f *testing.F) {
	for _, size := range []int64{512, ChunkSize, 9*ChunkSize + 4096} {
		m, err := New(Header{Size: size, SectorSize: 512, Table: GPT, EFILoaders: []string{"x64"}})
		if err != nil {
			f.Fatal(err)
		}
		m.SetData(0, sha256.Sum256([]byte("x")))
		encoded, err := m.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		m, err := Decode(encoded)
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil || !bytes.Equal(again, encoded) {
			t.Fatalf("%q is encoded as %q: %v", encoded, again, err)
		}
		var end, data int64
		for c := range m.All() {
			if c.Offset != end {
				t.Fatalf("a chunk at %d follows the end at %d", c.Offset, end)
			}
			end += c.Length
			if !c.Hole {
				data += c.Length
			}
		}
		if end != m.Size || data != m.DataBytes() {
			t.Fatalf("%d and %d bytes of %d and %d", end, data, m.Size, m.DataBytes())
		}
	})
}
