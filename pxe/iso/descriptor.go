package iso

import (
	"fmt"
	"strings"
	"time"
)

// descriptor returns an empty volume descriptor (8.1).
func descriptor(kind byte) []byte {
	d := make([]byte, SectorSize)
	d[0], d[6] = kind, 1
	copy(d[1:], "CD001")
	return d
}

// application is what made the image. Users see it in the properties of the volume.
const application = "CLUSTER_API_PROVIDER_BAREMETAL"

// primaryDescriptor returns the primary volume descriptor (8.4).
func (l *layout) primaryDescriptor(root *node, tableSize int, little, big int64) []byte {
	d := descriptor(1)
	for _, text := range []struct {
		from, size int
		value      string
	}{
		{8, 32, ""}, {40, 32, l.Label}, {190, 128, ""}, {318, 128, ""}, {446, 128, ""}, {574, 128, application}, {702, 37, ""}, {739, 37, ""}, {776, 37, ""},
	} {
		copy(d[text.from:], text.value+strings.Repeat(" ", text.size-len(text.value)))
	}
	putBoth32(d[80:], l.next) // 8.4.8: the size of the volume
	putBoth16(d[120:], 1)
	putBoth16(d[124:], 1)
	putBoth16(d[128:], SectorSize)
	putBoth32(d[132:], int64(tableSize))
	var both [8]byte
	putBoth32(both[:], little)
	copy(d[140:], both[:4])
	putBoth32(both[:], big)
	copy(d[148:], both[4:])
	copy(d[156:], root.record("\x00", l.Time))
	copy(d[813:], longTime(l.Time)) // 8.4.26: created, modified, expires never, effective at once
	copy(d[830:], longTime(l.Time))
	copy(d[847:], longTime(time.Time{}))
	copy(d[864:], longTime(time.Time{}))
	d[881] = 1
	return d
}

// longTime returns a time in the format of 8.4.26.1. The zero time is "not specified".
func longTime(t time.Time) string {
	if t.IsZero() {
		return strings.Repeat("0", 16) + "\x00"
	}
	t = t.UTC()
	return fmt.Sprintf("%s%02d\x00", t.Format("20060102150405"), t.Nanosecond()/int(10*time.Millisecond))
}
