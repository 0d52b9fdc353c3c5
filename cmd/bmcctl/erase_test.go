package main

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// TestErase: the request has what the host shows, or the reason says why there is none.
func TestErase(t *testing.T) {
	waits := metav1.Condition{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonInspectionPending, Message: "the agent has to inspect the server"}
	for name, c := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		serial string // --serial-number
		agent  string // the serial number in the BareMetalInspection
		refuse string
	}{
		"as the BMC reports":             {},
		"the serial number is confirmed": {serial: " sn-h"},
		"as the agent found":             {change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }, agent: "SN-h"},
		"another serial number":          {serial: "SN-2", refuse: `has the serial number "SN-h", not "SN-2"`},
		"no serial number":               {change: func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }, refuse: "Set spec.inspection to Both"},
		"it may not be purgeable":        {change: func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionBMC }, refuse: "use --policy Clear"},
		"a machine has it":               {change: func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"} }, refuse: `BareMetalMachine "m" has h`},
		"it is inspected first":          {change: func(h *v1alpha1.BareMetalHost) { h.Status.Conditions = []metav1.Condition{waits} }, refuse: "is to be inspected first"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host := &v1alpha1.BareMetalHost{
				ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "uid"},
				Spec:       v1alpha1.BareMetalHostSpec{Inspection: v1alpha1.InspectionBoth, ProviderState: v1alpha1.HostProviderState{Boots: 3}},
				Status:     v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{SerialNumber: "SN-h"}},
			}
			if c.change != nil {
				c.change(host)
			}
			scheme := runtime.NewScheme()
			g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
			report := &v1alpha1.BareMetalInspection{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}}
			report.Spec.System.SerialNumber = c.agent
			k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host, report).Build()
			var out bytes.Buffer
			e := &eraseRequest{policy: "Purge", serialNumber: c.serial, expiresIn: time.Hour, console: console{out: &out}}
			err := e.create(t.Context(), k, client.ObjectKeyFromObject(host))
			var list v1alpha1.BareMetalErasureRequestList
			g.Expect(k.List(t.Context(), &list)).To(Succeed())
			if c.refuse != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.refuse)))
				g.Expect(list.Items).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(HaveLen(1))
			spec := list.Items[0].Spec
			g.Expect(spec.ExpireTime.Time).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
			spec.ExpireTime = metav1.Time{}
			g.Expect(spec).To(Equal(v1alpha1.BareMetalErasureRequestSpec{
				HostName: "h", HostUID: "uid", SerialNumber: "SN-h", BootsBefore: new(int32(3)), Policy: wire.PolicyPurge,
			}))
			g.Expect(out.String()).To(ContainSubstring("serial number SN-h"))
		})
	}
}

// TestEraseDryRun: the output is the manifest of the request, and nothing is created.
func TestEraseDryRun(t *testing.T) {
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "uid"}, Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{SerialNumber: "SN-h"}}}
	k := fake.NewClientBuilder().WithScheme(scheme).WithObjects(host).Build()
	var out bytes.Buffer
	e := &eraseRequest{policy: "Clear", expiresIn: erasure.MaxRequestLife, dryRun: true, console: console{out: &out}}
	g.Expect(e.create(t.Context(), k, client.ObjectKeyFromObject(host))).To(Succeed())
	var list v1alpha1.BareMetalErasureRequestList
	g.Expect(k.List(t.Context(), &list)).To(Succeed())
	g.Expect(list.Items).To(BeEmpty())
	var printed v1alpha1.BareMetalErasureRequest
	g.Expect(yaml.UnmarshalStrict(out.Bytes(), &printed)).To(Succeed())
	g.Expect([]any{printed.Kind, printed.Namespace, printed.GenerateName, *printed.Spec.BootsBefore}).To(Equal([]any{"BareMetalErasureRequest", "dc", "h-", int32(0)}))
}

// TestEraseUsage: what cannot be meant is refused before the cluster is asked.
func TestEraseUsage(t *testing.T) {
	for says, args := range map[string][]string{
		"takes one host":          {"--policy=Clear"},
		"use Metadata, Clear":     {"h", "--policy=None"},
		`--policy: ""`:            {"h"},
		"between 1s and 168h0m0s": {"h", "--policy=Clear", "--expires-in=169h"},
	} {
		var errs bytes.Buffer
		code := run(t.Context(), append([]string{"erase"}, args...), console{out: &bytes.Buffer{}, err: &errs})
		NewWithT(t).Expect(errs.String()).To(ContainSubstring(says))
		NewWithT(t).Expect(code).To(Equal(exitUsage))
	}
}
