package runner

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

// memory are disks in memory.
type memory struct {
	facts []disk.Disk
	disks map[string]*disktest.Disk // by their names
}

// labelOf is the label of the only partition of a disk of memory.
func labelOf(d disk.Disk) string { return "part" + d.SerialNumber }

// newMemory returns three disks with a partition each. The smallest one is to be kept.
func newMemory(size int64) memory {
	m := memory{disks: map[string]*disktest.Disk{}}
	for i, serial := range []string{"S1", "S2", "KEPT"} {
		name := "sd" + string(rune('a'+i))
		facts := disk.Disk{InspectedDisk: wire.InspectedDisk{
			Name: name, SerialNumber: serial, WWN: "naa.5000c500a1b2c3d" + string(rune('0'+i)), Model: "Disk " + serial, SizeBytes: size - int64(i)*mib, LogicalSectorBytes: 512, PhysicalSectorBytes: 512,
			Transport: wire.TransportSAS, ByPath: "pci-0000:00:1f.2-ata-" + string(rune('1'+i)),
		}}
		table := make([]byte, mib)
		gpttest.PutGPT(table, 512, []gpttest.Part{{First: 64, Last: 1000, Name: labelOf(facts)}})
		m.disks[name] = disktest.New(facts.SizeBytes, 512)
		m.disks[name].Fill(0, table)
		m.facts = append(m.facts, facts)
	}
	return m
}

func (m memory) List(context.Context) ([]disk.Disk, error) { return slices.Clone(m.facts), nil }

func (m memory) Read(d disk.Disk) (ReadCloser, error) { return m.open(d) }

func (m memory) Open(d disk.Disk) (disk.Device, error) { return m.open(d) }

func (m memory) open(d disk.Disk) (*disktest.Disk, error) {
	if opened := m.disks[d.Name]; opened != nil {
		return opened, nil
	}
	return nil, errors.New("there is no such disk")
}

// changed returns the zero time: no disk appears late.
func (memory) changed([]disk.Disk) time.Time { return time.Time{} }

// judge checks that no disk that a plan keeps was written, and that the result is one.
func (m memory) judge(t *testing.T, keep []wire.KeptDisk, result agent.Result) {
	t.Helper()
	for _, d := range m.facts {
		kept := slices.ContainsFunc(keep, func(k wire.KeptDisk) bool {
			return strings.EqualFold(k.SerialNumber, d.SerialNumber) || strings.EqualFold(k.WWN, d.WWN) || k.Label == labelOf(d)
		})
		at := slices.IndexFunc(m.disks[d.Name].Ops(), func(op disktest.Op) bool { return op.Kind == disktest.Write || op.Kind == disktest.Zero })
		if kept && at >= 0 {
			t.Errorf("the disk %s, which the plan keeps, was written: %s", d.SerialNumber, m.disks[d.Name].Ops()[at])
		}
	}
	if f := result.Failure; f != nil && (f.Reason == "" || f.Reason == wire.ReasonAgentPanicked || f.Message == "") {
		t.Errorf("the failure is %+v", f)
	}
	if len(result.Disks) > agent.MaxErasedDisks {
		t.Errorf("the result has %d disks", len(result.Disks))
	}
	if _, err := json.Marshal(result); err != nil {
		t.Error(err)
	}
}

// FuzzPlan: whatever a plan says, the agent does not panic, writes to no disk that is kept, and has a result.
func FuzzPlan(f *testing.F) {
	for _, seed := range []string{
		`{"version":1,"title":"rack1-1","purpose":"Provision","provision":{"manifest":"sha256:00","rootDevice":{},"keep":[{"serialNumber":"S2"}],"dataSource":"NoCloud",` +
			`"dataSize":33554432,"partitionGUID":"` + guid + `","bootEntry":"capbm node-1"}}`,
		`{"version":1,"title":"rack1-1","purpose":"Provision","provision":{"manifest":"sha256:00","rootDevice":{"serialNumber":"s1","wwn":"0x5000c500a1b2c3d0","model":"disk",` +
			`"minSize":4294967296,"rotational":false,"byPath":"pci-0000:00:1f.2-ata-1","name":"sda"},"dataSource":"None","partitionGUID":"` + guid + `","bootEntry":"capbm node-1"}}`,
		`{"version":1,"title":"rack1-1","purpose":"Provision","provision":{"manifest":"sha256:00","rootDevice":{"serialNumber":"KEPT"},"dataSource":"ConfigDrive","dataSize":33554432,` +
			`"partitionGUID":"` + guid + `","committedGUID":"` + guid + `","committedDisk":{"serialNumber":"KEPT","sizeBytes":5366611968},"bootEntry":"capbm node-1"}}`,
		`{"version":1,"title":"rack1-1","purpose":"Clean","clean":{"policy":"Metadata","keep":[{"wwn":"naa.5000c500a1b2c3d1"}],"ranges":[{"disk":{"serialNumber":"S1","sizeBytes":8388608},` +
			`"offset":4194304,"length":1048576},{"disk":{"serialNumber":"KEPT"},"offset":4194304,"length":1048576}]}}`,
		`{"version":1,"title":"rack1-1","purpose":"Clean","clean":{"policy":"Metadata","allDisks":true,"expected":[{"serialNumber":"S1"},{"wwn":"5000c500a1b2c3d1"},{"byPath":"x"}]}}`,
		`{"version":1,"title":"rack1-1","purpose":"Clean","clean":{"policy":"Clear","ranges":[{"disk":{"serialNumber":"S2","sizeBytes":7340032},"offset":4194304,"length":1048576}],` +
			`"expected":[{"serialNumber":"S1"},{"serialNumber":"S2"},{"serialNumber":"KEPT"}]}}`,
		`{"version":1,"title":"rack1-1","purpose":"Clean","clean":{"policy":"Purge","keep":[{"label":"partS1"}],"allDisks":true}}`,
		`{"version":1,"title":"rack1-1","purpose":"Inspect","inspect":{"lldpSeconds":35}}`,
	} {
		f.Add([]byte(seed))
	}
	content := disktest.Random(3, 3*mib)
	gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 4095, Name: "root"}})
	log := slog.New(slog.DiscardHandler)
	f.Fuzz(func(t *testing.T, body []byte) {
		plan := &agent.Plan{}
		if json.Unmarshal(body, plan) != nil {
			return // the agent asks again
		}
		synctest.Test(t, func(t *testing.T) { // the runners wait for disks that are missing
			var keep []wire.KeptDisk
			if p := plan.Provision; p != nil {
				p.Keep = append(p.Keep, wire.KeptDisk{SerialNumber: "KEPT"})
				keep = p.Keep
			}
			disks := newMemory(5 << 30)
			provisioner := &Provisioner{
				Disks: disks, Source: func(agent.ProvisionPlan) image.Source { return &boots{content: content} }, Firmware: wire.FirmwareUEFI, Architecture: "amd64", Log: log,
			}
			result := provisioner.Run(t.Context(), plan, ignore)
			disks.judge(t, keep, result)
			if result.Failure == nil && (result.Written == nil || !result.Written.Committed) {
				t.Error("the plan succeeds, and no disk is complete")
			}

			keep = nil
			if c := plan.Clean; c != nil {
				c.Keep = append(c.Keep, wire.KeptDisk{SerialNumber: "KEPT"})
				keep = c.Keep
			}
			disks = newMemory(8 * mib)
			result = (&Cleaner{Disks: disks, Log: log}).Run(t.Context(), plan, ignore)
			disks.judge(t, keep, result)
			if result.Failure == nil && len(result.Disks) < len(disks.facts) {
				t.Errorf("the plan succeeds, and the result has %d disks", len(result.Disks))
			}
		})
	})
}
