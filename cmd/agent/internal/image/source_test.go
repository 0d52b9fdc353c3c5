package image

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var errDown = errors.New("connection refused")

// giveUpAfter is a little longer than package retry goes on.
const giveUpAfter = 15*time.Minute + 15*time.Second

// slowBody delivers nothing until its context ends.
type slowBody struct {
	ctx context.Context //nolint:containedctx // as in the body of an answer
}

func (b slowBody) Read([]byte) (int, error) {
	<-b.ctx.Done()
	return 0, b.ctx.Err()
}

// stalling is a boot server whose first answers deliver nothing.
type stalling struct {
	*source

	answers int
}

func (s *stalling) Extent(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	if s.answers--; s.answers >= 0 {
		return io.NopCloser(slowBody{ctx}), nil
	}
	return s.source.Extent(ctx, offset, length)
}

// TestNetwork: a network that fails for a time is waited for, and the download goes on where it stopped.
func TestNetwork(t *testing.T) {
	for _, test := range []struct {
		name    string
		install func(s *source)
		// reason is empty if the run succeeds.
		reason string
		// atMost bounds how long it takes.
		atMost time.Duration
	}{
		{name: "nothing happens", install: func(*source) {}, atMost: 0},
		{name: "the boot server is down for a minute", atMost: 75 * time.Second, install: func(s *source) {
			start := time.Now()
			s.extent = func(_, _ int64, body io.Reader) (io.Reader, error) {
				if time.Since(start) < time.Minute {
					return nil, errDown
				}
				return body, nil
			}
		}},
		{name: "connections break in the middle", atMost: time.Minute, install: func(s *source) {
			s.extent = func(_, length int64, body io.Reader) (io.Reader, error) {
				if length > mib {
					return io.MultiReader(io.LimitReader(body, mib+mib/2), iotest.ErrReader(errDown)), nil
				}
				return body, nil
			}
		}},
		{name: "answers are truncated", atMost: time.Minute, install: func(s *source) {
			s.extent = func(_, length int64, body io.Reader) (io.Reader, error) {
				return io.LimitReader(body, min(length, mib)), nil
			}
		}},
		{name: "a chunk is corrupt twice", atMost: time.Minute, install: func(s *source) {
			bad := 0
			s.extent = func(offset, length int64, body io.Reader) (io.Reader, error) {
				if b := corrupted(body, offset, length, 4*mib+17); b != nil && bad < 2 {
					bad++
					return b, nil
				} else if b != nil {
					return strings.NewReader(string(s.content[offset : offset+length])), nil
				}
				return body, nil
			}
		}},
		{name: "a chunk is always corrupt", reason: wire.ReasonImageCorrupt, atMost: time.Minute, install: func(s *source) {
			s.extent = func(offset, length int64, body io.Reader) (io.Reader, error) {
				if b := corrupted(body, offset, length, 4*mib+17); b != nil {
					return b, nil
				}
				return body, nil
			}
		}},
		{name: "the boot server stays down", reason: wire.ReasonBootServerUnreachable, atMost: giveUpAfter, install: func(s *source) {
			s.extent = func(offset, _ int64, body io.Reader) (io.Reader, error) {
				if offset > 3*mib {
					return nil, errDown
				}
				return body, nil
			}
		}},
		{name: "the bootstrap data stays away", reason: wire.ReasonBootServerUnreachable, atMost: giveUpAfter, install: func(s *source) { s.dataErr = errDown }},
		{name: "the commit is asked for again", atMost: 10 * time.Second, install: func(s *source) {
			n := 0
			s.commit = func() error {
				if n++; n < 4 {
					return errDown
				}
				return nil
			}
		}},
		{name: "the commit is not answered", reason: wire.ReasonBootServerUnreachable, atMost: giveUpAfter, install: func(s *source) {
			s.commit = func() error { return errDown }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := oneSetup(7*mib, 0)
			want := c.expected(t)
			synctest.Test(t, func(t *testing.T) {
				d, s, start := c.newDisk(), c.newSource(), time.Now()
				test.install(s)
				_, err := Write(t.Context(), c.options(d, s))
				if f := failure.Of(err); (f == nil) != (test.reason == "") || f != nil && f.Reason != test.reason || f == nil && err != nil {
					t.Errorf("%v, and not %q", err, test.reason)
				}
				if test.reason == wire.ReasonImageCorrupt && !strings.Contains(err.Error(), "chunk 4 (byte 4194304)") {
					t.Errorf("%v does not name the chunk", err)
				}
				if took := time.Since(start); took > test.atMost {
					t.Errorf("it takes %s", took)
				}
				if err == nil && disktest.Differ(d, want) >= 0 {
					t.Error("the disk differs")
				}
				if err != nil && pxetest.AnyTable(d.Clone(), c.diskSize, c.sector) {
					t.Error("the disk has a table after a failure")
				}
			})
		})
	}
}

// corrupted returns the body with a wrong byte, if it has it.
func corrupted(body io.Reader, offset, length, at int64) io.Reader {
	if at < offset || at >= offset+length {
		return nil
	}
	b, err := io.ReadAll(body)
	if err != nil {
		panic(err)
	}
	b[at-offset] ^= 1
	return strings.NewReader(string(b))
}

func TestStalledServer(t *testing.T) {
	c := oneSetup(7*mib, 0)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		s := &stalling{c.newSource(), 3}
		if _, err := Write(t.Context(), c.options(c.newDisk(), s)); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 3*stalledAfter || took > 4*stalledAfter {
			t.Errorf("it takes %s", took)
		}
	})
}

// TestFinalErrors: a refusal is not repeated, and leaves an empty disk.
func TestFinalErrors(t *testing.T) {
	c := oneSetup(7*mib, 0)
	refused := retry.Final(errors.New("refused"))
	for name, install := range map[string]func(s *source){
		"commit": func(s *source) { s.commit = func() error { return refused } },
		"data":   func(s *source) { s.dataErr = refused },
		"image": func(s *source) {
			s.extent = func(offset, _ int64, body io.Reader) (io.Reader, error) {
				if offset > 0 {
					return nil, refused
				}
				return body, nil
			}
		},
	} {
		d, s := c.newDisk(), c.newSource()
		install(s)
		r, err := Write(t.Context(), c.options(d, s))
		if !errors.Is(err, refused) || r.Committed || pxetest.AnyTable(d.Clone(), c.diskSize, c.sector) {
			t.Errorf("%s: %v, %+v", name, err, r)
		}
		b := make([]byte, r.DataLength)
		if _, err := d.Clone().ReadAt(b, r.DataOffset); err != nil || !isZero(b) {
			t.Errorf("%s: the bootstrap data is still on the disk: %v", name, err)
		}
	}
}

// TestCancelled: a cancellation before the permission leaves an empty disk, and after it the disk is completed.
func TestCancelled(t *testing.T) {
	c := oneSetup(7*mib, 0)
	ctx, cancel := context.WithCancelCause(t.Context())
	s, d := c.newSource(), c.newDisk()
	stop := errors.New("the agent is stopped")
	s.extent = func(offset, _ int64, body io.Reader) (io.Reader, error) {
		if offset > 3*mib {
			cancel(stop)
		}
		return body, nil
	}
	if _, err := Write(ctx, c.options(d, s)); !errors.Is(err, stop) || pxetest.AnyTable(d.Clone(), c.diskSize, c.sector) {
		t.Errorf("before: %v", err)
	}
	ctx, cancel = context.WithCancelCause(t.Context())
	s, d = c.newSource(), c.newDisk()
	s.commit = func() error {
		cancel(stop)
		return nil
	}
	if r, err := Write(ctx, c.options(d, s)); err != nil || !r.Committed || disktest.Differ(d, c.expected(t)) >= 0 {
		t.Errorf("after: %v", err)
	}
}

// TestRefusals: what cannot work is refused before anything is written.
func TestRefusals(t *testing.T) {
	header := func(change func(h *manifest.Header)) func(c *setup, o *Options, s *source) {
		return func(c *setup, _ *Options, s *source) {
			h := c.manifest.Header
			change(&h)
			copied := *c.manifest
			copied.Header = h
			s.manifest = &copied
		}
	}
	for name, test := range map[string]struct {
		reason string
		change func(c *setup, o *Options, s *source)
	}{
		"no EFI loader":     {wire.ReasonNoBootLoader, header(func(h *manifest.Header) { h.EFILoaders = []string{"aa64"} })},
		"other processor":   {wire.ReasonNoBootLoader, func(_ *setup, o *Options, _ *source) { o.Architecture = "riscv64" }},
		"other sector size": {wire.ReasonSectorSizeDiffers, header(func(h *manifest.Header) { h.SectorSize = 4096 })},
		"image too large":   {wire.ReasonDiskTooSmall, header(func(h *manifest.Header) { h.Size = 1 << 30 })},
		"data too large":    {wire.ReasonDiskTooSmall, func(_ *setup, o *Options, _ *source) { o.Plan.DataSize = 100 * mib }},
		"no BIOS loader": {wire.ReasonNoBootLoader, func(c *setup, o *Options, s *source) {
			o.Firmware = wire.FirmwareBIOS
			header(func(h *manifest.Header) { h.BIOSLoader = false })(c, o, s)
		}},
		"unknown firmware": {wire.ReasonPlanInvalid, func(_ *setup, o *Options, _ *source) { o.Firmware = "" }},
		"no GUID":          {wire.ReasonPlanInvalid, func(_ *setup, o *Options, _ *source) { o.Plan.PartitionGUID = "" }},
		"unknown source":   {wire.ReasonPlanInvalid, func(_ *setup, o *Options, _ *source) { o.Plan.DataSource = "Floppy" }},
		"data for None":    {wire.ReasonPlanInvalid, func(_ *setup, o *Options, _ *source) { o.Plan.DataSource = wire.DataSourceNone }},
		"another disk is unreadable": {wire.ReasonDiskFailed, func(_ *setup, o *Options, _ *source) {
			o.Others = []disk.Disk{{InspectedDisk: wire.InspectedDisk{Name: "sdy"}, Unreadable: "it cannot be read: input/output error"}}
		}},
		"another disk's label": {wire.ReasonDataSourceOnOtherDisk, func(_ *setup, o *Options, _ *source) {
			o.Others = []disk.Disk{{InspectedDisk: wire.InspectedDisk{Name: "sdy"}, Found: []disk.Signature{{Type: "vfat", Label: "CIDATA"}}}}
		}},
		"no table": {wire.ReasonPartitionTableInvalid, header(func(h *manifest.Header) { h.Table = manifest.NoTable })},
		"ISO image": {wire.ReasonPartitionTableInvalid, func(c *setup, _ *Options, s *source) {
			iso := *c
			iso.content = append([]byte(nil), c.content...)
			copy(iso.content[0x8001:], "CD001")
			*s = *iso.newSource()
			s.manifest = rehash(&iso)
		}},
		"damaged table": {wire.ReasonPartitionTableInvalid, func(c *setup, _ *Options, s *source) {
			broken := *c
			broken.content = append([]byte(nil), c.content...)
			broken.content[512+60] ^= 1
			*s = *broken.newSource()
			s.manifest = rehash(&broken)
		}},
		"empty first sector": {wire.ReasonPartitionTableInvalid, func(c *setup, _ *Options, s *source) {
			broken := *c
			broken.content = append([]byte(nil), c.content...)
			clear(broken.content[:512])
			*s = *broken.newSource()
			s.manifest = rehash(&broken)
		}},
	} {
		c := oneSetup(7*mib, 0)
		d, s := c.newDisk(), c.newSource()
		before := d.Clone()
		o := c.options(d, s)
		test.change(c, &o, s)
		if _, err := Write(t.Context(), o); !failure.HasReason(err, test.reason) {
			t.Errorf("%s: %v, and not %s", name, err, test.reason)
		}
		if disktest.Differ(d, before) >= 0 {
			t.Errorf("%s: the disk has changed", name)
		}
	}
}

// TestDataLarger: bootstrap data that does not fit its partition leaves an empty disk.
func TestDataLarger(t *testing.T) {
	c := oneSetup(7*mib, 1)
	d, s := c.newDisk(), c.newSource()
	s.data = make([]byte, c.dataSize+1)
	if _, err := Write(t.Context(), c.options(d, s)); !failure.HasReason(err, wire.ReasonPlanInvalid) || pxetest.AnyTable(d.Clone(), c.diskSize, c.sector) {
		t.Error(err)
	}
}

// TestProgress: reports come at most once a second, and their numbers grow.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []agent.Progress
		m := newMeter(func(p agent.Progress) { all = append(all, p) })
		m.step(wire.StepWriting, 1000*mib)
		for range 100 {
			time.Sleep(100 * time.Millisecond) // of the bubble's clock
			m.add(mib)
		}
		if len(all) != 11 || all[10].Done != 100*mib || all[10].Rate < 9*mib || all[10].Rate > 11*mib {
			t.Errorf("%d reports, the last is %+v", len(all), all[len(all)-1])
		}
	})
}
