package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

const (
	mib    = 1 << 20
	unique = "0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1"
)

// source is a boot server in memory.
type source struct {
	content  []byte
	manifest *manifest.Manifest
	data     []byte

	mu sync.Mutex
	// extent, if it is set, is called for a request, and may fail it or replace its body.
	extent func(offset, length int64, body io.Reader) (io.Reader, error)
	// commit, if it is set, is the answer to a commit.
	commit    func() error
	dataErr   error
	committed bool
	requests  [][2]int64
}

func (s *source) Manifest(context.Context) (*manifest.Manifest, error) { return s.manifest, nil }

func (s *source) Extent(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, [2]int64{offset, length})
	var body io.Reader = bytes.NewReader(s.content[offset : offset+length])
	if s.extent != nil {
		var err error
		if body, err = s.extent(offset, length, body); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&bound{ctx, body}), nil
}

// bound ends with its context, as the body of an answer does.
type bound struct {
	ctx  context.Context //nolint:containedctx // as in the body of an answer
	body io.Reader
}

func (b *bound) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	return b.body.Read(p)
}

func (s *source) Data(context.Context, agent.DataRequest) ([]byte, error) { return s.data, s.dataErr }

func (s *source) Commit(context.Context, agent.CommitRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commit != nil {
		if err := s.commit(); err != nil {
			return err
		}
	}
	s.committed = true
	return nil
}

// setup is an image, a disk with the content of a previous owner, and a plan.
type setup struct {
	name     string
	table    manifest.Table
	sector   int
	size     int64 // of the image
	diskSize int64
	source   wire.DataSource
	dataSize int64
	content  []byte
	manifest *manifest.Manifest
}

// build makes the content of the image: partitions with data and holes.
func (c *setup) build() {
	sectors := uint64(c.size) / uint64(c.sector)
	b := make([]byte, c.size)
	for at := int64(mib); at < c.size; at += mib {
		if at/mib%3 != 2 { // every third MiB is a hole
			copy(b[at:min(at+mib, c.size)], disktest.Random(uint64(at), int(min(mib, c.size-at))))
		}
	}
	first := uint64(mib / c.sector)
	switch c.table {
	case manifest.GPT:
		if c.size < 3*mib {
			gpttest.PutGPT(b, c.sector, []gpttest.Part{{First: 64, Last: sectors - 40, Name: "all"}, {}, {First: 40, Last: 50}})
			break
		}
		copy(b[40<<10:], "code between the table and the first partition")
		gpttest.PutGPT(b, c.sector, []gpttest.Part{
			{First: first, Last: 2*first - 1, Name: "EFI system partition", Attributes: 1 << 60},
			{}, // a gap between the entries
			{First: 2 * first, Last: sectors - 40, Name: "root"},
		})
	case manifest.MBR:
		copy(b[512:], disktest.Random(4, 40<<10))
		gpttest.PutMBR(b, []gpttest.Part{{First: first, Last: sectors - 1, Type: 0x83}})
	case manifest.NoTable:
		copy(b, disktest.Random(5, 100<<10))
	}
	c.content = b
	c.manifest = rehash(c)
}

// rehash makes the manifest of the content.
func rehash(c *setup) *manifest.Manifest {
	m, err := manifest.New(manifest.Header{Size: c.size, SectorSize: c.sector, Table: c.table, EFILoaders: []string{"x64"}, BIOSLoader: true})
	if err != nil {
		panic(err)
	}
	for i := range m.Chunks() {
		chunk := c.content[i*mib : min((i+1)*mib, c.size)]
		if !isZero(chunk) {
			m.SetData(i, sha256.Sum256(chunk))
		}
	}
	return m
}

func (c *setup) newSource() *source {
	s := &source{content: c.content, manifest: c.manifest}
	if c.source != wire.DataSourceNone {
		s.data = disktest.Random(9, 30<<10+100)
	}
	return s
}

// newDisk makes a disk of a previous owner. It is bootable, also from its backup GPT alone, and has no zeros.
func (c *setup) newDisk() *disktest.Disk {
	b := disktest.Random(11, int(c.diskSize))
	sectors := uint64(c.diskSize) / uint64(c.sector)
	gpttest.PutGPT(b, c.sector, []gpttest.Part{{First: uint64(mib / c.sector), Last: sectors - 100, Name: "the previous owner"}})
	d := disktest.New(c.diskSize, c.sector)
	d.Fill(0, b)
	return d
}

func (c *setup) options(d disk.Device, s Source) Options {
	return Options{
		Device: d, Source: s, Firmware: wire.FirmwareUEFI, Architecture: "amd64",
		Disk: disk.Disk{InspectedDisk: wire.InspectedDisk{Name: "sdx", Model: "Test", SerialNumber: "S1", SizeBytes: c.diskSize}},
		Plan: agent.ProvisionPlan{DataSource: c.source, PartitionGUID: unique, DataSize: c.dataSize},
	}
}

// expected is the disk after a run without faults. The run itself is checked by TestWrite.
func (c *setup) expected(tb testing.TB) *disktest.Disk {
	tb.Helper()
	d := c.newDisk()
	if r, err := Write(tb.Context(), c.options(d, c.newSource())); err != nil || !r.Committed {
		tb.Fatalf("%s: %v, %+v", c.name, err, r)
	}
	return d.Clone()
}

// backup is the range of the backup GPT, which a disk may lack and boot.
func (c *setup) backup() [2]int64 {
	if c.table != manifest.GPT {
		return [2]int64{}
	}
	entries := int64(128 * 128)
	return [2]int64{c.diskSize - int64(c.sector) - entries, c.diskSize}
}

// setups are all combinations for an image with a size, or those that keep accepts.
func setups(size int64, keep ...func(*setup) bool) []*setup {
	all := combinations(size)
	for _, f := range keep {
		all = slices.DeleteFunc(all, func(c *setup) bool { return !f(c) })
	}
	for _, c := range all {
		c.build()
	}
	return all
}

// oneSetup is one of the combinations.
func oneSetup(size int64, number int) *setup {
	c := combinations(size)[number]
	c.build()
	return c
}

// combinations are all combinations, without their images: to build all of those takes seconds.
func combinations(size int64) []*setup {
	var all []*setup
	for _, sector := range []int{512, 4096} {
		for _, table := range []manifest.Table{manifest.GPT, manifest.MBR, manifest.NoTable} {
			for _, source := range []wire.DataSource{wire.DataSourceNoCloud, wire.DataSourceNone} {
				if table == manifest.NoTable && source != wire.DataSourceNone {
					continue
				}
				for _, larger := range []bool{true, false} {
					c := &setup{table: table, sector: sector, size: size, diskSize: size, source: source}
					if source != wire.DataSourceNone {
						c.dataSize = mib
						c.diskSize = (size+mib-1)/mib*mib + 2*mib // the data partition, and one for the backup GPT or the record
					}
					if larger {
						c.diskSize += 3*mib + 8192
					}
					c.name = fmt.Sprintf("%s-%d-%s-larger=%t", table, sector, source, larger)
					all = append(all, c)
				}
			}
		}
	}
	return all
}
