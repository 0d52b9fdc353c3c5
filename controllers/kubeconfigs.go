package controllers

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/gateway"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/kubeconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// Kubeconfigs is the reader of kubeconfig Secrets for the cluster cache. A tenant may write the Secret, so the kubeconfig is untrusted. One that
// names a file of this process, such as the token of its ServiceAccount, would send that file to the server that it names. Kubeconfigs refuses it
// before a connection is made. What it accepts leads through the gateway, which bounds where the connection goes and what comes back.
//
// Cluster API refuses only exec and auth providers (v1.14.2, controllers/clustercache/cluster_accessor_client.go, createRESTConfig). No upstream
// issue found. Delete this type when the cluster cache refuses file paths and impersonation too.
type Kubeconfigs struct {
	client.Reader

	gateway  *gateway.Gateway
	log      logr.Logger
	mu       sync.Mutex
	verdicts map[client.ObjectKey]error
	refusals map[client.ObjectKey]refusal
	changes  chan event.TypedGenericEvent[client.ObjectKey]
}

// refusal is what an API server did, with the kubeconfig that names it. It counts until then, and for this kubeconfig.
type refusal struct {
	why    error
	until  time.Time
	digest [sha256.Size]byte
}

// refusalTime is how long no connection is made to an API server that exceeded a bound. It may have been repaired then.
const refusalTime = 10 * time.Minute

// SetupKubeconfigs returns NewKubeconfigs of a manager, and adds their gateway to it.
func SetupKubeconfigs(ctx context.Context, mgr ctrl.Manager, policy outbound.Policy) (*Kubeconfigs, error) {
	k, err := NewKubeconfigs(ctx, mgr.GetAPIReader(), mgr.GetClient(), policy)
	if err != nil {
		return nil, err
	}
	return k, mgr.Add(k.gateway)
}

// NewKubeconfigs returns Kubeconfigs that read Secrets from secrets, and Machines from machines. policy says which addresses the API servers of workload clusters may have.
func NewKubeconfigs(ctx context.Context, secrets, machines client.Reader, policy outbound.Policy) (*Kubeconfigs, error) {
	k := &Kubeconfigs{
		Reader: secrets, log: ctrl.LoggerFrom(ctx).WithName("kubeconfigs"), verdicts: map[client.ObjectKey]error{}, refusals: map[client.ObjectKey]refusal{},
		changes: make(chan event.TypedGenericEvent[client.ObjectKey], 1024),
	}
	var err error
	k.gateway, err = gateway.New(ctx, gateway.Options{
		Policy: policy, Machines: func(ctx context.Context, cluster client.ObjectKey) (int, error) {
			return CountMachines(ctx, machines, cluster)
		},
		Refused: k.Refuse, Log: k.log,
	})
	return k, err
}

// CountMachines returns the number of Machines of a cluster.
func CountMachines(ctx context.Context, c client.Reader, cluster client.ObjectKey) (int, error) {
	var machines clusterv1.MachineList
	err := c.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}, client.UnsafeDisableDeepCopy)
	return len(machines.Items), err
}

// Get reads an object. For a Secret whose kubeconfig is refused it returns an error and no content.
func (k *Kubeconfigs) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := k.Reader.Get(ctx, key, object, options...); err != nil {
		return err
	}
	s, ok := object.(*corev1.Secret)
	if !ok {
		return nil
	}
	cluster, purpose, err := secret.ParseSecretName(key.Name)
	if err != nil || purpose != secret.Kubeconfig {
		return nil //nolint:nilerr // the Secret is no kubeconfig
	}
	content, verdict := k.through(client.ObjectKey{Namespace: key.Namespace, Name: cluster}, s.Data[secret.KubeconfigDataName])
	if err := k.recordVerdict(ctx, client.ObjectKey{Namespace: key.Namespace, Name: cluster}, verdict); err != nil {
		return err
	}
	if verdict != nil {
		*s = corev1.Secret{}
		return fmt.Errorf("kubeconfig Secret %s: %w", key, verdict)
	}
	s.Data[secret.KubeconfigDataName] = content
	return nil
}

// through returns a kubeconfig for the route through the gateway, or why the content is refused.
func (k *Kubeconfigs) through(cluster client.ObjectKey, content []byte) ([]byte, error) {
	if err := kubeconfig.Check(content); err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	k.mu.Lock()
	last, ok := k.refusals[cluster]
	if !ok || last.digest != digest || time.Now().After(last.until) {
		k.refusals[cluster], last.why = refusal{digest: digest}, nil
	}
	k.mu.Unlock()
	if last.why != nil {
		return nil, last.why
	}
	return k.gateway.Kubeconfig(cluster, content)
}

// Refuse ends the connection to the API server of a cluster because of what it does. Another one is made after ten minutes, or once the kubeconfig changes.
func (k *Kubeconfigs) Refuse(cluster client.ObjectKey, why error) {
	k.mu.Lock()
	k.refusals[cluster] = refusal{why: why, until: time.Now().Add(refusalTime), digest: k.refusals[cluster].digest}
	k.mu.Unlock()
	k.gateway.End(cluster)
	k.log.Info("Refused the API server of a workload cluster", "Cluster", cluster, "reason", why.Error())
	ctx, cancel := context.WithTimeout(context.Background(), refuseTimeout)
	defer cancel()
	if err := k.recordVerdict(ctx, cluster, why); err != nil {
		k.log.Error(err, "Failed to report a refused API server: the next connection reports it", "Cluster", cluster)
	}
}

// refuseTimeout is how long a refusal waits until it is reported.
const refuseTimeout = 5 * time.Second

// Verdict returns why the kubeconfig of a cluster was refused when it was last read, nil if it was accepted. known is false while this process has
// not read it. Nil Kubeconfigs know no cluster.
func (k *Kubeconfigs) Verdict(cluster client.ObjectKey) (known bool, refused error) {
	if k == nil {
		return false, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	refused, known = k.verdicts[cluster]
	return known, refused
}

// Forget drops the verdict on a cluster that is gone.
func (k *Kubeconfigs) Forget(cluster client.ObjectKey) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.verdicts, cluster)
	delete(k.refusals, cluster)
	k.gateway.End(cluster)
}

// Changes has an event for each cluster whose verdict changed.
func (k *Kubeconfigs) Changes() <-chan event.TypedGenericEvent[client.ObjectKey] { return k.changes }

func (k *Kubeconfigs) recordVerdict(ctx context.Context, cluster client.ObjectKey, verdict error) error {
	k.mu.Lock()
	before, known := k.verdicts[cluster]
	k.verdicts[cluster] = verdict
	k.mu.Unlock()
	if known && fmt.Sprint(before) == fmt.Sprint(verdict) {
		return nil
	}
	select {
	case k.changes <- event.TypedGenericEvent[client.ObjectKey]{Object: cluster}:
		return nil
	case <-ctx.Done():
		k.mu.Lock()
		delete(k.verdicts, cluster) // no change was sent: the next read sends it
		k.mu.Unlock()
		return ctx.Err()
	}
}
