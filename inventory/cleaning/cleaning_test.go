package cleaning

import (
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

const (
	unset    = wire.ErasePolicy("")
	none     = wire.PolicyNone
	metadata = wire.PolicyMetadata
	clears   = wire.PolicyClear
	purge    = wire.PolicyPurge
	manual   = wire.PolicyManual
)

func TestEffective(t *testing.T) {
	for name, c := range map[string]struct{ host, claimed, minimum, want wire.ErasePolicy }{
		"nothing is set":                         {unset, unset, none, unset},
		"a host that keeps its data":             {none, unset, unset, none},
		"the minimum is for it too":              {none, unset, clears, clears},
		"a machine asks for more":                {none, metadata, none, metadata},
		"a machine cannot ask for less":          {purge, metadata, none, purge},
		"the minimum is no maximum":              {purge, unset, metadata, purge},
		"the machine asks for more than minimum": {unset, purge, clears, purge},
		"the minimum extends the default":        {unset, unset, metadata, metadata},
		"a person decides":                       {manual, purge, purge, manual},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Effective(c.host, c.claimed, c.minimum)).To(Equal(c.want))
		})
	}
}

// TestPropertyNeverWeaker: the effective policy is one of the three, and never weaker than any of them.
func TestPropertyNeverWeaker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]wire.ErasePolicy{unset, none, metadata, clears, purge, manual}).Draw(t, "host")
		claimed := rapid.SampledFrom([]wire.ErasePolicy{unset, metadata, clears, purge}).Draw(t, "claimed")
		minimum := rapid.SampledFrom([]wire.ErasePolicy{unset, none, metadata, clears, purge}).Draw(t, "minimum")
		got := Effective(host, claimed, minimum)
		if host == manual {
			if got != manual {
				t.Fatalf("%q instead of a person", got)
			}
			return
		}
		if got != host && got != claimed && got != minimum {
			t.Fatalf("nobody asked for %q", got)
		}
		for _, least := range []wire.ErasePolicy{host, claimed, minimum} {
			if (least != "" || least == host) && !got.Reaches(least) {
				t.Fatalf("%q is weaker than %q", got, least)
			}
		}
	})
}

func TestErases(t *testing.T) {
	g := NewWithT(t)
	g.Expect([]bool{Erases(none), Erases(unset), Erases(purge), Erases(manual)}).To(Equal([]bool{false, true, true, false}))
	g.Expect([]bool{AllDisks(unset), AllDisks(metadata), AllDisks(clears), AllDisks(manual)}).To(Equal([]bool{false, true, true, false}))
	g.Expect([]bool{IsMinimum(none), IsMinimum(purge), IsMinimum(unset), IsMinimum(manual)}).To(Equal([]bool{true, true, false, false}))
}

func TestNotPurgeable(t *testing.T) {
	g := NewWithT(t)
	h := &v1alpha1.BareMetalHostSpec{Inspection: v1alpha1.InspectionBMC}
	g.Expect(NotPurgeable(h, nil)).To(BeZero(), "no inspection")
	s1, wwn, named := v1alpha1.NotPurgeableDisk{SerialNumber: "S1"}, v1alpha1.NotPurgeableDisk{WWN: "5000c500a1b2c3d4"}, v1alpha1.NotPurgeableDisk{Name: "sda"}
	found := &v1alpha1.InspectionSummary{NotPurgeable: []v1alpha1.NotPurgeableDisk{s1, wwn, named, {}}, NotPurgeableCount: 6}
	g.Expect(NotPurgeable(h, found)).To(BeZero(), "an inspection that the host does not ask for any more")
	h.Inspection = v1alpha1.InspectionBoth
	g.Expect(NotPurgeable(h, found)).To(Equal(Unpurgeable{[]v1alpha1.NotPurgeableDisk{s1, wwn, named, {}}, 2}))
	h.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{WWN: "5000C500A1B2C3D4"}, {Label: "S1"}, {SerialNumber: "sda"}}}
	g.Expect(NotPurgeable(h, found)).To(Equal(Unpurgeable{[]v1alpha1.NotPurgeableDisk{s1, named, {}}, 2}), "a label and a name tell nothing")
	g.Expect(Kept(h.Storage, "", "")).To(BeFalse(), "a disk without a name")
	for _, k := range []wire.KeptDisk{{SerialNumber: "s1 "}, {WWN: "5000c500a1b2c3d4"}, {WWN: "0x5000C500A1B2C3D4"}, {WWN: "naa.5000c500a1b2c3d4"}} { // as the agent accepts them
		found := &v1alpha1.InspectionSummary{NotPurgeable: []v1alpha1.NotPurgeableDisk{{SerialNumber: "S1", WWN: "5000c500a1b2c3d4"}, {SerialNumber: "S2"}}}
		h.Storage.Keep = []wire.KeptDisk{k}
		g.Expect(NotPurgeable(h, found)).To(Equal(Unpurgeable{Disks: []v1alpha1.NotPurgeableDisk{{SerialNumber: "S2"}}}), "%+v", k)
	}
}

func TestDisks(t *testing.T) {
	g := NewWithT(t)
	report := &v1alpha1.BareMetalInspectionSpec{Inspection: wire.Inspection{Disks: []wire.InspectedDisk{
		{SerialNumber: "S1", WWN: "w1", ByPath: "p1", SizeBytes: 10}, {ByPath: "p2", SizeBytes: 10}, {SizeBytes: 10}, {SerialNumber: "empty"},
		{SerialNumber: "cd", ReadOnly: true, SizeBytes: 10}, {SerialNumber: "usb", Transport: wire.TransportUSB, SizeBytes: 10}, {SerialNumber: "sd", Removable: true, SizeBytes: 10},
		{SerialNumber: "kept", Protected: "spec.storage.keep names it", SizeBytes: 10},
	}}}
	g.Expect(Disks(report)).To(Equal([]wire.DiskIdentity{
		{SerialNumber: "S1", WWN: "w1", SizeBytes: 10}, {ByPath: "p2", SizeBytes: 10}, {SerialNumber: "kept", SizeBytes: 10},
	}))
	for range maxDisks {
		report.Disks = append(report.Disks, wire.InspectedDisk{SerialNumber: "more", SizeBytes: 10})
	}
	g.Expect(Disks(report)).To(BeEmpty(), "a part of the disks would make the others unexpected")
}
