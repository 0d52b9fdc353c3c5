package nodetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// initTimeout is how long a virtual machine may take from its claim to a control plane.
const initTimeout = 40 * time.Minute

// TestControlPlane: a virtual machine with an empty disk becomes the control plane of a cluster by kubeadm's own init. etcd and the programs of Kubernetes are
// static Pods, whose container images came with the image of the disk.
func TestControlPlane(t *testing.T) {
	g := NewWithT(t)
	r := startRig(t, 80*time.Minute)
	m := r.start(t, virtual{name: "vm1", memoryGiB: 3, processors: 2, address: "10.90.0.10"})
	m.begin()
	m.register(t)
	m.await(t, time.Minute, "the host is registered and Available", m.phase(v1alpha1.PhaseAvailable))
	g.Expect(r.lab.CreateCluster(r.ctx, r.plane, site.Cluster{
		Flavor: "lab-control-plane", StackedEtcd: true, Variables: append(imageVariables(t, r.root, "control-plane-amd64.raw.zst"),
			"CONTROL_PLANE_ENDPOINT_HOST="+m.address, "CONTROL_PLANE_ENDPOINT_PORT=6443"),
	})).To(Succeed())
	m.note(t, "clusterctl generate cluster | kubectl apply: a KubeadmControlPlane of one machine")
	m.await(t, initTimeout, "the API server answers, and the Node is registered with our provider ID", m.registered)
	m.await(t, initTimeout, "the Node is Ready", m.ready)
	m.await(t, initTimeout, "the control plane is initialized", r.initialized)
	m.await(t, 10*time.Minute, "the Machine is Running", site.Running(r.plane, 1))
	m.await(t, 10*time.Minute, "the static Pods are ready", m.staticPods)
	m.await(t, time.Minute, "the host is Provisioned", m.phase(v1alpha1.PhaseProvisioned))
	m.await(t, 10*time.Minute, "the Cluster is Available", site.Available(r.plane))
	written := m.boot.Spec.WrittenDisks
	g.Expect(written).To(HaveLen(1))
	t.Logf("the time line from the registration:\n%s", strings.Join(m.line, "\n"))

	m.begin()
	_, err := r.plane.Kubectl(r.ctx, "--namespace", site.Namespace, "delete", "cluster", site.ClusterName, "--wait=false")
	g.Expect(err).NotTo(HaveOccurred())
	m.await(t, eraseTimeout, "the disk is erased, and the host Available and off", m.free)
	m.expectErased(t, written[0])
	t.Logf("the time line from the deletion:\n%s", strings.Join(m.line, "\n"))
}

// staticPods is nil when the Pods of the control plane are ready.
func (m *machine) staticPods(ctx context.Context) error {
	workload, err := site.Workload(ctx, m.rig.plane)
	if err != nil {
		return err
	}
	node, err := m.node(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		var pod corev1.Pod
		if err := workload.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: name + "-" + node.Name}, &pod); err != nil {
			return err
		}
		ready := false
		for _, c := range pod.Status.Conditions {
			ready = ready || c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}
		if !ready {
			return fmt.Errorf("the Pod %s is not ready", pod.Name)
		}
	}
	return nil
}
