package host

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalerasurerequests,verbs=list;watch

// erasureRequests reads the BareMetalErasureRequests of free hosts, and what decides whether one may begin.
type erasureRequests struct {
	client       client.Client // reads from the cache
	apiReader    client.Reader
	observations *observations
}

// observeErasureRequest adds to the view what decides about an erasure that a BareMetalErasureRequest requests.
func (r *erasureRequests) observeErasureRequest(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) (err error) {
	var requests v1alpha1.BareMetalErasureRequestList
	err = r.client.List(ctx, &requests, client.InNamespace(host.Namespace), client.MatchingFields{controllers.RequestIndex: host.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list the BareMetalErasureRequests of the host: %w", err)
	}
	if len(requests.Items) == 0 && view.Host.RequestedErasureBoot() == nil {
		return nil
	}
	if view.Erasure.SerialNumber, err = r.serialNumber(ctx, host); err != nil {
		return err
	}
	facts := erasure.Facts{Host: host, Boot: view.Host.Boot, SerialNumber: view.Erasure.SerialNumber, Now: view.Now}
	if request := facts.Select(requests.Items); request != nil {
		view.Erasure.Request = &lifecycle.ErasureRequest{
			Name: request.Name, UID: string(request.UID), SerialNumber: request.Spec.SerialNumber, Policy: request.Spec.Policy,
		}
	}
	if view.Erasure.Request == nil && view.Host.RequestedErasureBoot() == nil {
		return nil
	}
	if view.Host.PausedCluster == "" {
		if view.Host.PausedCluster, err = controllers.PausedCluster(ctx, r.client, host.Namespace); err != nil {
			return err
		}
	}
	view.Erasure.Machine, err = r.machineOnServer(ctx, host)
	return err
}

func hostNameOfErasureRequest(o client.Object) []string {
	request, ok := o.(*v1alpha1.BareMetalErasureRequest)
	if !ok {
		return nil
	}
	return []string{request.Spec.HostName}
}

// hostOfErasureRequest returns the host that a BareMetalErasureRequest names.
func hostOfErasureRequest(_ context.Context, o client.Object) []reconcile.Request {
	request, ok := o.(*v1alpha1.BareMetalErasureRequest)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: request.Namespace, Name: request.Spec.HostName}}}
}

// machineOnServer returns a machine, of any namespace, whose provider ID names the host; nil without one. A machine that is being deleted counts: its controller may
// still work on the server. Of several it is one of the host's namespace, if there is one.
func (r *erasureRequests) machineOnServer(ctx context.Context, host *v1alpha1.BareMetalHost) (*types.NamespacedName, error) {
	var machines v1alpha1.BareMetalMachineList
	err := r.client.List(ctx, &machines, client.MatchingFields{providerIDServerIndex: serverIndexValue(host.Namespace, host.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the machines of all namespaces whose provider ID names the host: %w", err)
	}
	var found *types.NamespacedName
	for i := range machines.Items {
		key := client.ObjectKeyFromObject(&machines.Items[i])
		here, better := key.Namespace == host.Namespace, found != nil && found.Namespace == host.Namespace
		if found == nil || here && !better || here == better && key.Name > found.Name {
			found = &key
		}
	}
	return found, nil
}

// providerIDServerIndex indexes machines by the namespace and the name of the host that their provider ID names, also if that is another namespace than theirs.
const providerIDServerIndex = "spec.providerID.server"

func serverOfProviderID(o client.Object) []string {
	m, ok := o.(*v1alpha1.BareMetalMachine)
	if !ok {
		return nil
	}
	if namespace, host := inventory.HostOf(m.Spec.ProviderID); host != "" {
		return []string{serverIndexValue(namespace, host)}
	}
	return nil
}

func serverIndexValue(namespace, host string) string { return namespace + "/" + host }

// serialNumber returns the serial number of the host's server: what the BMC reports, or if it reports none, what the agent found in the last inspection. It is
// empty if it is unknown, and if the BMC no longer reports the one that it reported earlier: that may be of a server that was replaced, and so may the agent's.
func (r *erasureRequests) serialNumber(ctx context.Context, host *v1alpha1.BareMetalHost) (string, error) {
	key := client.ObjectKeyFromObject(host)
	switch h := r.observations.get(key).hardware; {
	case h == nil || h.SerialNumber == "":
	case isKept(h, bmc.FactSerialNumber):
		return "", nil
	default:
		return h.SerialNumber, nil
	}
	if !inspectedByAgent(host) {
		return "", nil
	}
	report := &v1alpha1.BareMetalInspection{}
	if err := r.apiReader.Get(ctx, key, report); err != nil {
		return "", client.IgnoreNotFound(fmt.Errorf("read the serial number in the host's BareMetalInspection: %w", err))
	}
	return report.Spec.System.SerialNumber, nil
}
