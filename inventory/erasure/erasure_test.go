package erasure_test

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// testKey returns the private key of a test. Equal numbers give equal keys, so that golden files have one signature.
func testKey(number byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = number
	return ed25519.NewKeyFromSeed(seed)
}

func publicKey(key ed25519.PrivateKey) ed25519.PublicKey {
	return key.Public().(ed25519.PublicKey)
}

func at(minute int) metav1.Time {
	return metav1.NewTime(time.Date(2026, 11, 25, 18, minute, 0, 0, time.UTC))
}

// purged returns a spec with two erased disks and one that was left out.
func purged() *v1alpha1.BareMetalErasureSpec {
	started, ended := at(1), at(2)
	return &v1alpha1.BareMetalErasureSpec{
		Namespace: "rack1", HostName: "server-1", ClaimID: "6d1e6a0e-1f3b-4c55-8a0f-5a4f0d6b7c11", BootNumber: 7, MachineName: "workers-x7k2",
		ProviderID: "baremetal://rack1/server-1/workers-x7k2", RecordedTime: at(10),
		Server: v1alpha1.ErasedServer{
			Manufacturer: "Example", Model: "R100", SerialNumber: "SYS0001", SystemUUID: "4c4c4544-0042-3510-8053-b4c04f4d3132", BootMACAddresses: []string{"52:54:00:00:00:01"},
		},
		Report: v1alpha1.ErasureReport{
			Policy: wire.PolicyPurge, StartTime: at(0), EndTime: at(9), AgentRelease: "v0.2.0", FirmwareMode: "UEFI", BootMethod: v1alpha1.MethodPXE, TLS: true, SecureBoot: "Enabled",
			Disks: []v1alpha1.ErasedDisk{
				{
					DiskErasure: wire.DiskErasure{
						Disk: wire.DiskIdentity{SerialNumber: "NVME0001", WWN: "eui.0025385b71b00001", ByPath: "pci-0000:01:00.0-nvme-1", SizeBytes: 3840755982336},
						Name: "nvme0n1", Model: "Fast \"4T\"", Vendor: "Drives", FirmwareVersion: "1.0", Transport: "NVMe", Outcome: wire.Erased,
						Method: "NVMe sanitize, crypto erase", Class: wire.PolicyPurge, Basis: "IEEE 2883-2022, 8.3",
						Verification: &wire.ErasureVerification{Kind: "Samples", Passed: true, Samples: 64, Bytes: 262144, Changed: 60, Unreadable: 4},
						Warnings:     []string{"it has replay protected memory blocks (RPMB), which no command erases"},
					},
					StartTime: &started, EndTime: &ended,
				},
				{DiskErasure: wire.DiskErasure{
					Disk: wire.DiskIdentity{SerialNumber: "HDD0001", SizeBytes: 1 << 40}, Name: "sda", Transport: "SATA", Outcome: wire.Erased,
					Method: "ATA sanitize, overwrite", Class: wire.PolicyPurge,
					Verification: &wire.ErasureVerification{Kind: "ReadBack", Passed: true, Bytes: 1 << 40, Blank: 64, Samples: 64},
				}},
				{DiskErasure: wire.DiskErasure{
					Disk: wire.DiskIdentity{ByPath: "pci-0000:00:1d.0-usb-1"}, Name: "sdb", Transport: "USB", Outcome: wire.LeftOut,
					Message: "spec.storage.keep names it", Warnings: []string{"it has LVM2_member, which the next system may assemble"},
				}},
			},
		},
	}
}

func signed(t rapid.TB, spec *v1alpha1.BareMetalErasureSpec) *v1alpha1.BareMetalErasureSpec {
	t.Helper()
	if err := erasure.Sign(spec, testKey(1)); err != nil {
		t.Fatal(err)
	}
	return spec
}

// TestCheck: an erasure that is not proven is refused, and the error names the disk.
func TestCheck(t *testing.T) {
	g := NewWithT(t)
	g.Expect(erasure.Check(&purged().Report)).To(Succeed())
	for name, test := range map[string]struct {
		change func(*v1alpha1.ErasureReport)
		disk   string
		reason string
	}{
		"no disk at all":      {func(r *v1alpha1.ErasureReport) { r.Disks = nil }, "", "no disk for the policy Purge"},
		"Clear without disks": {func(r *v1alpha1.ErasureReport) { r.Disks, r.Policy = nil, wire.PolicyClear }, "", "no disk for the policy Clear"},
		"no policy":           {func(r *v1alpha1.ErasureReport) { r.Policy = "" }, "", `the policy "" erases nothing`},
		"policy None":         {func(r *v1alpha1.ErasureReport) { r.Policy = wire.PolicyNone }, "", `the policy "None" erases nothing`},
		"policy Manual":       {func(r *v1alpha1.ErasureReport) { r.Policy = wire.PolicyManual }, "", `the policy "Manual" erases nothing`},
		"failed":              {func(r *v1alpha1.ErasureReport) { r.Disks[1].Outcome = "Failed" }, `with the serial number "HDD0001"`, `its outcome is "Failed"`},
		"no outcome":          {func(r *v1alpha1.ErasureReport) { r.Disks[2].Outcome = "" }, `"pci-0000:00:1d.0-usb-1"`, `its outcome is ""`},
		"not verified":        {func(r *v1alpha1.ErasureReport) { r.Disks[1].Verification = nil }, `with the serial number "HDD0001"`, "it was not verified"},
		"not passed":          {func(r *v1alpha1.ErasureReport) { r.Disks[1].Verification.Passed = false }, `with the serial number "HDD0001"`, "its verification did not pass"},
		"no method":           {func(r *v1alpha1.ErasureReport) { r.Disks[0].Method = "" }, `with the serial number "NVME0001"`, "the agent did not report the method"},
		"class below policy": {
			func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = wire.PolicyClear }, `with the serial number "NVME0001"`, `its class is "Clear", which is below the policy Purge`,
		},
		"no class": {func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = "" }, `with the serial number "NVME0001"`, `its class is ""`},
		"by WWN": {
			func(r *v1alpha1.ErasureReport) { r.Disks[0].Disk.SerialNumber, r.Disks[0].Class = "", "" }, `with the WWN "eui.0025385b71b00001"`, "its class",
		},
	} {
		report := purged().Report
		test.change(&report)
		err := erasure.Check(&report)
		var unproven *erasure.UnprovenError
		g.Expect(errors.As(err, &unproven)).To(BeTrue(), name)
		g.Expect(unproven.Disk).To(Equal(test.disk), name)
		g.Expect(unproven.Reason).To(ContainSubstring(test.reason), name)
		g.Expect(err.Error()).To(And(ContainSubstring(test.disk), ContainSubstring("is not proven")), name)
	}
	for name, change := range map[string]func(*v1alpha1.ErasureReport){
		"Metadata without disks": func(r *v1alpha1.ErasureReport) { r.Disks, r.Policy = nil, wire.PolicyMetadata },
		"more than the policy":   func(r *v1alpha1.ErasureReport) { r.Policy = wire.PolicyClear },
		"all are left out":       func(r *v1alpha1.ErasureReport) { r.Disks = r.Disks[2:] },
	} {
		report := purged().Report
		change(&report)
		g.Expect(erasure.Check(&report)).To(Succeed(), name)
	}
}

// TestName: names of records are valid, and differ where host, claim or number differ, also for the longest names.
func TestName(t *testing.T) {
	g := NewWithT(t)
	g.Expect(erasure.Name("server-1", "claim", 7)).To(Equal("server-1-3fc2dda05d-7"))
	seen := map[string]string{}
	long := strings.Repeat("a", 231)
	for _, host := range []string{"a", "a-b", long + ".", long + "bcd", long + ".bcd", strings.Repeat("b", 253)} {
		for _, claim := range []string{"c", "d"} {
			for _, number := range []int32{1, 2, 1<<31 - 1} {
				name := erasure.Name(host, claim, number)
				what := fmt.Sprint(host, claim, number)
				g.Expect(validation.IsDNS1123Subdomain(name)).To(BeEmpty(), name)
				g.Expect(seen).NotTo(HaveKey(name), what)
				seen[name] = what
			}
		}
		g.Expect(validation.IsValidLabelValue(erasure.HostLabel(strings.TrimRight(host, ".")))).To(BeEmpty())
	}
	g.Expect(erasure.HostLabel("server-1")).To(Equal("server-1"))
	g.Expect(erasure.HostLabel(strings.Repeat("a", 100))).NotTo(Equal(erasure.HostLabel(strings.Repeat("a", 101))))
}

// TestSuperseded: the current record and the one before it stay, and nothing of another host is deleted.
func TestSuperseded(t *testing.T) {
	g := NewWithT(t)
	record := func(host, name string, number int32, minute int) v1alpha1.BareMetalErasure {
		return v1alpha1.BareMetalErasure{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name},
			Spec:       v1alpha1.BareMetalErasureSpec{HostName: host, BootNumber: number, RecordedTime: at(minute)},
		}
	}
	names := func(records []v1alpha1.BareMetalErasure, current v1alpha1.BareMetalErasure) []string {
		out := []string{}
		for _, r := range erasure.Superseded(records, &current) {
			out = append(out, r.Name)
		}
		return out
	}
	a, b, c, d := record("h", "a", 1, 1), record("h", "b", 2, 2), record("h", "c", 3, 3), record("h", "d", 4, 4)
	other := record("i", "e", 1, 0)
	elsewhere := record("h", "f", 1, 0)
	elsewhere.Namespace = "m"
	g.Expect(names([]v1alpha1.BareMetalErasure{c, a, other, b, d, elsewhere}, d)).To(Equal([]string{"b", "a"}))
	g.Expect(names([]v1alpha1.BareMetalErasure{a, b}, b)).To(BeEmpty())
	g.Expect(names([]v1alpha1.BareMetalErasure{a}, a)).To(BeEmpty())
	g.Expect(names(nil, a)).To(BeEmpty())
	g.Expect(names([]v1alpha1.BareMetalErasure{a, b, c}, d)).To(Equal([]string{"b", "a"}), "the list is older than the record")
	again := record("h", "g", 1, 5)
	g.Expect(names([]v1alpha1.BareMetalErasure{c, d, again}, again)).To(Equal([]string{"c"}), "the host was registered again, and counts from 1")
	behind := record("h", "k", 5, 0)
	g.Expect(names([]v1alpha1.BareMetalErasure{c, d, behind}, behind)).To(Equal([]string{"c"}), "the clock went back: the current record stays")
}

// TestSupersededProperty: whatever exists, the current record is never deleted, and of the others of the host at most the last one stays.
func TestSupersededProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []v1alpha1.BareMetalErasure
		for i := range rapid.IntRange(1, 8).Draw(t, "records") {
			records = append(records, v1alpha1.BareMetalErasure{
				ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprint("r", i)},
				Spec: v1alpha1.BareMetalErasureSpec{
					HostName: rapid.SampledFrom([]string{"h", "i"}).Draw(t, "host"), RecordedTime: at(rapid.IntRange(0, 3).Draw(t, "minute")),
					BootNumber: rapid.Int32Range(1, 3).Draw(t, "number"),
				},
			})
		}
		current := rapid.SampledFrom(records).Draw(t, "current")
		others, deleted := 0, erasure.Superseded(records, &current)
		for _, r := range records {
			if r.Spec.HostName == current.Spec.HostName && r.Name != current.Name {
				others++
			}
		}
		if len(deleted) != max(0, others-1) {
			t.Fatalf("%d of %d others are deleted", len(deleted), others)
		}
		for _, r := range deleted {
			if r.Name == current.Name || r.Spec.HostName != current.Spec.HostName {
				t.Fatalf("%s is deleted", r.Name)
			}
			for _, stays := range records {
				gone := false
				for _, d := range deleted {
					gone = gone || d.Name == stays.Name
				}
				if !gone && stays.Name != current.Name && stays.Spec.HostName == r.Spec.HostName && stays.Spec.RecordedTime.Time.Before(r.Spec.RecordedTime.Time) {
					t.Fatalf("%s is deleted, and the older %s stays", r.Name, stays.Name)
				}
			}
		}
	})
}
