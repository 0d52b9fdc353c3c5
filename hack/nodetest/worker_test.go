package nodetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// joinTimeout is how long a virtual machine may take from its claim to its Node, and eraseTimeout from the deletion of its machine until it is free: at least
// five times what they take on a quiet machine with two processors.
const (
	joinTimeout  = 30 * time.Minute
	eraseTimeout = 12 * time.Minute
)

// podNetwork is the network of the Pods in hack/lab/nodetemplate.
const podNetwork = "10.244.1.0/24"

// TestWorker: a virtual machine with an empty disk becomes a Node by kubeadm's own join, runs a Pod, and is free again with an erased disk. The control plane
// that it joins runs on an emulated server of the lab: a real kube-apiserver and a real kube-controller-manager, set up by phases of kubeadm.
func TestWorker(t *testing.T) {
	g := NewWithT(t)
	r := startRig(t, 55*time.Minute)
	const emulated = "server-1"
	g.Expect(r.lab.Register(r.ctx, r.plane, emulated)).To(Succeed())
	_, err := r.plane.Kubectl(r.ctx, "--namespace", site.Namespace, "label", "baremetalhost", emulated, "example.com/kind=emulated")
	g.Expect(err).NotTo(HaveOccurred())
	m := r.start(t, virtual{name: "vm1", memoryGiB: 2, processors: 1})
	m.begin()
	m.register(t)
	m.await(t, time.Minute, "the host is registered and Available", m.phase(v1alpha1.PhaseAvailable))

	g.Expect(r.lab.CreateCluster(r.ctx, r.plane, site.Cluster{
		Flavor: "lab-node", Workers: 1, Variables: append(imageVariables(t, r.root, "node-amd64.raw.zst"), "CONTROL_PLANE_ENDPOINT_HOST="+address),
	})).To(Succeed())
	m.note(t, "clusterctl generate cluster | kubectl apply: a KubeadmControlPlane and a MachineDeployment of one worker")
	m.await(t, 5*time.Minute, "the control plane is initialized", r.initialized)
	m.await(t, 5*time.Minute, "the MachineDeployment's machine has claimed the host", func(context.Context) error {
		if m.host.Spec.ConsumerRef == nil {
			return errors.New("it is free")
		}
		return nil
	})
	m.await(t, joinTimeout, "the Node is registered with our provider ID", m.registered)
	m.await(t, joinTimeout, "the Node is Ready", m.ready)
	m.await(t, time.Minute, "the Machines are Running", site.Running(r.plane, 2))
	m.await(t, time.Minute, "the host is Provisioned", m.phase(v1alpha1.PhaseProvisioned))
	node, err := m.node(r.ctx)
	g.Expect(err).NotTo(HaveOccurred())
	info := node.Status.NodeInfo
	t.Logf("Node %s: %s, kernel %s, kubelet %s, %s, provider ID %s", node.Name, info.OSImage, info.KernelVersion, info.KubeletVersion, info.ContainerRuntimeVersion, node.Spec.ProviderID)
	g.Expect(info.KubeletVersion).To(Equal(site.KubernetesVersion))
	g.Expect(info.ContainerRuntimeVersion).To(HavePrefix("containerd://"))
	m.runPod(t, node)

	written := m.boot.Spec.WrittenDisks
	g.Expect(written).To(HaveLen(1))
	t.Logf("the time line from the registration:\n%s", strings.Join(m.line, "\n"))
	m.begin()
	_, err = r.plane.Kubectl(r.ctx, "--namespace", site.Namespace, "scale", "machinedeployment", site.ClusterName+"-workers", "--replicas=0")
	g.Expect(err).NotTo(HaveOccurred())
	m.await(t, eraseTimeout, "the disk is erased, and the host Available and off", m.free)
	m.await(t, time.Minute, "the Node is deleted", func(ctx context.Context) error {
		if _, err := m.nodeNamed(ctx, node.Name); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the Node exists, or: %w", err)
		}
		return nil
	})
	g.Expect(m.host.Spec.Quarantine).To(BeNil())
	g.Expect(m.boot.Spec.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(m.boot.Spec.WrittenDisks).To(BeEmpty())
	m.expectErased(t, written[0])
	t.Logf("the time line from the deletion:\n%s", strings.Join(m.line, "\n"))
}

// initialized is nil when the control plane is.
func (r *rig) initialized(ctx context.Context) error {
	var cluster clusterv1.Cluster
	if err := r.plane.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: site.ClusterName}, &cluster); err != nil {
		return err
	}
	if !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return errors.New("the control plane is not initialized")
	}
	return nil
}

// node is the Node of the machine that has the host, by the provider ID.
func (m *machine) node(ctx context.Context) (*corev1.Node, error) {
	if m.host.Spec.ConsumerRef == nil {
		return nil, errors.New("no machine has the host")
	}
	var infra v1alpha1.BareMetalMachine
	if err := m.rig.plane.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: m.host.Spec.ConsumerRef.Name}, &infra); err != nil {
		return nil, err
	}
	if infra.Spec.ProviderID == "" {
		return nil, errors.New("the machine has no provider ID")
	}
	workload, err := site.Workload(ctx, m.rig.plane)
	if err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(nodes.Items, func(n corev1.Node) bool { return n.Spec.ProviderID == infra.Spec.ProviderID })
	if i < 0 {
		return nil, fmt.Errorf("none of %d Nodes has the provider ID %s", len(nodes.Items), infra.Spec.ProviderID)
	}
	return &nodes.Items[i], nil
}

func (m *machine) nodeNamed(ctx context.Context, name string) (*corev1.Node, error) {
	workload, err := site.Workload(ctx, m.rig.plane)
	if err != nil {
		return nil, err
	}
	var node corev1.Node
	return &node, workload.Get(ctx, client.ObjectKey{Name: name}, &node)
}

func (m *machine) registered(ctx context.Context) error {
	_, err := m.node(ctx)
	return err
}

// ready is nil when the Node is Ready, which needs a network plugin.
func (m *machine) ready(ctx context.Context) error {
	node, err := m.node(ctx)
	if err != nil {
		return err
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
		if c.Type == corev1.NodeReady {
			err = errors.New(c.Message)
		}
	}
	return errors.Join(errors.New("the Node is not Ready"), err)
}

// runPod runs a Pod on the Node: containerd makes its sandbox and its container of an image of the node image, and the network plugin gives it an address.
func (m *machine) runPod(t *testing.T, node *corev1.Node) {
	t.Helper()
	g := NewWithT(t)
	var image string
	for _, i := range node.Status.Images {
		for _, name := range i.Names {
			if strings.HasPrefix(name, "node.local/pause:") {
				image = name
			}
		}
	}
	g.Expect(image).NotTo(BeEmpty(), "the images of the Node: %v", node.Status.Images)
	workload, err := site.Workload(m.rig.ctx, m.rig.plane)
	g.Expect(err).NotTo(HaveOccurred())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "pause"},
		Spec: corev1.PodSpec{
			NodeName: node.Name, AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "pause", Image: image, ImagePullPolicy: corev1.PullNever}},
		},
	}
	g.Expect(workload.Create(m.rig.ctx, pod)).To(Succeed())
	m.await(t, 5*time.Minute, "a Pod runs, and has an address", func(ctx context.Context) error {
		if err := workload.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" {
			return fmt.Errorf("the Pod is %s: %s", pod.Status.Phase, pod.Status.Message)
		}
		return nil
	})
	g.Expect(netip.MustParsePrefix(podNetwork).Contains(netip.MustParseAddr(pod.Status.PodIP))).To(BeTrue(), "the address %s", pod.Status.PodIP)
}
