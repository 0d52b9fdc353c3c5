// Package fleet reads all hosts and says how each of them is. Reading and judging are apart: Rows is pure.
package fleet

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Objects are the objects of the hosts of a namespace, or of all.
type Objects struct {
	Hosts    []v1alpha1.BareMetalHost
	Boots    []v1alpha1.BareMetalBoot
	Machines []v1alpha1.BareMetalMachine
	// Unread are the kinds that could not be read. What depends on them is shown as not read, and never as absent.
	Unread []why.Unread
}

// Row is a host, or a machine that has no host.
type Row struct {
	// Kind is BareMetalHost or BareMetalMachine.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Domain is the failure domain of the host.
	Domain string `json:"failureDomain,omitempty"`
	// Cluster is the Cluster of the machine, and Machine the BareMetalMachine that has the host.
	Cluster string `json:"cluster,omitempty"`
	Machine string `json:"machine,omitempty"`
	Phase   string `json:"phase,omitempty"`
	Power   string `json:"power,omitempty"`
	// Health is OK, Warning, Critical, or empty if the BMC does not report it.
	Health string `json:"health,omitempty"`
	Model  string `json:"model,omitempty"`
	// State, Reason, Message and Since are those of the explanation (package why).
	State   why.State  `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Since   *time.Time `json:"since,omitempty"`
	// NeedsAction is true for a fault, and for a wait that takes more than twice its usual time.
	NeedsAction bool `json:"needsAction"`
	// Command is the next command.
	Command string `json:"nextCommand,omitempty"`

	explanation why.Explanation
}

// NotRead is the cluster of a host whose machine could not be read.
const NotRead = "?"

// Rows judges each host, and each machine without a host, and puts first what needs attention first.
func Rows(o *Objects, now time.Time) []Row {
	boots := map[client.ObjectKey]*v1alpha1.BareMetalBoot{}
	for i := range o.Boots {
		boots[client.ObjectKeyFromObject(&o.Boots[i])] = &o.Boots[i]
	}
	machines := map[client.ObjectKey]*v1alpha1.BareMetalMachine{}
	for i := range o.Machines {
		machines[client.ObjectKeyFromObject(&o.Machines[i])] = &o.Machines[i]
	}
	rows := make([]Row, 0, len(o.Hosts))
	for i := range o.Hosts {
		h := &o.Hosts[i]
		chain := why.Objects{Host: h, Boot: boots[client.ObjectKeyFromObject(h)]}
		if ref := h.Spec.ConsumerRef; ref != nil {
			chain.BareMetalMachine = machines[client.ObjectKey{Namespace: h.Namespace, Name: ref.Name}]
		}
		rows = append(rows, hostRow(&chain, now))
	}
	for i := range o.Machines {
		if m := &o.Machines[i]; m.Status.HostRef == nil {
			rows = append(rows, machineRow(m, now))
		}
	}
	slices.SortFunc(rows, func(a, b Row) int {
		if a.State == why.Done && b.State == why.Done && a.Unhealthy() != b.Unhealthy() {
			return map[bool]int{true: -1, false: 1}[a.Unhealthy()]
		}
		return cmp.Or(why.Compare(&a.explanation, &b.explanation, now), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind))
	})
	return rows
}

// Unhealthy is true if the BMC reports another health than OK. That is no explanation if no part of the server has it.
func (r *Row) Unhealthy() bool { return r.Health != "" && r.Health != string(wire.HealthOK) }

// OfHosts returns the rows of hosts, for a selection of hosts to which machines without a host do not belong.
func OfHosts(rows []Row) []Row {
	return slices.DeleteFunc(rows, func(r Row) bool { return r.Kind != why.KindHost })
}

// hostRow is the row of a host.
func hostRow(o *why.Objects, now time.Time) Row {
	h := o.Host
	r := Row{
		Kind: why.KindHost, Namespace: h.Namespace, Name: h.Name, Domain: h.Spec.FailureDomain, Phase: string(h.Status.Phase), Power: string(h.Status.Power), Health: health(h),
	}
	if hardware := h.Status.Hardware; hardware != nil {
		r.Model = hardware.Model
	}
	if ref := h.Spec.ConsumerRef; ref != nil {
		r.Machine, r.Cluster = ref.Name, NotRead
		if m := o.BareMetalMachine; m != nil {
			r.Cluster = m.Labels[clusterv1.ClusterNameLabel]
		}
	}
	explanation, _ := why.Explain(why.KindHost, o)
	r.judge(explanation, now)
	return r
}

// machineRow is the row of a machine that has no host.
func machineRow(m *v1alpha1.BareMetalMachine, now time.Time) Row {
	r := Row{Kind: why.KindBareMetalMachine, Namespace: m.Namespace, Name: m.Name, Cluster: m.Labels[clusterv1.ClusterNameLabel], Machine: m.Name, Phase: m.Status.Phase}
	explanation, _ := why.Explain(why.KindBareMetalMachine, &why.Objects{BareMetalMachine: m})
	r.judge(explanation, now)
	return r
}

func (r *Row) judge(e why.Explanation, now time.Time) {
	r.explanation = e
	r.State, r.Reason, r.Message, r.NeedsAction, r.Command = e.State, e.Reason, e.Message, e.NeedsAction(now), e.Command
	if !e.Since.IsZero() {
		since := e.Since.UTC()
		r.Since = &since
	}
}

// health is what the BMC reports of the whole server, or Warning if one of its parts is not healthy.
func health(h *v1alpha1.BareMetalHost) string {
	reported := ""
	if hardware := h.Status.Hardware; hardware != nil {
		reported = string(hardware.Health)
	}
	if unhealthy := meta.IsStatusConditionFalse(h.Status.Conditions, v1alpha1.HardwareHealthyCondition); unhealthy && (reported == "" || reported == string(wire.HealthOK)) {
		return string(wire.HealthWarning)
	}
	return reported
}
