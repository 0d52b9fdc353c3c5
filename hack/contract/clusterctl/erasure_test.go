package clusterctl

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	recording "github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// keyNamespace has the key of the proof. It is not moved.
const keyNamespace = "erasure-key"

// proof records an erasure of a host with the provider's recorder, and returns the record with the published keys.
func (s *story) proof(t *testing.T, host string) (*v1alpha1.BareMetalErasure, map[string]ed25519.PublicKey) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.source.Client.Create(s.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: keyNamespace}})).To(Succeed())
	h := &v1alpha1.BareMetalHost{}
	g.Expect(s.source.Client.Get(s.ctx, client.ObjectKey{Namespace: site.Namespace, Name: host}, h)).To(Succeed())
	now := metav1.Now().Rfc3339Copy()
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}, Spec: v1alpha1.BareMetalBootSpec{
		Purpose: v1alpha1.PurposeClean, ClaimID: "claim", Number: 1, MachineName: "m", AgentDoneTime: &now, CleaningPolicy: wire.PolicyClear,
		Erasure: &v1alpha1.ErasureReport{Policy: wire.PolicyClear, StartTime: now, EndTime: now, Disks: []v1alpha1.ErasedDisk{{DiskErasure: wire.DiskErasure{
			Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 1 << 40}, Outcome: wire.Erased, Method: "Overwrite with zeros", Class: wire.PolicyClear,
			Verification: &wire.ErasureVerification{Kind: "ReadBack", Passed: true, Bytes: 1 << 40},
		}}}},
	}}
	recorder := &recording.Recorder{Client: s.source.Client, APIReader: s.source.Client, Namespace: keyNamespace}
	g.Expect(recorder.Record(s.ctx, h, boot)).To(Succeed())
	record, config := &v1alpha1.BareMetalErasure{}, &corev1.ConfigMap{}
	g.Expect(s.source.Client.Get(s.ctx, client.ObjectKey{Namespace: h.Namespace, Name: erasure.Name(h.Name, "claim", 1)}, record)).To(Succeed())
	g.Expect(s.source.Client.Get(s.ctx, client.ObjectKey{Namespace: keyNamespace, Name: recording.PublicKeysConfigMap}, config)).To(Succeed())
	keys, err := erasure.ParsePublicKeys([]byte(config.Data[record.Spec.Signature.KeyID+".pem"]))
	g.Expect(err).NotTo(HaveOccurred())
	return record, keys
}

// proofMoved expects the record on the other side, where its signature is valid with the key of this side, and nothing of it here.
func (s *story) proofMoved(t *testing.T, record *v1alpha1.BareMetalErasure, keys map[string]ed25519.PublicKey) {
	t.Helper()
	g := NewWithT(t)
	moved := &v1alpha1.BareMetalErasure{}
	g.Expect(s.target.Client.Get(s.ctx, client.ObjectKeyFromObject(record), moved)).To(Succeed())
	g.Expect(erasure.Verify(&moved.Spec, keys[moved.Spec.Signature.KeyID])).To(Succeed())
	g.Expect(moved.Spec).To(Equal(record.Spec))
	g.Expect(moved.Labels).To(HaveKeyWithValue(v1alpha1.ErasureHostLabel, record.Labels[v1alpha1.ErasureHostLabel]))
	var left v1alpha1.BareMetalErasureList
	g.Expect(s.source.Client.List(s.ctx, &left)).To(Succeed())
	g.Expect(left.Items).To(BeEmpty())
}

// requestErasure requests that the disks of a free host are erased. The caller has stopped the provider: it sees the request when a move has paused the Cluster.
func (s *story) requestErasure(t *testing.T, host string) {
	t.Helper()
	g, h := NewWithT(t), &v1alpha1.BareMetalHost{}
	g.Expect(s.source.Client.Get(s.ctx, client.ObjectKey{Namespace: site.Namespace, Name: host}, h)).To(Succeed())
	s.requested = erasure.NewRequest(h, h.Status.Hardware.SerialNumber, wire.PolicyClear, time.Now().Add(24*time.Hour))
	g.Expect(s.source.Client.Create(s.ctx, s.requested)).To(Succeed())
}

// outcome is true once a request has a reason.
func (s *story) outcome(p *plane.Plane, request *v1alpha1.BareMetalErasureRequest, reason string) func(context.Context) error {
	return func(ctx context.Context) error {
		live := &v1alpha1.BareMetalErasureRequest{}
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(request), live); err != nil {
			return err
		}
		if got := conditions.GetReason(live, v1alpha1.ErasedCondition); got != reason {
			return fmt.Errorf("the request is %q: %s", got, conditions.GetMessage(live, v1alpha1.ErasedCondition))
		}
		return nil
	}
}

// requestStays expects that the move left the request where it was. The same request on the other side erases nothing: the host has another UID there.
func (s *story) requestStays(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	s.until(t, time.Minute, s.outcome(s.source, s.requested, v1alpha1.ReasonHostNotFound))
	var moved v1alpha1.BareMetalErasureRequestList
	g.Expect(s.target.Client.List(s.ctx, &moved)).To(Succeed())
	g.Expect(moved.Items).To(BeEmpty())
	copied := &v1alpha1.BareMetalErasureRequest{ObjectMeta: metav1.ObjectMeta{Namespace: s.requested.Namespace, Name: s.requested.Name}, Spec: s.requested.Spec}
	g.Expect(s.target.Client.Create(s.ctx, copied)).To(Succeed())
	s.until(t, time.Minute, s.outcome(s.target, copied, v1alpha1.ReasonHostRecreated))
}
