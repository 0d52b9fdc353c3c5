// Package chain reads the objects that explain another object, from its Cluster down to its host and boot, and explains them with package why. It reads as few objects
// as possible. What may not be read, or what the cluster does not have, is repeated in the answer and does not end it.
package chain

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// MaxRequests is the maximum number of requests for one answer. Only the hosts of a machine without a host need several pages; if more pages are left, the answer does not
// count these hosts, and repeats what the provider wrote into the condition.
const MaxRequests = 12

// Reader reads objects of one namespace.
type Reader struct {
	Client    client.Reader
	Namespace string
	// Now is the time of the answers.
	Now time.Time
}

// Answer explains an object.
type Answer struct {
	why.Explanation
	// Objects are the objects that were read: for an object with several machines those of the machine that needs attention most.
	Objects *why.Objects
	// Machines is the number of machines of a Cluster or of an owner of Machines, and Unready the number of those that are not as wanted. Both are 0 for other objects.
	Machines, Unready int
	// Requests is the number of requests that the answer needed.
	Requests int
}

// reading is one answer in the making.
type reading struct {
	*Reader

	objects  why.Objects
	requests int
	err      error // the first error that is not about one object
}

// Explain explains an object. The error says that there is no answer: the object does not exist, it may not be read, or the API server does not answer.
func (r *Reader) Explain(ctx context.Context, s Subject) (*Answer, error) {
	answering := &reading{Reader: r}
	kind, err := answering.subject(ctx, s)
	if err != nil {
		return nil, err
	}
	answer := &Answer{}
	if several, ok := severalMachines[kind]; ok {
		answer.Machines, answer.Unready = answering.worst(ctx, several(s.Name))
	}
	answering.hosts(ctx)
	if answering.err != nil {
		return nil, answering.err
	}
	explanation, ok := why.Explain(kind, &answering.objects)
	if !ok {
		return nil, fmt.Errorf("%s %q was not read", kind, s.Name)
	}
	answer.Explanation, answer.Objects, answer.Requests = explanation, &answering.objects, answering.requests
	return answer, nil
}

// anyKind are the kinds that are tried, in this order, for a name without a kind.
var anyKind = []string{why.KindHost, why.KindMachine, why.KindCluster, kindMachineDeployment, kindKubeadmControlPlane}

// subject reads the object that was asked about, and what belongs to it. It returns its kind.
func (r *reading) subject(ctx context.Context, s Subject) (string, error) {
	tried := anyKind
	if s.Kind != "" {
		tried = []string{s.Kind}
	}
	for _, kind := range tried {
		found := r.start(ctx, kind, s.Name)
		if r.err != nil {
			return "", r.err
		}
		if !found {
			continue
		}
		if s.Kind == "" {
			r.objects.Unread = nil // the kinds that were tried in vain do not belong to the chain
		}
		r.follow(ctx, kind)
		return kind, r.err
	}
	for _, unread := range r.objects.Unread {
		if unread.Cause == why.NotPermitted || unread.Cause == why.NotInstalled && s.Kind != "" {
			return "", fmt.Errorf("%s %q in the namespace %q: %s", unread.Kind, s.Name, r.Namespace, unread.Cause)
		}
	}
	if s.Kind != "" {
		return "", fmt.Errorf("there is no %s %q in the namespace %q", s.Kind, s.Name, r.Namespace)
	}
	return "", fmt.Errorf("there is no host, machine, cluster, MachineDeployment or control plane %q in the namespace %q: use -n, or KIND/NAME for another kind", s.Name, r.Namespace)
}

// start reads an object of a kind. It returns false if it was not read.
func (r *reading) start(ctx context.Context, kind, name string) bool {
	o := &r.objects
	switch kind {
	case why.KindHost:
		return get(ctx, r, kind, name, &o.Host, &v1alpha1.BareMetalHost{})
	case why.KindBoot:
		return get(ctx, r, kind, name, &o.Boot, &v1alpha1.BareMetalBoot{})
	case why.KindMachine:
		return get(ctx, r, kind, name, &o.Machine, &clusterv1.Machine{})
	case why.KindBareMetalMachine:
		return get(ctx, r, kind, name, &o.BareMetalMachine, &v1alpha1.BareMetalMachine{})
	case why.KindCluster:
		return get(ctx, r, kind, name, &o.Cluster, &clusterv1.Cluster{})
	case why.KindBareMetalCluster:
		return get(ctx, r, kind, name, &o.BareMetalCluster, &v1alpha1.BareMetalCluster{})
	case why.KindConfig:
		return get(ctx, r, kind, name, &o.Config, &bootstrapv1.BareMetalConfig{})
	case why.KindRemediation:
		return get(ctx, r, kind, name, &o.Remediation, &v1alpha1.BareMetalRemediation{})
	case why.KindErasureRequest:
		return get(ctx, r, kind, name, &o.ErasureRequest, &v1alpha1.BareMetalErasureRequest{})
	case why.KindMachineTemplate:
		return get(ctx, r, kind, name, &o.MachineTemplate, &v1alpha1.BareMetalMachineTemplate{})
	case why.KindProfile:
		return get(ctx, r, kind, name, &o.Profile, &v1alpha1.BareMetalProfile{})
	case why.KindSettings:
		return get(ctx, r, kind, name, &o.Settings, &v1alpha1.BareMetalSettings{})
	default:
		return r.owner(ctx, kind, name, "")
	}
}

// get reads an object into a field. If it cannot be read, the answer says why, and get returns false.
func get[T client.Object](ctx context.Context, r *reading, kind, name string, field *T, empty T) bool {
	if name == "" || r.err != nil {
		return false
	}
	r.requests++
	err := access.Get(ctx, r.Client, client.ObjectKey{Namespace: r.Namespace, Name: name}, empty)
	if err == nil {
		*field = empty
		return true
	}
	r.unread(kind, name, err)
	return false
}

// unread records why an object was not read.
func (r *reading) unread(kind, name string, err error) {
	cause := access.Cause(err)
	if cause == "" {
		r.err = fmt.Errorf("read %s %s: %w", kind, name, err)
		return
	}
	r.objects.Unread = append(r.objects.Unread, why.Unread{Kind: kind, Name: name, Cause: cause})
}
