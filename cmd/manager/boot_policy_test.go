package main

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
)

// TestBootPolicyAccounts: the policies for boot servers match the ServiceAccounts of boot servers, and not that of the bootstrap provider: it could neither
// create bootstrap data nor take part in a leader election.
func TestBootPolicyAccounts(t *testing.T) {
	g := NewWithT(t)
	quoted := regexp.MustCompile(`^request\.userInfo\.username\.matches\('(.*)'\)$`)
	var policies int
	for _, o := range build(t, "rbac") {
		if o.GetKind() != "ValidatingAdmissionPolicy" || !strings.HasPrefix(o.GetName(), "capbm-system-boot") {
			continue
		}
		policies++
		var policy admissionv1.ValidatingAdmissionPolicy
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &policy)).To(Succeed())
		g.Expect(policy.Spec.MatchConditions).To(HaveLen(1))
		expression := quoted.FindStringSubmatch(policy.Spec.MatchConditions[0].Expression)
		g.Expect(expression).To(HaveLen(2), o.GetName())
		matches := regexp.MustCompile(expression[1]) // CEL has the syntax of Go
		for account, want := range map[string]bool{
			"capbm-system:capbm-boot": true, "elsewhere:capbm-boot": true, "capbm-system:capbm-boot-rack-2": true,
			"capbm-bootstrap-system:capbm-bootstrap-manager": false, "capbm-system:capbm-manager": false,
		} {
			g.Expect(matches.MatchString("system:serviceaccount:"+account)).To(Equal(want), "%s: %s", o.GetName(), account)
		}
	}
	g.Expect(policies).To(Equal(4))
}

// someKey has the form of the digest of a key.
var someKey = strings.Repeat("k", 43)

// denied checks what RBAC allows and the ValidatingAdmissionPolicy denies the boot server: to change which boot a record is of, and of which machine.
// booted is a boot that the boot server served.
func denied(t *testing.T, c client.Client, booted *v1alpha1.BareMetalBoot) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(booted), booted)).To(Succeed())
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	free := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{
		Namespace: booted.Namespace, Name: "free", Finalizers: []string{v1alpha1.BootFinalizer}, OwnerReferences: booted.OwnerReferences,
		Labels: map[string]string{"example.com/x": "a-label"}, Annotations: map[string]string{"example.com/x": "an annotation"},
	}}
	env.Create(t, free)
	t.Cleanup(func() {
		NewWithT(t).Expect(env.Client.Patch(context.Background(), free, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	})
	for what, change := range map[string]func(*v1alpha1.BareMetalBoot){
		"finalizers, none":    func(b *v1alpha1.BareMetalBoot) { b.Finalizers = nil },
		"finalizers, another": func(b *v1alpha1.BareMetalBoot) { b.Finalizers = append(b.Finalizers, "example.com/keep") },
		"owners, none":        func(b *v1alpha1.BareMetalBoot) { b.OwnerReferences = nil },
		"owners, another":     func(b *v1alpha1.BareMetalBoot) { b.OwnerReferences[0].UID = "another" },
		"labels":              func(b *v1alpha1.BareMetalBoot) { b.Labels = map[string]string{v1alpha1.DetachedAnnotation: "mine"} },
		"annotations": func(b *v1alpha1.BareMetalBoot) {
			b.Annotations = map[string]string{v1alpha1.DeleteForMoveAnnotation: ""}
		},
		"number":      func(b *v1alpha1.BareMetalBoot) { b.Spec.Number++ },
		"attempt":     func(b *v1alpha1.BareMetalBoot) { b.Spec.Attempt++ },
		"purpose":     func(b *v1alpha1.BareMetalBoot) { b.Spec.Purpose = "Clean" },
		"claimID":     func(b *v1alpha1.BareMetalBoot) { b.Spec.ClaimID = "another" },
		"identity":    func(b *v1alpha1.BareMetalBoot) { b.Spec.Identity = &v1alpha1.HostIdentity{BMC: "another"} },
		"machineName": func(b *v1alpha1.BareMetalBoot) { b.Spec.MachineName = "another" },
		"erasureRequest": func(b *v1alpha1.BareMetalBoot) {
			b.Spec.ErasureRequest = &v1alpha1.BootErasureRequest{Name: "another", SerialNumber: "another"}
		},
		"startTime":         func(b *v1alpha1.BareMetalBoot) { b.Spec.StartTime = metav1.NewTime(now.Add(time.Hour)) },
		"poweredOffTime":    func(b *v1alpha1.BareMetalBoot) { b.Spec.PoweredOffTime = new(metav1.NewTime(now.Add(time.Hour))) },
		"poweredOnTime":     func(b *v1alpha1.BareMetalBoot) { b.Spec.PoweredOnTime = new(metav1.NewTime(now.Add(time.Hour))) },
		"commitAllowedTime": func(b *v1alpha1.BareMetalBoot) { b.Spec.CommitAllowedTime = &now },
		"agentDoneTime":     func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentDoneTime = &now },
		"agentSecureBoot":   func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentSecureBoot = wire.SecureBootEnabled },
		"agent":             func(b *v1alpha1.BareMetalBoot) { b.Spec.Agent = true },
		"committedNumber":   func(b *v1alpha1.BareMetalBoot) { b.Spec.CommittedNumber = 1 },
		"voidedTime":        func(b *v1alpha1.BareMetalBoot) { b.Spec.VoidedTime = &now },
		"cleaningPolicy":    func(b *v1alpha1.BareMetalBoot) { b.Spec.CleaningPolicy = wire.PolicyClear },
		"method":            func(b *v1alpha1.BareMetalBoot) { b.Spec.Method = v1alpha1.MethodVirtualMedia },
		"agentKey":          func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentKey = someKey },
		"erasure": func(b *v1alpha1.BareMetalBoot) {
			b.Spec.Erasure = &v1alpha1.ErasureReport{Policy: wire.PolicyMetadata, StartTime: now, EndTime: now}
		},
	} {
		// The API server denies some of these to every user. A boot that was not started shows what the policy does.
		for name, before := range map[string]*v1alpha1.BareMetalBoot{"booted": booted, "free": free} {
			changed := before.DeepCopy()
			change(changed)
			byItself := env.Client.Patch(t.Context(), changed.DeepCopy(), client.MergeFrom(before), client.DryRunAll)
			err := c.Patch(t.Context(), changed, client.MergeFrom(before), client.DryRunAll)
			field, _, _ := strings.Cut(what, ",")
			if byItself != nil {
				g.Expect(name).To(Equal("booted"), "%s: %v", what, byItself)
				g.Expect(err).To(HaveOccurred(), what)
				continue
			}
			g.Expect(err).To(MatchError(And(ContainSubstring("denied request"), ContainSubstring("the boot server must not change"), ContainSubstring(field))), "%s of %s", what, name)
		}
	}
}

// deniedOnceWritten checks which fields of a boot stay as they were written, by the policy or by the CRD. booted is a boot whose operating system reported
// in.
func deniedOnceWritten(t *testing.T, c client.Client, booted *v1alpha1.BareMetalBoot) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(booted), booted)).To(Succeed())
	later := metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second))
	const byCRD = "are immutable once they are set"
	for _, test := range []struct {
		what, says string
		change     func(*v1alpha1.BareMetalBootSpec)
	}{
		{"fail", "must not change failure", func(s *v1alpha1.BareMetalBootSpec) { s.Failure = &v1alpha1.BootFailure{Reason: "Any", Message: "any"} }},
		{"reported later", "must not change reportedTime", func(s *v1alpha1.BareMetalBootSpec) { s.ReportedTime = &later }},
		{"not reported", "must not change reportedTime", func(s *v1alpha1.BareMetalBootSpec) { s.ReportedTime = nil }},
		{"reported from elsewhere", "must not change reportAddress", func(s *v1alpha1.BareMetalBootSpec) { s.ReportAddress = "192.0.2.1" }},
		{"reported from nowhere", "must not change reportAddress", func(s *v1alpha1.BareMetalBootSpec) { s.ReportAddress = "" }},
		{"another DHCP request", "must not change dhcpTime", func(s *v1alpha1.BareMetalBootSpec) { s.DHCPTime = &later }},
		{"no DHCP request", "must not change dhcpTime", func(s *v1alpha1.BareMetalBootSpec) { s.DHCPTime = nil }},
		{"script not served", byCRD, func(s *v1alpha1.BareMetalBootSpec) { s.ScriptAddress = "" }},
		{"data bound to nobody", byCRD, func(s *v1alpha1.BareMetalBootSpec) { s.DataAddress = "" }},
		{"a key after the address", "must not change agentKey", func(s *v1alpha1.BareMetalBootSpec) { s.AgentKey = someKey }},
		{"data not served", byCRD, func(s *v1alpha1.BareMetalBootSpec) { s.DataServedTime = nil }},
	} {
		changed := booted.DeepCopy()
		test.change(&changed.Spec)
		byItself := env.Client.Patch(t.Context(), changed.DeepCopy(), client.MergeFrom(booted), client.DryRunAll)
		g.Expect(byItself != nil).To(Equal(strings.HasSuffix(test.says, byCRD)), "%s: %v", test.what, byItself)
		err := c.Patch(t.Context(), changed, client.MergeFrom(booted), client.DryRunAll)
		g.Expect(err).To(MatchError(ContainSubstring(test.says)), test.what)
	}
	// A boot server that decided to fail the boot just before the report decides again.
	older := booted.DeepCopy()
	older.ResourceVersion = "1"
	failed := older.DeepCopy()
	failed.Spec.Failure = &v1alpha1.BootFailure{Reason: "Any", Message: "any"}
	err := c.Patch(t.Context(), failed, client.MergeFromWithOptions(older, client.MergeFromWithOptimisticLock{}), client.DryRunAll)
	g.Expect(err).To(MatchError(apierrors.IsConflict, "a conflict"))
}

// deniedStages checks that the boot server can neither add nor remove the stage NodeLost of a boot.
func deniedStages(t *testing.T, c client.Client, booted *v1alpha1.BareMetalBoot) {
	t.Helper()
	g := NewWithT(t)
	ctx, key := t.Context(), client.ObjectKeyFromObject(booted)
	g.Expect(env.Client.Get(ctx, key, booted)).To(Succeed())
	const says = "the boot server must not change the stage NodeLost"
	lost := controllers.NewStage(booted, v1alpha1.StageNodeLost)
	g.Expect(controllers.ApplyStages(ctx, c, booted, lost)).To(MatchError(ContainSubstring(says)))
	g.Expect(controllers.ApplyStages(ctx, c, booted, controllers.NewStage(booted, v1alpha1.StageRestarted))).To(Succeed())
	g.Expect(controllers.ApplyStages(ctx, env.Client, booted, lost)).To(Succeed())
	g.Expect(c.Status().Patch(ctx, booted.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"stages":null}}`)))).To(MatchError(ContainSubstring(says)))
	g.Expect(c.Status().Patch(ctx, booted.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":null}`)))).To(MatchError(ContainSubstring(says)))
	g.Expect(controllers.ApplyStages(ctx, c, booted, controllers.NewStage(booted, v1alpha1.StageBootstrapSucceeded))).To(Succeed(), "others are applied beside it")
}

// deniedLeases checks that the boot server writes only the Leases of addresses. Those of leader elections are in the same namespace.
func deniedLeases(t *testing.T, c client.Client) {
	t.Helper()
	g := NewWithT(t)
	ctx := t.Context()
	lease := func(name string, labelled bool) *coordinationv1.Lease {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: new("somebody")}}
		if labelled {
			l.Labels = map[string]string{boot.NetworkLabel: "test"}
		}
		return l
	}
	leader, foreign := lease(newOptions().leaseName(), false), lease("dhcp-foreign", false)
	env.Create(t, leader, foreign)
	given := lease("dhcp-127-0-82-99", true)
	g.Expect(env.Client.Get(ctx, client.ObjectKeyFromObject(given), given)).To(Succeed())
	changed := func(l *coordinationv1.Lease, labels map[string]string) *coordinationv1.Lease {
		l = l.DeepCopy()
		l.Labels, l.Spec.HolderIdentity = labels, new("mine")
		return l
	}
	labels := map[string]string{boot.NetworkLabel: "test"}
	generated := lease("", true)
	generated.GenerateName = "capbm-"
	const byName, byLabel = "must not write a Lease whose name does not begin with dhcp-", "must not write a Lease without the label"
	for what, denied := range map[string]struct {
		err  error
		says string
	}{
		"take the leader's":            {c.Update(ctx, changed(leader, nil), client.DryRunAll), byName},
		"take the leader's, labelled":  {c.Update(ctx, changed(leader, labels), client.DryRunAll), byName},
		"create one of an election":    {c.Create(ctx, lease("capbm-controllers-12345678", true), client.DryRunAll), byName},
		"create one by an update":      {c.Update(ctx, lease("capbm-controllers-12345678", true), client.DryRunAll), byName},
		"have a name generated":        {c.Create(ctx, generated, client.DryRunAll), byName},
		"create one without the label": {c.Create(ctx, lease("dhcp-127-0-82-98", false), client.DryRunAll), byLabel},
		"take the label away":          {c.Update(ctx, changed(given, nil), client.DryRunAll), byLabel},
		"take one that has no label":   {c.Update(ctx, changed(foreign, nil), client.DryRunAll), byLabel},
		"label one without a label":    {c.Update(ctx, changed(foreign, labels), client.DryRunAll), byLabel},
	} {
		g.Expect(denied.err).To(MatchError(And(ContainSubstring("denied request"), ContainSubstring(denied.says))), what)
	}
	g.Expect(c.Create(ctx, lease("dhcp-127-0-82-98", true), client.DryRunAll)).To(Succeed())
	g.Expect(c.Update(ctx, changed(given, given.Labels), client.DryRunAll)).To(Succeed())
	g.Expect(env.Client.Update(ctx, changed(leader, nil), client.DryRunAll)).To(Succeed(), "it is about the boot server alone")
}

// deniedSecrets checks that the boot server can create only the Secret of its key. Kubernetes writes a token of any account of the namespace into a Secret
// of type service-account-token, which the boot server could read under the name of its key. The boot server created its key before.
func deniedSecrets(t *testing.T, c client.Client) {
	t.Helper()
	g := NewWithT(t)
	secret := func(name string, kind corev1.SecretType) *corev1.Secret {
		return &corev1.Secret{Type: kind, ObjectMeta: metav1.ObjectMeta{
			Namespace: "capbm-system", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "capbm-manager"},
		}}
	}
	key := secret(provider.BootKeySecret, corev1.SecretTypeOpaque)
	g.Expect(env.Client.Delete(t.Context(), key)).To(Succeed(), "as when somebody has it recreated")
	env.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "capbm-manager"}})
	generated := secret("", corev1.SecretTypeOpaque)
	generated.GenerateName = provider.BootKeySecret
	const byName, byType = "must not write a Secret other than capbm-boot-key", "must not write a Secret of a type other than Opaque"
	for _, denied := range []struct {
		secret *corev1.Secret
		says   string
	}{
		{secret(provider.BootKeySecret, corev1.SecretTypeServiceAccountToken), byType},
		{secret("a-token", corev1.SecretTypeServiceAccountToken), byName},
		{secret(provider.BootKeySecret, "example.com/any"), byType},
		{secret("capbm-boot-tls", corev1.SecretTypeOpaque), byName},
		{generated, byName},
	} {
		g.Expect(c.Create(t.Context(), denied.secret)).To(MatchError(And(ContainSubstring("denied request"), ContainSubstring(denied.says))))
	}
	token := secret("a-token", corev1.SecretTypeServiceAccountToken)
	g.Expect(env.Client.Create(t.Context(), token, client.DryRunAll)).To(Succeed(), "it is about the boot server alone")
	g.Expect(c.Create(t.Context(), key, client.DryRunAll)).To(Succeed())
}

// allowed checks that the policy allows what the boot server writes, step by step.
func allowed(t *testing.T, c client.Client, namespace string) {
	t.Helper()
	g := NewWithT(t)
	ctx, now := t.Context(), metav1.NewTime(time.Now().Truncate(time.Second))
	type spec = v1alpha1.BareMetalBootSpec
	started := spec{Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "c", MachineName: "n", StartTime: now, PoweredOffTime: &now, PoweredOnTime: &now}
	script := func(s *spec) { s.DHCPTime, s.ScriptAddress = &now, "192.0.2.1" }
	data := func(s *spec) { s.DataAddress, s.DataServedTime = "192.0.2.2", &now }
	node := func(s *spec) { s.ReportedTime = &now } // the controllers write it
	disk := v1alpha1.WrittenDisk{Disk: wire.DiskIdentity{SerialNumber: "S1"}, Number: 1, DataOffset: 1 << 30, DataLength: 32 << 20}
	runsAgent := func(s *spec) { s.Agent = true }
	clean := func(s *spec) { s.Agent, s.Purpose = true, v1alpha1.PurposeClean }
	configure := func(s *spec) { s.Agent, s.Purpose = true, v1alpha1.PurposeConfigure }
	enrolled := func(s *spec) { s.DataAddress, s.AgentKey = "192.0.2.2", someKey }
	written := func(s *spec) { data(s); s.WrittenDisks = []v1alpha1.WrittenDisk{disk} }
	commit := func(s *spec) { s.CommitAllowedTime = &now }
	done := func(s *spec) { s.AgentDoneTime = &now }
	report := func(s *spec) { s.ReportedTime, s.ReportAddress = &now, "192.0.2.3" }
	fail := func(s *spec) {
		s.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: "any"}
	}
	for name, test := range map[string]struct {
		before []func(*spec)
		change func(*spec)
	}{
		"the script":                    {nil, script},
		"the data":                      {[]func(*spec){script}, data},
		"the report":                    {[]func(*spec){script, data}, report},
		"the report after the node":     {[]func(*spec){script, data, node}, func(s *spec) { s.ReportAddress = "192.0.2.3" }},
		"a second client of the script": {[]func(*spec){script}, fail},
		"a second client of the data":   {[]func(*spec){script, data}, fail},
		"the key of an agent":           {[]func(*spec){script, runsAgent}, enrolled},
		"the data after the key":        {[]func(*spec){script, runsAgent, enrolled}, func(s *spec) { s.DataServedTime = &now }},
		"the data of an image":          {[]func(*spec){script, runsAgent}, written},
		"a second agent":                {[]func(*spec){script, runsAgent}, func(s *spec) { s.DataAddress, s.AgentRefusedTime = "192.0.2.2", &now }},
		"the commit":                    {[]func(*spec){script, runsAgent, written}, commit},
		"the result":                    {[]func(*spec){script, runsAgent, written, commit}, done},
		"the data of the next attempt": {[]func(*spec){script, runsAgent, written}, func(s *spec) {
			s.WrittenDisks[0].Number = 2
		}},
		"the end of a restart with new settings": {[]func(*spec){script, configure}, func(s *spec) { s.AgentDoneTime, s.AgentSecureBoot = &now, wire.SecureBootEnabled }},
		"the end of an erasure":                  {[]func(*spec){script, clean, written}, func(s *spec) { s.AgentDoneTime, s.WrittenDisks = &now, nil }},
	} {
		record := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "allowed-"}, Spec: started}
		for _, step := range test.before {
			step(&record.Spec)
		}
		env.Create(t, record)
		changed := record.DeepCopy()
		test.change(&changed.Spec)
		g.Expect(c.Patch(ctx, changed, client.MergeFromWithOptions(record, client.MergeFromWithOptimisticLock{}))).To(Succeed(), name)
		g.Expect(controllers.ApplyFailure(ctx, c, client.ObjectKeyFromObject(record), v1alpha1.ReasonSecondRequester)).To(Succeed(), name)
	}
}
