package host

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// TestSummarize: disks that may be written, links by speed, GPUs and switches are counted.
func TestSummarize(t *testing.T) {
	g := NewWithT(t)
	lldp := func(name, chassis string) *wire.InspectedNeighbor {
		return &wire.InspectedNeighbor{SystemName: name, ChassisID: chassis}
	}
	s := summarize(&v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{
		CPU: wire.InspectedCPU{Threads: 64}, Memory: wire.InspectedMemory{Bytes: 1 << 38},
		Disks: []wire.InspectedDisk{
			{SizeBytes: 480e9}, {SizeBytes: 480e9}, {SizeBytes: 4e12, Rotational: true}, {SizeBytes: 1e9, Removable: true}, {SizeBytes: 2e9, ReadOnly: true},
			{SizeBytes: 3e9, Transport: wire.TransportUSB}, {SizeBytes: 5e9, Protected: "spec.storage.keep"}, {},
		},
		NICs: []wire.InspectedNIC{
			{SpeedMbps: 25000, LinkUp: true, Neighbor: lldp("leaf-2", "")}, {SpeedMbps: 25000, LinkUp: true, Neighbor: lldp("leaf-1", "x")},
			{SpeedMbps: 1000, LinkUp: false, Neighbor: lldp("", "aa:bb")}, {SpeedMbps: 1000, LinkUp: true, Neighbor: lldp("leaf-1", "")},
		},
		Devices: []wire.InspectedDevice{{Class: "GPU", Vendor: "10de", Device: "20b5"}, {Class: "GPU", Vendor: "10de", Device: "20b5"}, {Class: "Accelerator"}},
	}}, reportVersion{"uid", 1})
	g.Expect(s.ReportUID).To(Equal("uid"))
	g.Expect(s.ReportGeneration).To(BeEquivalentTo(1))
	g.Expect(s.CPU).To(BeEquivalentTo(64))
	g.Expect(s.MemoryBytes).To(BeEquivalentTo(1 << 38))
	g.Expect(s.Disks).To(Equal([]v1alpha1.DiskGroup{{Count: 1, SizeBytes: 4e12, Rotational: true}, {Count: 2, SizeBytes: 480e9}}))
	g.Expect(s.NICs).To(Equal([]v1alpha1.NICGroup{{Count: 2, SpeedMbps: 25000}, {Count: 1, SpeedMbps: 1000}, {Count: 1}}))
	g.Expect(s.GPUs).To(Equal([]v1alpha1.GPUGroup{{Count: 2, Vendor: "10de", Device: "20b5"}}))
	g.Expect(s.Switches).To(Equal([]string{"aa:bb", "leaf-1", "leaf-2"}))
	g.Expect(s.NotPurgeable).To(BeEmpty(), "what is unknown")
}

// TestSummaryOfDisksThatCannotBePurged: they are named, and never all forgotten.
func TestSummaryOfDisksThatCannotBePurged(t *testing.T) {
	g := NewWithT(t)
	const weak = wire.PolicyClear
	s := summarize(&v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{Disks: []wire.InspectedDisk{
		{SerialNumber: "S2", WWN: "5000", SizeBytes: 1, EraseClass: weak}, {SerialNumber: "S1", SizeBytes: 1, EraseClass: weak}, {WWN: "w", SizeBytes: 1, EraseClass: weak},
		{SerialNumber: "good", SizeBytes: 1, EraseClass: wire.PolicyPurge}, {SerialNumber: "unknown", SizeBytes: 1},
		{SerialNumber: "media", SizeBytes: 1, Removable: true, EraseClass: weak}, {SerialNumber: "S3", SizeBytes: 1, EraseClass: weak},
	}}}, reportVersion{"uid", 1})
	g.Expect(s.NotPurgeable).To(Equal([]v1alpha1.NotPurgeableDisk{{WWN: "w"}, {SerialNumber: "S1"}, {SerialNumber: "S2", WWN: "5000"}, {SerialNumber: "S3"}}))
	g.Expect(s.NotPurgeableCount).To(BeEquivalentTo(4))
	report := &v1alpha1.BareMetalInspectionSpec{}
	for i := range 100 {
		report.Disks = append(report.Disks, wire.InspectedDisk{SerialNumber: fmt.Sprintf("%02d%s", i, strings.Repeat("x", 200)), SizeBytes: int64(i+1) << 40, EraseClass: weak})
		report.NICs = append(report.NICs, wire.InspectedNIC{LinkUp: true, SpeedMbps: int32(i), Neighbor: &wire.InspectedNeighbor{SystemName: fmt.Sprintf("%03d %s", i, strings.Repeat("<", 100))}})
	}
	s = summarize(report, reportVersion{strings.Repeat("f", 36), math.MaxInt64})
	g.Expect(len(s.NotPurgeable)).To(And(BeNumerically(">", 4), BeNumerically("<", 8)))
	g.Expect(s.NotPurgeableCount).To(BeEquivalentTo(100))
	g.Expect(jsonSize(s)).To(BeNumerically("<=", maxSummary))
	for i := range report.Disks {
		report.Disks[i].WWN = strings.Repeat("5", 64)
	}
	s = summarize(report, reportVersion{strings.Repeat("f", 36), math.MaxInt64})
	g.Expect(jsonSize(s)).To(BeNumerically("<=", maxSummary))
	g.Expect(len(s.NotPurgeable)).To(BeNumerically(">", 2))
	g.Expect(len(s.NICs)).To(BeNumerically(">", 3), "what machines are compared with is not lost to the names of disks")
}

// TestSummaryIsBounded: the summary of the largest report is small, because each host's status has one. The largest disks and the fastest links stay.
func TestSummaryIsBounded(t *testing.T) {
	g := NewWithT(t)
	report := &v1alpha1.BareMetalInspectionSpec{
		Inspection: wire.Inspection{CPU: wire.InspectedCPU{Threads: 1 << 20}, Memory: wire.InspectedMemory{Bytes: 1 << 50}}, ReceivedTime: metav1.Now(),
	}
	for i := range 512 {
		report.Disks = append(report.Disks, wire.InspectedDisk{SizeBytes: int64(i+1) << 40})
		report.NICs = append(report.NICs, wire.InspectedNIC{LinkUp: true, SpeedMbps: int32(i), Neighbor: &wire.InspectedNeighbor{SystemName: fmt.Sprintf("%03d %s", i, strings.Repeat("<", 100))}})
		report.Devices = append(report.Devices, wire.InspectedDevice{Class: "GPU", Vendor: "10de", Device: fmt.Sprintf("%04x", i)})
	}
	version := reportVersion{strings.Repeat("f", 36), math.MaxInt64}
	s := summarize(report, version)
	content, err := json.Marshal(s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(content)).To(BeNumerically("<=", 1<<10))
	g.Expect(reportVersion{s.ReportUID, s.ReportGeneration}).To(Equal(version))
	g.Expect(s.Disks[0].SizeBytes).To(BeEquivalentTo(512 << 40))
	g.Expect(s.NICs[0].SpeedMbps).To(BeEquivalentTo(511))
	g.Expect(len(s.Disks)).To(BeNumerically(">", 3))
	g.Expect(summarize(report, version)).To(Equal(s), "equal reports have equal summaries")
}

// TestPropertySummary: whatever is found, the summary is bounded, and it has as much as fits: without the bound the limits of the lists alone would cut it.
func TestPropertySummary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		report, groups := &v1alpha1.BareMetalInspectionSpec{}, map[v1alpha1.DiskGroup]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "disks") {
			d := wire.InspectedDisk{SizeBytes: rapid.Int64Min(1).Draw(t, "size"), Rotational: rapid.Bool().Draw(t, "rotational")}
			report.Disks = append(report.Disks, d)
			groups[v1alpha1.DiskGroup{SizeBytes: d.SizeBytes, Rotational: d.Rotational}] = true
		}
		for range rapid.IntRange(0, 20).Draw(t, "NICs") {
			report.NICs = append(report.NICs, wire.InspectedNIC{
				LinkUp: true, SpeedMbps: rapid.Int32().Draw(t, "speed"), Neighbor: &wire.InspectedNeighbor{SystemName: rapid.String().Draw(t, "switch")},
			})
		}
		s := summarize(report, reportVersion{"uid", 1})
		if size := jsonSize(s); size > maxSummary || size < 700 && (len(s.Disks) < min(len(groups), 3) || len(s.NICs) == 0 && len(report.NICs) > 0) {
			t.Fatalf("%d bytes: %+v", size, s)
		}
	})
}

// TestContradictions: each fact that differs is named, and unknown facts contradict nothing.
func TestContradictions(t *testing.T) {
	const uuid, other = "4c4c4544-0042-3510-8034-b4c04f465931", "11111111-2222-3333-4444-555555555555"
	host := func() *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{
			BootMACAddresses: []string{"52:54:00:00:00:01"}, BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1/redfish/v1/Systems/1"},
		}}
	}
	hardware := func() *v1alpha1.Hardware {
		return &v1alpha1.Hardware{
			SystemUUID: uuid, SerialNumber: "ABC", CPU: v1alpha1.CPU{Threads: 8}, Memory: resource.MustParse("64Gi"),
			Disks: []v1alpha1.Disk{{SerialNumber: "D1", Name: "Bay 1"}, {SerialNumber: "D2", Name: "Bay 2"}, {Name: "unknown"}},
		}
	}
	report := func() *v1alpha1.BareMetalInspectionSpec {
		return &v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{
			System: wire.InspectedSystem{SystemUUID: "44454C4C-4200-1035-8034-B4C04F465931", SerialNumber: " abc"}, // the bytes of the UUID in the other order
			CPU:    wire.InspectedCPU{Threads: 8, Architecture: "amd64"}, Memory: wire.InspectedMemory{Bytes: 60 << 30},
			NICs:  []wire.InspectedNIC{{MACAddress: "52:54:00:00:00:01"}},
			Disks: []wire.InspectedDisk{{SerialNumber: "d1"}, {SerialNumber: "d2"}, {SerialNumber: "stick", Transport: wire.TransportUSB}},
			BMC:   &wire.InspectedBMC{Address: "192.0.2.1"},
		}}
	}
	for name, test := range map[string]struct {
		change func(h *v1alpha1.BareMetalHost, bmc *v1alpha1.Hardware, found *v1alpha1.BareMetalInspectionSpec)
		want   string
	}{
		"nothing": {func(*v1alpha1.BareMetalHost, *v1alpha1.Hardware, *v1alpha1.BareMetalInspectionSpec) {}, ""},
		"unknown facts": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			*f = v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{Disks: report().Disks}}
		}, ""},
		"UUID": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.System.SystemUUID = other
		}, "system UUID"},
		"serial": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.System.SerialNumber = "X"
		}, "serial number"},
		"processors": {func(_ *v1alpha1.BareMetalHost, b *v1alpha1.Hardware, _ *v1alpha1.BareMetalInspectionSpec) {
			b.CPU.Threads = 16
		}, "16 logical processors, and the agent found 8"},
		"memory": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.Memory.Bytes = 32 << 30
		}, "65536 MiB of memory, and the agent found 32768 MiB"},
		"boot MAC": {func(h *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, _ *v1alpha1.BareMetalInspectionSpec) {
			h.Spec.BootMACAddresses = []string{"52:54:00:00:00:02"}
		}, "spec.bootMACAddresses"},
		"architecture": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.CPU.Architecture = "arm64"
		}, "spec.architecture"},
		"BMC": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.BMC.Address = "192.0.2.7"
		}, "spec.bmc.address is 192.0.2.1"},
		"BMC over IPv6": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.BMC.Address, f.BMC.Address6 = "", "2001:db8::7"
		}, "2001:db8::7"},
		"BMC by name": {func(h *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			h.Spec.BMC.Address, f.BMC.Address = "redfish://bmc-1.example.com", "192.0.2.7"
		}, ""},
		"disk": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.Disks = f.Disks[1:]
		}, `disk "D1" (Bay 1)`},
		"disks of a RAID controller": {func(_ *v1alpha1.BareMetalHost, _ *v1alpha1.Hardware, f *v1alpha1.BareMetalInspectionSpec) {
			f.Disks = []wire.InspectedDisk{{SerialNumber: "virtual"}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h, b, f := host(), hardware(), report()
			test.change(h, b, f)
			all := contradictions(h, b, f)
			if test.want == "" {
				g.Expect(all).To(BeEmpty())
				return
			}
			g.Expect(all).To(ConsistOf(ContainSubstring(test.want)))
			g.Expect(joined(all)).To(MatchRegexp("^[A-Z]"))
		})
	}
	NewWithT(t).Expect(contradictions(host(), nil, report())).To(BeEmpty())
}
