package image

import (
	"bytes"
	"fmt"
	"io"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// State is what an earlier attempt, to which the boot server allowed the commit, left on a disk.
type State string

const (
	// Complete means that the disk is complete: it is booted, and not written again.
	Complete State = "Complete"
	// Empty means that the first sector is empty. The disk was not booted, and may be written again.
	Empty State = "Empty"
	// Unknown means that there is a first sector, and nothing that says that the attempt wrote it. It may be a disk that the attempt has not written.
	Unknown State = "Unknown"
)

// ReadState reads what the attempt with the partition GUID committed left on a disk. It writes nothing.
//
// LBA 0 is written last, when all else is on the medium. The attempt is known by the data partition's GUID, or by the record that a disk without one has.
// The answer is about one disk: a caller asks for all disks, since the attempt may have selected another one.
func ReadState(r io.ReaderAt, size int64, sector int, committed string) (State, error) {
	unique, err := gpt.ParseGUID(committed)
	if err != nil {
		return Unknown, err
	}
	if size < 4*fit.Align {
		return Unknown, nil
	}
	first := make([]byte, sector)
	if _, err := r.ReadAt(first, 0); err != nil {
		return Unknown, fmt.Errorf("cannot read the first sector: %w", err)
	}
	if isZero(first) {
		return Empty, nil
	}
	spares := []int64{size - int64(sector)}
	if table, err := gpt.Read(r, 1, size, sector); err == nil {
		if _, found := table.Find(unique); found {
			return Complete, nil
		}
		entries := (int64(len(table.Entries())) + int64(sector) - 1) / int64(sector)
		spares = append(spares, size-(entries+2)*int64(sector))
	}
	last := make([]byte, sector)
	for _, at := range spares {
		if _, err := r.ReadAt(last, at); err != nil {
			return Unknown, fmt.Errorf("cannot read the record of the attempt: %w", err)
		}
		if bytes.Equal(last, record(unique, sector)) {
			return Complete, nil
		}
	}
	return Unknown, nil
}
