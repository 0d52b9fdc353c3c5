package claim

import (
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// byPolicy is a host of which BMC and agent report different hardware.
func byPolicy(policy v1alpha1.InspectionPolicy, changes ...func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	h := host("a", append([]func(*v1alpha1.BareMetalHost){func(h *v1alpha1.BareMetalHost) {
		h.Spec.Inspection = policy
		h.Status.Hardware.NICs = []v1alpha1.NIC{{SpeedMbps: 10_000}, {SpeedMbps: 25_000, LinkUp: new(false)}}
		h.Status.Hardware.Devices = []v1alpha1.Device{{Class: "GPU"}, {Class: "StorageController"}}
		h.Status.Inspection = &v1alpha1.InspectionSummary{
			CPU: 16, MemoryBytes: 32 << 30, Disks: []v1alpha1.DiskGroup{{Count: 2, SizeBytes: 480 << 30}, {Count: 4, SizeBytes: 4 << 40, Rotational: true}},
			NICs: []v1alpha1.NICGroup{{Count: 2, SpeedMbps: 25_000}, {Count: 1}}, GPUs: []v1alpha1.GPUGroup{{Count: 8, Vendor: "10de", Device: "20b5"}, {Count: 1, Vendor: "1002", Device: "1"}},
			Switches: []string{"leaf-1", "leaf-2"},
		}
	}}, changes...)...)
	return &h
}

func notReported(h *v1alpha1.BareMetalHost) { h.Status.Inspection = nil }
func emptyReport(h *v1alpha1.BareMetalHost) { h.Status.Inspection = &v1alpha1.InspectionSummary{} }

// TestFactsHaveSource: spec.inspection decides where a fact comes from. An unknown fact meets no requirement.
func TestFactsHaveSource(t *testing.T) {
	bmc := func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = "" }
	for name, test := range map[string]struct {
		host    *v1alpha1.BareMetalHost
		cpu     int32
		gib     int64
		disk    int64
		fast    int32
		gpus    int32
		a100    int32
		toLeaf1 bool
	}{
		"BMC":                       {byPolicy(v1alpha1.InspectionBMC), 8, 16, 400, 1, 1, 0, false},
		"default":                   {byPolicy("", bmc), 8, 16, 400, 1, 1, 0, false},
		"agent":                     {byPolicy(v1alpha1.InspectionAgent), 16, 32, 4096, 2, 9, 8, true},
		"agent, no report":          {byPolicy(v1alpha1.InspectionAgent, notReported), 0, 0, 0, 0, 0, 0, false},
		"agent, nothing found":      {byPolicy(v1alpha1.InspectionAgent, emptyReport), 0, 0, 0, 0, 0, 0, false},
		"both":                      {byPolicy(v1alpha1.InspectionBoth), 16, 32, 4096, 2, 9, 8, true},
		"both, no report":           {byPolicy(v1alpha1.InspectionBoth, notReported), 8, 16, 400, 1, 1, 0, false},
		"both, agent found nothing": {byPolicy(v1alpha1.InspectionBoth, emptyReport), 8, 16, 400, 1, 1, 0, false},
		"BMC without an inventory":  {byPolicy("", func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }), 0, 0, 0, 0, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h := test.host
			g.Expect(CPU(h)).To(Equal(test.cpu))
			g.Expect(Memory(h)).To(Equal(test.gib << 30))
			g.Expect(largestDisk(h)).To(Equal(test.disk << 30))
			g.Expect(nics(h, 10_000)).To(Equal(test.fast))
			g.Expect(GPUs(h, v1alpha1.GPURequirement{})).To(Equal(test.gpus))
			g.Expect(GPUs(h, v1alpha1.GPURequirement{Vendor: "10de", Device: "20b5"})).To(Equal(test.a100))
			g.Expect(connected(h, []string{"leaf-9", "leaf-1"})).To(Equal(test.toLeaf1))
			g.Expect(connected(h, []string{"leaf-9"})).To(BeFalse())
			var largest int64
			for _, size := range DiskSizes(h) {
				largest = max(largest, size)
			}
			g.Expect(largest).To(Equal(largestDisk(h)))
			var total int32
			for _, group := range disks(h) {
				total += group.count
			}
			g.Expect(disksSuffice(disks(h), []v1alpha1.DiskRequirement{{Count: total + 1}})).To(BeFalse())
		})
	}
}

// TestHardwareRequirements: each requirement excludes a host that does not meet it, with a reason.
func TestHardwareRequirements(t *testing.T) {
	type hardware = v1alpha1.HardwareRequirements
	for name, test := range map[string]struct {
		need hardware
		why  string
	}{
		"two disks":            {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 2, MinSize: quantity("400Gi"), Rotational: new(false)}}}, ""},
		"two kinds of disks":   {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 2}, {Count: 4, MinSize: quantity("4Ti"), Rotational: new(true)}}}, ""},
		"any kind, and one":    {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 4}, {Count: 2, Rotational: new(false)}}}, ""},
		"too many disks":       {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 7}}}, "hardware.disks"},
		"too large disks":      {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 5, MinSize: quantity("4Ti")}}}, "hardware.disks"},
		"too many of one kind": {hardware{Disks: []v1alpha1.DiskRequirement{{Count: 3, Rotational: new(false)}}}, "hardware.disks"},
		"links":                {hardware{NICs: &v1alpha1.NICRequirement{Count: 2, MinSpeedMbps: 25_000}}, ""},
		"too few links":        {hardware{NICs: &v1alpha1.NICRequirement{Count: 3, MinSpeedMbps: 25_000}}, "fewer than 3 network interfaces of 25000 Mbit/s"},
		"GPUs":                 {hardware{GPUs: &v1alpha1.GPURequirement{Count: 8, Vendor: "10de"}}, ""},
		"too few GPUs":         {hardware{GPUs: &v1alpha1.GPURequirement{Count: 2, Vendor: "1002"}}, "2 GPUs that hardware.gpus"},
		"other GPUs":           {hardware{GPUs: &v1alpha1.GPURequirement{Count: 1, Device: "ffff"}}, "hardware.gpus"},
		"switch":               {hardware{Switches: []string{"leaf-2"}}, ""},
		"another switch":       {hardware{Switches: []string{"leaf-3"}}, "hardware.switches"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want := anything()
			want.Hardware = test.need
			why := Eligible(byPolicy(v1alpha1.InspectionAgent), want)
			if test.why == "" {
				g.Expect(why).To(BeEmpty())
				return
			}
			g.Expect(why).To(ContainSubstring(test.why))
		})
	}
	g, want := NewWithT(t), anything()
	want.Hardware.Disks = []v1alpha1.DiskRequirement{{Count: 1, Rotational: new(false)}}
	g.Expect(Eligible(byPolicy(""), want)).NotTo(BeEmpty(), "the BMC does not say what kind its disks are")
}

// TestPropertyDisksSuffice: disksSuffice finds an assignment exactly if there is one.
func TestPropertyDisksSuffice(t *testing.T) {
	kinds := []*bool{nil, new(true), new(false)}
	rapid.Check(t, func(t *rapid.T) {
		var groups []diskGroup
		for range rapid.IntRange(0, 4).Draw(t, "groups") {
			groups = append(groups, diskGroup{rapid.Int32Range(1, 2).Draw(t, "count"), rapid.Int64Range(1, 4).Draw(t, "size"), rapid.SampledFrom(kinds).Draw(t, "kind")})
		}
		var need []v1alpha1.DiskRequirement
		for range rapid.IntRange(1, 3).Draw(t, "requirements") {
			r := v1alpha1.DiskRequirement{Count: rapid.Int32Range(1, 2).Draw(t, "need"), Rotational: rapid.SampledFrom(kinds).Draw(t, "rotational")}
			if size := rapid.Int64Range(0, 4).Draw(t, "minSize"); size > 0 {
				r.MinSize = quantity(string(rune('0' + size)))
			}
			need = append(need, r)
		}
		var each []diskGroup
		for _, group := range groups {
			for range group.count {
				each = append(each, diskGroup{1, group.size, group.rotational})
			}
		}
		if got, want := disksSuffice(groups, need), assignable(each, need, 0, 0); got != want {
			t.Fatalf("disksSuffice is %t, and an assignment exists: %t", got, want)
		}
	})
}

// assignable tries every assignment of single disks. given is how many disks the requirement at has already.
func assignable(each []diskGroup, need []v1alpha1.DiskRequirement, at int, given int32) bool {
	if at == len(need) {
		return true
	}
	if given == need[at].Count {
		return assignable(each, need, at+1, 0)
	}
	for i, d := range each {
		if d.count > 0 && meets(d, need[at]) {
			each[i].count = 0
			ok := assignable(each, need, at, given+1)
			each[i].count = 1
			if ok {
				return true
			}
		}
	}
	return false
}

// TestPurge: a machine with the policy Purge does not get a host with a disk that cannot be purged. What is unknown, or kept, is no obstacle.
func TestPurge(t *testing.T) {
	cannot := func(h *v1alpha1.BareMetalHost) {
		h.Status.Inspection.NotPurgeable = []v1alpha1.NotPurgeableDisk{{SerialNumber: "S1"}}
	}
	const excluded = "None of 1 hosts fits: 1 with a disk that cannot be purged, which cleaningPolicy requires"
	for name, test := range map[string]struct {
		host   *v1alpha1.BareMetalHost
		policy wire.ErasePolicy
		want   string
	}{
		"it cannot":         {byPolicy(v1alpha1.InspectionAgent, cannot), wire.PolicyPurge, excluded},
		"Clear is possible": {byPolicy(v1alpha1.InspectionAgent, cannot), wire.PolicyClear, ""},
		"nothing is asked":  {byPolicy(v1alpha1.InspectionAgent, cannot), "", ""},
		"it can":            {byPolicy(v1alpha1.InspectionAgent), wire.PolicyPurge, ""},
		"it is unknown":     {byPolicy(v1alpha1.InspectionBoth, notReported), wire.PolicyPurge, ""},
		"the disk is kept": {byPolicy(v1alpha1.InspectionBoth, cannot, func(h *v1alpha1.BareMetalHost) {
			h.Spec.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{SerialNumber: "S1"}}}
		}), wire.PolicyPurge, ""},
		"a person wipes it":  {byPolicy(v1alpha1.InspectionAgent, cannot, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyManual }), wire.PolicyPurge, ""},
		"only the BMC knows": {byPolicy(v1alpha1.InspectionBMC, cannot), wire.PolicyPurge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			want, err := WantOf(&v1alpha1.BareMetalMachineSpec{CleaningPolicy: test.policy})
			g.Expect(err).NotTo(HaveOccurred())
			picked, diagnosis := Pick(Each([]v1alpha1.BareMetalHost{*test.host}), want, nobody)
			g.Expect(picked == nil).To(Equal(test.want != ""))
			if test.want != "" {
				g.Expect(diagnosis.String()).To(Equal(test.want))
			}
		})
	}
}
