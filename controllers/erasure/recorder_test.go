package erasure_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	recording "github.com/capbm-io/cluster-api-provider-baremetal/controllers/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// site is a namespace with hosts, and a Recorder whose key is in a namespace of its own.
type site struct {
	namespace string
	clock     *clocktesting.FakePassiveClock
	*recording.Recorder
}

func newSite(t *testing.T) *site {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 25, 18, 0, 0, 123456789, time.UTC))
	return &site{env.Namespace(t), clock, &recording.Recorder{Client: env.Client, APIReader: env.Client, Namespace: env.Namespace(t), Clock: clock}}
}

// over returns a Recorder of the same site whose requests pass through functions that may fail.
func (s *site) over(t *testing.T, funcs interceptor.Funcs) *recording.Recorder {
	t.Helper()
	direct, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	c := interceptor.NewClient(direct, funcs)
	return &recording.Recorder{Client: c, APIReader: c, Namespace: s.Namespace, Clock: s.clock}
}

// erased returns a host and its boot in which the agent purged one disk.
func (s *site) erased(name string, number int32) (*v1alpha1.BareMetalHost, *v1alpha1.BareMetalBoot) {
	at := metav1.NewTime(time.Date(2026, 11, 25, 17, 0, 0, 0, time.UTC))
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{"52:54:00:00:00:01"}},
		Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{
			Manufacturer: "Example", Model: "R100", SerialNumber: "SYS0001", SystemUUID: "4c4c4544-0042-3510-8053-b4c04f4d3132",
		}},
	}
	boot := &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1alpha1.BareMetalBootSpec{
			Purpose: v1alpha1.PurposeClean, ClaimID: "claim", Number: number, MachineName: "m", Agent: true, AgentDoneTime: &at, CleaningPolicy: wire.PolicyPurge,
			Erasure: &v1alpha1.ErasureReport{Policy: wire.PolicyPurge, StartTime: at, EndTime: at, AgentRelease: "v0.2.0", TLS: true, Disks: []v1alpha1.ErasedDisk{{DiskErasure: wire.DiskErasure{
				Disk: wire.DiskIdentity{SerialNumber: "NVME0001"}, Outcome: wire.Erased, Method: "NVMe sanitize, crypto erase", Class: wire.PolicyPurge,
				Verification: &wire.ErasureVerification{Kind: "Samples", Passed: true, Samples: 64},
			}}}},
		},
	}
	return host, boot
}

// records returns the records of the site, the newest first.
func (s *site) records(t *testing.T) []v1alpha1.BareMetalErasure {
	t.Helper()
	var list v1alpha1.BareMetalErasureList
	NewWithT(t).Expect(env.Client.List(t.Context(), &list, client.InNamespace(s.namespace))).To(Succeed())
	erasure.SortNewestFirst(list.Items)
	return list.Items
}

func (s *site) numbers(t *testing.T) []int32 {
	t.Helper()
	out := []int32{}
	for _, r := range s.records(t) {
		out = append(out, r.Spec.BootNumber)
	}
	return out
}

func (s *site) published(t *testing.T) map[string]string {
	t.Helper()
	config := &corev1.ConfigMap{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: recording.PublicKeysConfigMap}, config)).To(Succeed())
	return config.Data
}

// verified verifies a record with the published keys.
func (s *site) verified(t *testing.T, record *v1alpha1.BareMetalErasure) error {
	t.Helper()
	keys, err := erasure.ParsePublicKeys([]byte(s.published(t)[record.Spec.Signature.KeyID+".pem"]))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return erasure.Verify(&record.Spec, keys[record.Spec.Signature.KeyID])
}

// TestRecord: an erasure is recorded once, with what is known of the server, and its signature is valid with the published key.
func TestRecord(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	host, boot := s.erased("h", 3)
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	records := s.records(t)
	g.Expect(records).To(HaveLen(1))
	r := &records[0]
	g.Expect(r.Name).To(Equal(erasure.Name("h", "claim", 3)))
	g.Expect(r.Labels).To(HaveKeyWithValue(v1alpha1.ErasureHostLabel, "h"))
	g.Expect(r.OwnerReferences).To(BeEmpty(), "a proof outlives the host")
	g.Expect(r.Finalizers).To(BeEmpty())
	g.Expect(r.Spec.Server).To(Equal(v1alpha1.ErasedServer{
		Manufacturer: "Example", Model: "R100", SerialNumber: "SYS0001", SystemUUID: "4c4c4544-0042-3510-8053-b4c04f4d3132", BootMACAddresses: []string{"52:54:00:00:00:01"},
	}))
	g.Expect([]string{r.Spec.Namespace, r.Spec.HostName, r.Spec.MachineName, r.Spec.ProviderID, r.Spec.ClaimID}).To(Equal(
		[]string{s.namespace, "h", "m", "baremetal://" + s.namespace + "/h/m", "claim"}))
	g.Expect(s.verified(t, r)).To(Succeed(), "what the API server stored has the bytes that were signed")

	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	host.Status = v1alpha1.BareMetalHostStatus{}
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed(), "the same erasure, also after the status was lost")
	g.Expect(s.records(t)).To(Equal(records), "nothing was written")
	host.Namespace = "elsewhere"
	g.Expect(s.Record(t.Context(), host, boot)).To(MatchError(ContainSubstring("belongs to another host")))
}

// TestUnproven: what proves no erasure is not recorded, and the error is permanent.
func TestUnproven(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalBootSpec)
		says   string
	}{
		"another purpose": {func(b *v1alpha1.BareMetalBootSpec) { b.Purpose = v1alpha1.PurposeInspect }, `the purpose "Inspect"`},
		"no claim":        {func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "" }, "no claimID"},
		"no boot":         {func(b *v1alpha1.BareMetalBootSpec) { b.Number = 0 }, "no number"},
		"failed": {func(b *v1alpha1.BareMetalBootSpec) {
			b.Failure = &v1alpha1.BootFailure{Reason: "X", Message: "the agent failed"}
		}, "the agent failed"},
		"not done":         {func(b *v1alpha1.BareMetalBootSpec) { b.AgentDoneTime = nil }, "reported no erasure"},
		"no report":        {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure = nil }, "reported no erasure"},
		"not verified":     {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure.Disks[0].Verification.Passed = false }, `"NVME0001" is not proven: its verification did not pass`},
		"a failed disk":    {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure.Disks[0].Outcome = "Failed" }, `"NVME0001"`},
		"no disks":         {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure.Disks = nil }, "no disk"},
		"another policy":   {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure.Policy = wire.PolicyMetadata }, `boot 1 has the policy "Purge", and its report "Metadata"`},
		"no policy":        {func(b *v1alpha1.BareMetalBootSpec) { b.CleaningPolicy = "" }, "has the policy \"\", and its report \"Purge\""},
		"less than wanted": {func(b *v1alpha1.BareMetalBootSpec) { b.Erasure.Disks[0].Class = wire.PolicyClear }, "below the policy"},
	} {
		host, boot := s.erased("h", 1)
		test.change(&boot.Spec)
		err := s.Record(t.Context(), host, boot)
		var unproven *erasure.UnprovenError
		g.Expect(errors.As(err, &unproven)).To(BeTrue(), "%s: %v", name, err)
		g.Expect(err).To(MatchError(ContainSubstring(test.says)), name)
	}
	g.Expect(s.records(t)).To(BeEmpty())
}

// TestUnprovenIsRefused: the API server accepts no record of an erasure that is not proven, from any user, and no change of a record.
func TestUnprovenIsRefused(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	host, boot := s.erased("h", 1)
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	genuine := s.records(t)[0]
	for name, test := range map[string]struct {
		change func(*v1alpha1.ErasureReport)
		says   string
	}{
		"failed":       {func(r *v1alpha1.ErasureReport) { r.Disks[0].Outcome = "Failed" }, "Unsupported value"},
		"not verified": {func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification = nil }, "needs a verification that passed"},
		"not passed":   {func(r *v1alpha1.ErasureReport) { r.Disks[0].Verification.Passed = false }, "needs a verification that passed"},
		"no method":    {func(r *v1alpha1.ErasureReport) { r.Disks[0].Method = "" }, "needs method and class"},
		"class":        {func(r *v1alpha1.ErasureReport) { r.Disks[0].Class = wire.PolicyClear }, "the policy Purge cannot have"},
		"class of Clear": {
			func(r *v1alpha1.ErasureReport) {
				r.Policy, r.Disks[0].Class = wire.PolicyClear, wire.PolicyMetadata
			}, "the policy Clear cannot have",
		},
		"no disks":          {func(r *v1alpha1.ErasureReport) { r.Disks = nil }, "needs the disks"},
		"no disks of Clear": {func(r *v1alpha1.ErasureReport) { r.Disks, r.Policy = nil, wire.PolicyClear }, "needs the disks"},
		"policy":            {func(r *v1alpha1.ErasureReport) { r.Policy = wire.PolicyNone }, "must be Metadata, Clear or Purge"},
	} {
		forged := &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "forged"}, Spec: *genuine.Spec.DeepCopy()}
		test.change(&forged.Spec.Report)
		g.Expect(env.Client.Create(t.Context(), forged)).To(MatchError(ContainSubstring(test.says)), name)
	}
	for name, change := range map[string]func(*v1alpha1.BareMetalErasure){
		"a field":       func(r *v1alpha1.BareMetalErasure) { r.Spec.Server.SerialNumber = "SYS0002" },
		"a removal":     func(r *v1alpha1.BareMetalErasure) { r.Spec.Server = v1alpha1.ErasedServer{} },
		"the signature": func(r *v1alpha1.BareMetalErasure) { r.Spec.Signature.Value = strings.Repeat("A", 86) + "==" },
	} {
		changed := genuine.DeepCopy()
		change(changed)
		g.Expect(env.Client.Update(t.Context(), changed)).To(MatchError(ContainSubstring("spec is immutable")), name)
	}
	withoutSpec := client.RawPatch("application/merge-patch+json", []byte(`{"spec":null}`))
	g.Expect(env.Client.Patch(t.Context(), genuine.DeepCopy(), withoutSpec)).To(MatchError(ContainSubstring("spec: Required value")))
	moved := genuine.DeepCopy()
	metav1.SetMetaDataAnnotation(&moved.ObjectMeta, v1alpha1.DeleteForMoveAnnotation, "")
	g.Expect(env.Client.Update(t.Context(), moved)).To(Succeed(), "clusterctl move sets this before it deletes a record")
}

// TestPruning: the last two records of a host stay. A crash between the two writes, or a deletion that is refused, is made up for by the next call.
func TestPruning(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	record := func(with *recording.Recorder, name string, number int32) error {
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		host, boot := s.erased(name, number)
		return with.Record(t.Context(), host, boot)
	}
	g.Expect(record(s.Recorder, "other", 1)).To(Succeed())
	for n := range int32(3) {
		g.Expect(record(s.Recorder, "h", n+1)).To(Succeed())
	}
	g.Expect(s.numbers(t)).To(Equal([]int32{3, 2, 1}), "two of h, and that of the other host")

	crashed := s.over(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("the API server is away")
	}})
	g.Expect(record(crashed, "h", 4)).To(Succeed(), "the proof exists")
	g.Expect(s.numbers(t)).To(Equal([]int32{4, 3, 2, 1}))
	refused := s.over(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
		return errors.New("a policy forbids it")
	}})
	g.Expect(record(refused, "h", 4)).To(Succeed(), "a policy that protects proofs keeps no host")
	g.Expect(s.numbers(t)).To(Equal([]int32{4, 3, 2, 1}))
	g.Expect(record(s.Recorder, "h", 4)).To(Succeed())
	g.Expect(s.numbers(t)).To(Equal([]int32{4, 3, 1}))
	g.Expect(record(s.Recorder, "h", 1)).To(Succeed(), "the host was registered again")
	g.Expect(s.numbers(t)).To(Equal([]int32{1, 4, 1}))
}

// TestPausedCluster: an erasure is recorded while a Cluster of the namespace is paused, and nothing is deleted.
func TestPausedCluster(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "c"},
		Spec: clusterv1.ClusterSpec{Paused: new(true), InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: "c",
		}},
	}
	env.Create(t, cluster)
	record := func(number int32) {
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		host, boot := s.erased("h", number)
		g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	}
	for n := range int32(4) {
		record(n + 1)
	}
	g.Expect(s.numbers(t)).To(Equal([]int32{4, 3, 2, 1}))
	controllerstest.Modify(t, env, cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	record(4)
	g.Expect(s.numbers(t)).To(Equal([]int32{4, 3}))
}

// TestKey: the key is created once, its public key is published before the first record, and records of earlier keys remain valid.
func TestKey(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	host, boot := s.erased("h", 1)
	order := []string{}
	watched := s.over(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		order = append(order, o.GetName())
		return c.Create(ctx, o, opts...)
	}})
	g.Expect(watched.Record(t.Context(), host, boot)).To(Succeed())
	g.Expect(order).To(Equal([]string{recording.KeySecret, recording.PublicKeysConfigMap, erasure.Name("h", "claim", 1)}))
	secret := &corev1.Secret{}
	name := client.ObjectKey{Namespace: s.Namespace, Name: recording.KeySecret}
	g.Expect(env.Client.Get(t.Context(), name, secret)).To(Succeed())
	g.Expect(secret.Type).To(Equal(corev1.SecretTypeOpaque))

	g.Expect(env.Client.Delete(t.Context(), secret)).To(Succeed(), "somebody lost it")
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed(), "the record of the lost key is known by its public key")
	s.clock.SetTime(s.clock.Now().Add(time.Minute))
	_, boot = s.erased("h", 2)
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	records := s.records(t)
	g.Expect(records).To(HaveLen(2))
	g.Expect(records[0].Spec.Signature.KeyID).NotTo(Equal(records[1].Spec.Signature.KeyID))
	g.Expect(s.published(t)).To(HaveLen(2))
	for i := range records {
		g.Expect(s.verified(t, &records[i])).To(Succeed())
	}
	// Somebody changes the published key: it is corrected before the next record.
	own := records[0].Spec.Signature.KeyID + ".pem"
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: recording.PublicKeysConfigMap}}
	controllerstest.Modify(t, env, config, func(c *corev1.ConfigMap) { c.Data[own], c.Data["note"] = "none", "of a user" })
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	g.Expect(s.published(t)).To(And(HaveKeyWithValue(own, ContainSubstring("PUBLIC KEY")), HaveKeyWithValue("note", "of a user"), HaveLen(3)))

	g.Expect(env.Client.Get(t.Context(), name, secret)).To(Succeed())
	controllerstest.Modify(t, env, secret, func(s *corev1.Secret) { s.Data[recording.PrivateKeyName] = []byte("a broken secret") })
	err := s.Record(t.Context(), host, boot)
	g.Expect(err).To(MatchError(And(ContainSubstring("no PEM block"), ContainSubstring("delete the Secret"), ContainSubstring(recording.KeySecret))))
	g.Expect(err.Error()).NotTo(ContainSubstring("a broken secret"))
	var unproven *erasure.UnprovenError
	g.Expect(errors.As(err, &unproven)).To(BeFalse(), "it ends when the key is corrected")
}

// TestKeyOfAnother: two managers that create the key at once sign with the same key.
func TestKeyOfAnother(t *testing.T) {
	g := NewWithT(t)
	s := newSite(t)
	first, boot := s.erased("first", 1)
	other, otherBoot := s.erased("other", 1)
	raced := s.over(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if o.GetName() == recording.KeySecret || o.GetName() == recording.PublicKeysConfigMap {
			g.Expect(s.Record(ctx, other, otherBoot)).To(Succeed(), "between the read and the write")
		}
		return c.Create(ctx, o, opts...)
	}})
	g.Expect(raced.Record(t.Context(), first, boot)).To(Succeed())
	records := s.records(t)
	g.Expect(records).To(HaveLen(2))
	g.Expect(records[0].Spec.Signature.KeyID).To(Equal(records[1].Spec.Signature.KeyID))
	g.Expect(s.published(t)).To(HaveLen(1))
}

// TestForeignRecord: a record that exists under the name, and that the provider did not sign or that says something else, is no success.
func TestForeignRecord(t *testing.T) {
	g := NewWithT(t)
	s, elsewhere := newSite(t), newSite(t)
	host, boot := s.erased("h", 1)
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
	genuine := s.records(t)[0]
	replace := func(spec v1alpha1.BareMetalErasureSpec) {
		g.Expect(env.Client.Delete(t.Context(), &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: genuine.Name}})).To(Succeed())
		env.Create(t, &v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: genuine.Name, Labels: genuine.Labels}, Spec: spec})
	}
	forged := *genuine.Spec.DeepCopy()
	forged.Report.Disks[0].Disk.SerialNumber = "NVME0002"
	replace(forged)
	g.Expect(s.Record(t.Context(), host, boot)).To(MatchError(ContainSubstring("has another content than the boot")))
	forged = *genuine.Spec.DeepCopy()
	forged.Server.SerialNumber = "SYS0002"
	replace(forged)
	g.Expect(s.Record(t.Context(), host, boot)).To(MatchError(erasure.ErrSignature))

	// The same record with the signature of another management cluster, whose public key a user then adds.
	key := &corev1.Secret{}
	g.Expect(elsewhere.Record(t.Context(), host, boot)).NotTo(Succeed(), "it finds the forged record, and has a key now")
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: elsewhere.Namespace, Name: recording.KeySecret}, key)).To(Succeed())
	private, err := erasure.ParsePrivateKey(key.Data[recording.PrivateKeyName])
	g.Expect(err).NotTo(HaveOccurred())
	moved := *genuine.Spec.DeepCopy()
	g.Expect(erasure.Sign(&moved, private)).To(Succeed())
	replace(moved)
	g.Expect(s.Record(t.Context(), host, boot)).To(MatchError(ContainSubstring("add the public key of the management cluster")))
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: recording.PublicKeysConfigMap}}
	id := moved.Signature.KeyID
	controllerstest.Modify(t, env, config, func(c *corev1.ConfigMap) { c.Data["by-another-name.pem"] = elsewhere.published(t)[id+".pem"] })
	g.Expect(s.Record(t.Context(), host, boot)).NotTo(Succeed(), "the name is not its ID")
	controllerstest.Modify(t, env, config, func(c *corev1.ConfigMap) { c.Data[id+".pem"] = elsewhere.published(t)[id+".pem"] })
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
}

// TestUnavailable: whatever request fails, Record fails, and the next call succeeds. Nothing is recorded without a published key.
func TestUnavailable(t *testing.T) {
	g := NewWithT(t)
	away := apierrors.NewServiceUnavailable("away")
	s := newSite(t)
	host, boot := s.erased("h", 1)
	for kind, o := range map[string]client.Object{"Secret": &corev1.Secret{}, "ConfigMap": &corev1.ConfigMap{}, "record": &v1alpha1.BareMetalErasure{}} {
		is := func(other client.Object) bool {
			switch o.(type) {
			case *corev1.Secret:
				_, same := other.(*corev1.Secret)
				return same
			case *corev1.ConfigMap:
				_, same := other.(*corev1.ConfigMap)
				return same
			default:
				_, same := other.(*v1alpha1.BareMetalErasure)
				return same
			}
		}
		failing := s.over(t, interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, name client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if is(o) {
					return away
				}
				return c.Get(ctx, name, o, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if is(o) {
					return away
				}
				return c.Create(ctx, o, opts...)
			},
		})
		g.Expect(failing.Record(t.Context(), host, boot)).To(MatchError(apierrors.IsServiceUnavailable, "IsServiceUnavailable"), kind)
		g.Expect(s.records(t)).To(BeEmpty(), kind)
	}
	g.Expect(s.Record(t.Context(), host, boot)).To(Succeed())
}
