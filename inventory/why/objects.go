package why

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Objects are the objects of one machine, or of one host without a machine. Those that do not exist, or that were not read, are nil. All are in one namespace.
type Objects struct {
	Cluster          *clusterv1.Cluster
	BareMetalCluster *v1alpha1.BareMetalCluster
	// Owner is the control plane, the MachineDeployment or the MachineSet of the machine.
	Owner            Owner
	Machine          *clusterv1.Machine
	Config           *bootstrapv1.BareMetalConfig
	BareMetalMachine *v1alpha1.BareMetalMachine
	Host             *v1alpha1.BareMetalHost
	Boot             *v1alpha1.BareMetalBoot
	Remediation      *v1alpha1.BareMetalRemediation
	ErasureRequest   *v1alpha1.BareMetalErasureRequest
	MachineTemplate  *v1alpha1.BareMetalMachineTemplate
	Profile          *v1alpha1.BareMetalProfile
	Settings         *v1alpha1.BareMetalSettings

	// ErasureRequests are those of the namespace, for a host. Those of other hosts do not count.
	ErasureRequests []v1alpha1.BareMetalErasureRequest

	// Hosts are all hosts of the namespace, for a machine or a template that no host fits. HostsRead is false if they were not read.
	Hosts     []v1alpha1.BareMetalHost
	HostsRead bool

	// Unread are the objects that belong to the chain and could not be read.
	Unread []Unread
}

// Owner is an owner of a Machine, such as a KubeadmControlPlane. Kind is empty without one.
type Owner struct {
	Kind   string
	Object interface {
		metav1.Object
		GetConditions() []metav1.Condition
	}
}

// UnreadCause is why an object was not read.
type UnreadCause string

const (
	// NotFound means that the object does not exist.
	NotFound UnreadCause = "not found"
	// NotPermitted means that the user may not read it.
	NotPermitted UnreadCause = "not permitted"
	// NotInstalled means that the API server does not have the kind.
	NotInstalled UnreadCause = "not installed"
)

// Unread is an object that belongs to the chain and could not be read.
type Unread struct {
	Kind, Name string // Name is empty if it is unknown
	Cause      UnreadCause
}

// Ref names an object.
type Ref struct {
	Kind, Namespace, Name string

	isOwner bool // of a Machine
}

// object is what all objects of a chain have in common.
type object struct {
	Ref
	meta       metav1.Object
	conditions []metav1.Condition
}

// objects returns the objects that were read, from the Cluster down.
func (o *Objects) objects() []object {
	var all []object
	add := func(kind string, meta metav1.Object, conditions []metav1.Condition) {
		all = append(all, object{Ref{Kind: kind, Namespace: meta.GetNamespace(), Name: meta.GetName()}, meta, conditions})
	}
	if c := o.Cluster; c != nil {
		add(KindCluster, c, c.Status.Conditions)
	}
	if c := o.BareMetalCluster; c != nil {
		add(KindBareMetalCluster, c, c.Status.Conditions)
	}
	if o.Owner.Kind != "" {
		add(o.Owner.Kind, o.Owner.Object, o.Owner.Object.GetConditions())
		all[len(all)-1].isOwner = true
	}
	if m := o.Machine; m != nil {
		add(KindMachine, m, m.Status.Conditions)
	}
	if c := o.Config; c != nil {
		add(KindConfig, c, c.Status.Conditions)
	}
	if m := o.BareMetalMachine; m != nil {
		add(KindBareMetalMachine, m, m.Status.Conditions)
	}
	if h := o.Host; h != nil {
		add(KindHost, h, h.Status.Conditions)
	}
	if b := o.Boot; b != nil {
		add(KindBoot, b, nil)
	}
	if r := o.Remediation; r != nil {
		add(KindRemediation, r, r.Status.Conditions)
	}
	if r := o.ErasureRequest; r != nil {
		add(KindErasureRequest, r, r.Status.Conditions)
	}
	if t := o.MachineTemplate; t != nil {
		add(KindMachineTemplate, t, t.Status.Conditions)
	}
	if p := o.Profile; p != nil {
		add(KindProfile, p, p.Status.Conditions)
	}
	if s := o.Settings; s != nil {
		add(KindSettings, s, s.Status.Conditions)
	}
	return all
}

// refs returns the names of the objects that were read.
func (o *Objects) refs() []Ref {
	var refs []Ref
	for _, one := range o.objects() {
		refs = append(refs, one.Ref)
	}
	return refs
}

// ownKinds are the kinds of which a chain has one object.
var ownKinds = []string{
	KindCluster, KindMachine, KindBareMetalCluster, KindBareMetalMachine, KindHost, KindBoot, KindConfig, KindRemediation, KindErasureRequest, KindMachineTemplate,
	KindProfile, KindSettings,
}

// get returns the object of a kind, and false if it was not read. An owner of the Machine may have any kind, and is no other object of the chain.
func (o *Objects) get(kind string) (object, bool) {
	all := o.objects()
	at := slices.IndexFunc(all, func(one object) bool { return one.Kind == kind && one.isOwner != slices.Contains(ownKinds, kind) })
	if at < 0 {
		return object{}, false
	}
	return all[at], true
}

// condition returns a condition of the object; nil without one of that type.
func (o *object) condition(kind string) *metav1.Condition {
	at := slices.IndexFunc(o.conditions, func(c metav1.Condition) bool { return c.Type == kind })
	if at < 0 {
		return nil
	}
	return &o.conditions[at]
}

// since returns when the object was created.
func (o *object) since() time.Time { return o.meta.GetCreationTimestamp().Time }
