package image

import (
	"context"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// writeData fetches the bootstrap data, which is given out only now, and writes the data partition and the record of the attempt.
func (w *writer) writeData(ctx context.Context) error {
	w.meter.step(wire.StepData, 0)
	if !w.hasData() {
		return w.writeRecord()
	}
	where := agent.DataRequest{Disk: w.Disk.ID(), Name: w.Disk.Name, Offset: w.layout.DataOffset, SectorSize: w.Device.SectorSize()}
	err := retry.Do(ctx, func(ctx context.Context) error {
		w.meter.add(0) // the boot server may have no answer for minutes, and learns meanwhile that the agent runs
		var err error
		w.data, err = w.Source.Data(ctx, where)
		return err
	})
	if err != nil {
		return err
	}
	if int64(len(w.data)) > min(w.layout.DataLength, maxContent) {
		return failure.New(wire.ReasonPlanInvalid, "the boot server sent %d bytes for a data partition of %d", len(w.data), w.layout.DataLength)
	}
	w.result.DataOffset, w.result.DataLength = w.layout.DataOffset, w.layout.DataLength
	content := w.paddedContent()
	if _, err := w.Device.WriteAt(content, w.layout.DataOffset); err != nil {
		return w.diskFailed("write the bootstrap data", w.layout.DataOffset, err)
	}
	rest := int64(len(content))
	if err := w.zero(ctx, span{w.layout.DataOffset + rest, w.layout.DataLength - rest}); err != nil {
		return err
	}
	return w.writeRecord()
}

// paddedContent is the content of the data partition in whole sectors.
func (w *writer) paddedContent() []byte {
	sector := w.Device.SectorSize()
	b := make([]byte, (len(w.data)+sector-1)/sector*sector)
	copy(b, w.data)
	return b
}

// recordMagic begins the record of an attempt.
const recordMagic = "capbm attempt 1\n"

// record is a sector that says which attempt wrote the disk, for a disk whose table cannot say it: one without a data partition, or with an MBR. It is in
// a sector that nothing uses.
func record(unique gpt.GUID, sector int) []byte {
	b := make([]byte, sector)
	copy(b, recordMagic+unique.String()+"\n")
	return b
}

func (w *writer) writeRecord() error {
	at := w.layout.Spare
	if at < 0 {
		return nil
	}
	if _, err := w.Device.WriteAt(record(w.unique, w.Device.SectorSize()), at); err != nil {
		return w.diskFailed("write the record of the attempt", at, err)
	}
	return nil
}
