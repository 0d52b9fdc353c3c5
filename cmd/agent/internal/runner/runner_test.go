package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const (
	mib  = 1 << 20
	guid = "0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1"
)

// boots is a boot server with an image.
type boots struct {
	content   []byte
	commitErr error
	where     agent.DataRequest
	commits   int
}

func newBoots() *boots {
	content := disktest.Random(3, 8*mib)
	gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 4095, Name: "root"}})
	return &boots{content: content}
}

func (b *boots) Manifest(context.Context) (*manifest.Manifest, error) {
	m, err := manifest.New(manifest.Header{Size: int64(len(b.content)), SectorSize: 512, Table: manifest.GPT, EFILoaders: []string{"x64"}})
	if err != nil {
		return nil, err
	}
	for i := range m.Chunks() {
		m.SetData(i, sha256.Sum256(b.content[i*mib:(i+1)*mib]))
	}
	return m, nil
}

func (b *boots) Extent(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(b.content[offset : offset+length])), nil
}

func (b *boots) Data(_ context.Context, where agent.DataRequest) ([]byte, error) {
	b.where = where
	return bytes.Repeat([]byte("secret "), 1000), nil
}

func (b *boots) Commit(context.Context, agent.CommitRequest) error {
	b.commits++
	return b.commitErr
}

func newProvisioner(t *testing.T, b *boots) (*Provisioner, FileDisks) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "S1")
	g := NewWithT(t)
	g.Expect(os.WriteFile(name, nil, 0o600)).To(Succeed())
	g.Expect(os.Truncate(name, 5<<30)).To(Succeed())
	f := FileDisks{name}
	return &Provisioner{
		Disks: f, Source: func(agent.ProvisionPlan) image.Source { return b }, Firmware: wire.FirmwareUEFI, Architecture: "amd64", Log: slog.New(slog.DiscardHandler),
	}, f
}

func provisionPlan(change func(*agent.ProvisionPlan)) *agent.Plan {
	p := &agent.ProvisionPlan{DataSource: wire.DataSourceNoCloud, DataSize: mib, PartitionGUID: guid, RootDevice: agent.RootDevice{SerialNumber: "S1"}}
	if change != nil {
		change(p)
	}
	return &agent.Plan{Version: agent.Version, Purpose: agent.Provision, Provision: p}
}

func bootable(t *testing.T, f FileDisks) bool {
	t.Helper()
	opened, err := os.Open(f[0])
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	defer func() { _ = opened.Close() }()
	return pxetest.Bootable(opened, 5<<30, 512)
}

func ignore(agent.Progress) {}

// TestProvisionThenClean: an image is written, found complete by a later attempt, and erased.
func TestProvisionThenClean(t *testing.T) {
	g := NewWithT(t)
	b := newBoots()
	p, f := newProvisioner(t, b)
	result := p.Run(t.Context(), provisionPlan(nil), ignore)
	g.Expect(result.Failure).To(BeNil())
	g.Expect(result.Written.Committed).To(BeTrue())
	g.Expect(result.Written.Disk).To(Equal(wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 5 << 30}))
	g.Expect(b.where).To(Equal(agent.DataRequest{Disk: result.Written.Disk, Name: "file0", Offset: result.Written.DataOffset, SectorSize: 512}))
	g.Expect(bootable(t, f)).To(BeTrue())

	b.commits = 0
	again := p.Run(t.Context(), provisionPlan(func(p *agent.ProvisionPlan) { p.CommittedGUID = guid }), ignore)
	g.Expect(again.Failure).To(BeNil())
	g.Expect(again.Written.Committed).To(BeTrue())
	g.Expect(b.commits).To(BeZero(), "nothing is written again")

	cleaner := &Cleaner{Disks: f, Log: p.Log}
	plan := &agent.Plan{Purpose: agent.Clean, Clean: &agent.CleanPlan{Policy: wire.PolicyMetadata, Ranges: []agent.DiskRange{
		{Disk: result.Written.Disk, Offset: result.Written.DataOffset, Length: result.Written.DataLength},
	}}}
	g.Expect(cleaner.Run(t.Context(), plan, ignore).Failure).To(BeNil())
	g.Expect(bootable(t, f)).To(BeFalse())
	opened, err := os.Open(f[0])
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = opened.Close() }()
	data := make([]byte, result.Written.DataLength)
	_, err = opened.ReadAt(data, result.Written.DataOffset)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Trim(data, "\x00")).To(BeEmpty())
}

// TestCommitUnknown: a disk that is neither complete nor empty is not written after a permission.
func TestCommitUnknown(t *testing.T) {
	g := NewWithT(t)
	b := newBoots()
	p, f := newProvisioner(t, b)
	g.Expect(p.Run(t.Context(), provisionPlan(nil), ignore).Failure).To(BeNil())
	other := "11111111-62fb-4b7e-a5a4-2a3bb7a0b0c1"
	result := p.Run(t.Context(), provisionPlan(func(p *agent.ProvisionPlan) {
		p.CommittedGUID, p.CommittedDisk = other, wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 5 << 30}
	}), ignore)
	g.Expect(result.Failure.Reason).To(Equal(wire.ReasonCommitUnknown))
	g.Expect(bootable(t, f)).To(BeTrue(), "nothing was written")
}

// TestRefusedCommit: a permission that is refused leaves an empty disk, and a failure.
func TestRefusedCommit(t *testing.T) {
	g := NewWithT(t)
	b := newBoots()
	b.commitErr = retry.Final(errors.New("refused"))
	p, f := newProvisioner(t, b)
	result := p.Run(t.Context(), provisionPlan(nil), ignore)
	g.Expect(result.Failure).NotTo(BeNil())
	g.Expect(result.Written.Committed).To(BeFalse())
	g.Expect(bootable(t, f)).To(BeFalse())
	b.commitErr = nil
	committed := func(disk wire.DiskIdentity) *agent.Plan {
		return provisionPlan(func(p *agent.ProvisionPlan) { p.CommittedGUID, p.CommittedDisk = guid, disk })
	}
	missing := p.Run(t.Context(), committed(wire.DiskIdentity{SerialNumber: "S2", SizeBytes: 5 << 30}), ignore)
	g.Expect(missing.Failure.Reason).To(Equal(wire.ReasonCommitUnknown), "the disk that may boot is not there")
	g.Expect(bootable(t, f)).To(BeFalse())
	g.Expect(p.Run(t.Context(), committed(wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 5 << 30}), ignore).Failure).To(BeNil(), "an empty disk may be written again")
	g.Expect(bootable(t, f)).To(BeTrue())
}

// TestKept: a disk that the host keeps is neither written nor erased.
func TestKept(t *testing.T) {
	g := NewWithT(t)
	b := newBoots()
	p, f := newProvisioner(t, b)
	result := p.Run(t.Context(), provisionPlan(func(p *agent.ProvisionPlan) { p.Keep = []wire.KeptDisk{{SerialNumber: "s1"}} }), ignore)
	g.Expect(result.Failure.Reason).To(Equal(wire.ReasonDiskProtected))
	g.Expect(p.Run(t.Context(), provisionPlan(nil), ignore).Failure).To(BeNil())
	cleaner := &Cleaner{Disks: f, Log: p.Log}
	clean := cleaner.Run(t.Context(), &agent.Plan{Purpose: agent.Clean, Clean: &agent.CleanPlan{
		Policy: wire.PolicyMetadata, Keep: []wire.KeptDisk{{SerialNumber: "S1"}}, Ranges: []agent.DiskRange{{Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 5 << 30}, Offset: 4 << 30, Length: mib}},
	}}, ignore)
	g.Expect(clean.Failure).NotTo(BeNil(), "what cannot be erased is a failure")
	g.Expect(bootable(t, f)).To(BeTrue())
}

// busy are disks that something else holds.
type busy struct{ FileDisks }

func (busy) Open(disk.Disk) (disk.Device, error) { return nil, disk.ErrBusy }

// TestBusy: a disk that something else holds is a failure of its own.
func TestBusy(t *testing.T) {
	g := NewWithT(t)
	p, f := newProvisioner(t, newBoots())
	p.Disks = busy{f}
	g.Expect(p.Run(t.Context(), provisionPlan(nil), ignore).Failure.Reason).To(Equal(wire.ReasonDiskBusy))
	g.Expect(p.Run(t.Context(), &agent.Plan{Purpose: agent.Provision}, ignore).Failure.Reason).To(Equal(wire.ReasonPlanInvalid))
}
