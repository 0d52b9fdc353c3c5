package erasure_test

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// validations are the rules of the CRD about a report, by their messages, each with a change of a good report that breaks it.
var validations = map[string]func(*v1alpha1.ErasureReport){
	"report.policy must be Metadata, Clear or Purge: the other policies erase nothing":              func(r *v1alpha1.ErasureReport) { r.Policy = wire.PolicyManual },
	"an erasure with the policy Clear or Purge needs the disks that it was about":                   func(r *v1alpha1.ErasureReport) { r.Disks = nil },
	"an erasure with the policy Purge cannot have a disk with the outcome Erased and another class": func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = wire.PolicyClear },
	"an erasure with the policy Clear cannot have a disk with the outcome Erased and a class other than Clear or Purge": func(r *v1alpha1.ErasureReport) {
		r.Policy, r.Disks[0].Class = wire.PolicyClear, wire.PolicyMetadata
	},
	"a disk with the outcome Erased needs a verification that passed": func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification.Passed = false },
	"a disk with the outcome Erased needs method and class":           func(r *v1alpha1.ErasureReport) { r.Disks[0].Method = "" },
}

// schema are changes of a good report that break the schema of the CRD.
var schema = map[string]func(*v1alpha1.ErasureReport){
	"an unknown policy":               func(r *v1alpha1.ErasureReport) { r.Policy = "Shred" },
	"a disk without an identity":      func(r *v1alpha1.ErasureReport) { r.Disks[0].Disk = wire.DiskIdentity{} },
	"a left disk without an identity": func(r *v1alpha1.ErasureReport) { r.Disks[2].Disk = wire.DiskIdentity{} },
	"no outcome":                      func(r *v1alpha1.ErasureReport) { r.Disks[0].Outcome = "" },
	"an unknown outcome":              func(r *v1alpha1.ErasureReport) { r.Disks[0].Outcome = "Failed" },
	"no class":                        func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = "" },
	"an unknown class":                func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = "Shred" },
	"no verification":                 func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification = nil },
	"no kind of verification":         func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification.Kind = "" },
	"an unknown kind of verification": func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification.Kind = "Guess" },
}

// TestJudgeRefusesWhatTheCRDRefuses: the judge has each rule of the CRD, so nothing is signed that the API server would refuse.
func TestJudgeRefusesWhatTheCRDRefuses(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../config/crd/bases/infrastructure.cluster.x-k8s.io_baremetalerasures.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal(content, &crd)).To(Succeed())
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	disk := spec.Properties["report"].Properties["disks"].Items.Schema
	rules := 0
	for _, rule := range append(spec.XValidations, disk.XValidations...) {
		if rule.Rule == "self == oldSelf" {
			continue // is about the record, and not about the report
		}
		g.Expect(validations).To(HaveKey(rule.Message))
		rules++
	}
	g.Expect(rules).To(Equal(len(validations)))
	for _, table := range []map[string]func(*v1alpha1.ErasureReport){validations, schema} {
		for name, change := range table {
			report := purged().Report
			g.Expect(erasure.Check(&report)).To(Succeed())
			change(&report)
			g.Expect(erasure.Check(&report)).NotTo(Succeed(), name)
		}
	}
}

// TestUnprovenIsStricterThanTheCRD: a disk that only its size identifies is not proven to be erased, also if its class reaches the policy Metadata.
func TestUnprovenIsStricterThanTheCRD(t *testing.T) {
	g := NewWithT(t)
	d := purged().Report.Disks[0].DiskErasure
	g.Expect(erasure.Unproven(&d, wire.PolicyMetadata)).To(BeEmpty())
	d.Disk = wire.DiskIdentity{SizeBytes: 1}
	g.Expect(erasure.Unproven(&d, wire.PolicyMetadata)).To(Equal("it cannot be identified"))
	d.Outcome = wire.LeftOut
	g.Expect(erasure.Unproven(&d, wire.PolicyMetadata)).To(BeEmpty())
}
