package image

import "github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"

// withheld is a range of the image that is written by the commit. Before the commit the disk has zeros there.
type withheld struct {
	span

	content []byte // of the image
}

// withhold determines what is withheld besides the first MiB: the image's own backup GPT, which would be valid at the end of a disk with the size of the image,
// and the last sector of the disk, where firmware looks for a backup GPT.
func (w *writer) withhold() {
	sector, end := int64(w.Device.SectorSize()), w.Device.Size()
	w.tailAt, w.tail = w.layout.BackupOffset, w.layout.Backup
	if len(w.tail) == 0 {
		w.tailAt = end - sector
	}
	spans := []span{{w.tailAt, end - w.tailAt}}
	if stale := w.layout.Stale; stale >= fit.Align && stale < w.tailAt {
		spans = append(spans, span{stale, sector})
	}
	for _, s := range spans {
		if s.offset < w.m.Size {
			s.length = min(s.length, w.m.Size-s.offset)
			w.withheld = append(w.withheld, withheld{s, make([]byte, s.length)})
		}
	}
	if len(w.tail) == 0 && len(w.withheld) > 0 {
		w.tail = w.withheld[0].content // the image's own, once it is fetched
	}
}

// capture moves the withheld bytes of a part of the image to content, and leaves zeros in the part.
func (h withheld) capture(offset int64, part []byte) {
	if content, common := h.overlap(offset, part); content != nil {
		copy(content, common)
		clear(common)
	}
}

// overlay puts the withheld bytes into a part that was read from the disk. It returns false if the disk does not have zeros there.
func (h withheld) overlay(offset int64, part []byte) bool {
	content, common := h.overlap(offset, part)
	empty := isZero(common)
	copy(common, content)
	return empty
}

// overlap returns what a part of the image has in common with the withheld range: the bytes of content, and the bytes of the part.
func (h withheld) overlap(offset int64, part []byte) (content, common []byte) {
	from, to := max(offset, h.offset), min(offset+int64(len(part)), h.offset+h.length)
	if from >= to {
		return nil, nil
	}
	return h.content[from-h.offset : to-h.offset], part[from-offset : to-offset]
}
