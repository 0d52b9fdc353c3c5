package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func TestLostWith(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		status corev1.ConditionStatus // of the condition Ready
		since  time.Duration          // its last transition, after noon
		asked  time.Duration          // the request of the firmware, after noon
		lost   bool
		again  time.Duration
	}{
		"Ready":                               {corev1.ConditionTrue, -time.Hour, -time.Minute, false, 0},
		"without a word":                      {"", 0, -time.Minute, false, 0},
		"silent for a moment":                 {corev1.ConditionUnknown, -20 * time.Second, -time.Minute, false, 40 * time.Second},
		"silent for a minute":                 {corev1.ConditionUnknown, -time.Minute, -2 * time.Minute, true, 0},
		"said that it goes":                   {corev1.ConditionFalse, -3 * time.Minute, -2 * time.Minute, true, 0},
		"silent while firmware starts":        {corev1.ConditionUnknown, -10 * time.Minute, -time.Second, true, 0},
		"silent, and firmware had asked":      {corev1.ConditionUnknown, -2 * time.Minute, -7 * time.Minute, true, 0},
		"silent, and firmware asked long ago": {corev1.ConditionUnknown, -2 * time.Minute, -7*time.Minute - time.Second, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			node := &corev1.Node{}
			if test.status != "" {
				node.Status.Conditions = []corev1.NodeCondition{
					{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
					{Type: corev1.NodeReady, Status: test.status, LastTransitionTime: metav1.NewTime(noon.Add(test.since))},
				}
			}
			lost, again := lostWithRestart(node, noon.Add(test.asked), noon)
			g.Expect(lost).To(Equal(test.lost))
			g.Expect(again).To(Equal(test.again))
		})
	}
}

// TestMatches: if the hardware proves nothing, the name and an address must both match.
func TestMatches(t *testing.T) {
	then := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	off := metav1.NewTime(then.Add(10 * time.Second))
	host := v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "1"},
		Spec: v1alpha1.BareMetalHostSpec{
			ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}, ProviderState: v1alpha1.HostProviderState{Boots: 1},
		},
	}
	boot := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{
		Number: 1, ClaimID: "c", StartTime: then, PoweredOffTime: &off, DataAddress: "192.0.2.9", DataServedTime: &off,
	}}
	other := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "2"}}
	for name, test := range map[string]struct {
		name, address string
		created       time.Time
		hosts         []v1alpha1.BareMetalHost
		want          bool
	}{
		"name and address":                     {"m", "192.0.2.9", off.Time, nil, true},
		"the name alone":                       {"m", "192.0.2.10", off.Time, nil, false},
		"the address alone":                    {"x", "192.0.2.9", off.Time, nil, false},
		"the hardware alone":                   {"x", "192.0.2.10", off.Time, []v1alpha1.BareMetalHost{host}, true},
		"name and address, another's hardware": {"m", "192.0.2.9", off.Time, []v1alpha1.BareMetalHost{other}, false},
		"name and address, hardware of two":    {"m", "192.0.2.9", off.Time, []v1alpha1.BareMetalHost{host, other}, true},
		"the address alone, hardware of two":   {"x", "192.0.2.9", off.Time, []v1alpha1.BareMetalHost{host, other}, false},
		"hardware of two":                      {"x", "192.0.2.10", off.Time, []v1alpha1.BareMetalHost{host, other}, false},
		"before the server was off":            {"m", "192.0.2.9", off.Add(-time.Second), []v1alpha1.BareMetalHost{host}, false},
		"an empty address, and the name":       {"m", "", off.Time, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: test.name, CreationTimestamp: metav1.NewTime(test.created)},
				Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: test.address}}},
			}
			g := NewWithT(t)
			g.Expect(matches(node, &host, boot, test.hosts)).To(Equal(test.want))
			node.DeletionTimestamp = &off
			g.Expect(matches(node, &host, boot, test.hosts)).To(BeFalse(), "it is being deleted")
			node.DeletionTimestamp = nil
			for why, change := range map[string]func(*v1alpha1.BareMetalBootSpec){
				"no bootstrap data was served": func(b *v1alpha1.BareMetalBootSpec) { b.DataServedTime = nil },
				"it is of another claim":       func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "d" },
				"its claim ended":              func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = &off },
				"it is older than the host":    func(b *v1alpha1.BareMetalBootSpec) { b.Number = 0 },
			} {
				other := boot.DeepCopy()
				change(&other.Spec)
				g.Expect(matches(node, &host, other, test.hosts)).To(BeFalse(), why)
			}
			g.Expect(matches(node, &host, nil, test.hosts)).To(BeFalse(), "there is no boot")
		})
	}
}

// TestMismatch: a Node that runs on the host with another provider ID is reported with a remedy. So is a Node with the machine's provider ID on
// another server. Two byte orders of one UUID are equal.
func TestMismatch(t *testing.T) {
	const (
		uuid, turned = "4c4c4544-0042-3510-8053-b4c04f4d3132", "44454C4C-4200-1035-8053-B4C04F4D3132"
		another      = "4c4c4544-0042-3510-8053-b4c04f4d3133"
		none         = "00000000-0000-0000-0000-000000000000"
		machineID    = "baremetal://dc/h/m"
	)
	then := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))
	host := v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "1"},
		Spec:       v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}, ProviderState: v1alpha1.HostProviderState{Boots: 1}},
	}
	boot := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "c", StartTime: then, DataAddress: "192.0.2.9", DataServedTime: &then}}
	other := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{UID: "2"}}
	for name, test := range map[string]struct {
		ofHost, ofNode, providerID, name, address string
		hosts                                     []v1alpha1.BareMetalHost
		matches                                   bool
		reason, message                           string
	}{
		"the machine's":                           {uuid, turned, machineID, "x", "", []v1alpha1.BareMetalHost{host}, true, "", ""},
		"the machine's, the BMC reports nothing":  {"", uuid, machineID, "x", "", nil, true, "", ""},
		"the machine's, the Node reports nothing": {uuid, none, machineID, "x", "", nil, true, "", ""},
		"the machine's on a new board":            {uuid, another, machineID, "m", "192.0.2.9", nil, true, "", ""},
		"the machine's on an unknown server":      {uuid, another, machineID, "x", "", nil, false, v1alpha1.ReasonNodeSystemUUIDDiffers, another},
		"the machine's on another's server":       {uuid, another, machineID, "m", "192.0.2.9", []v1alpha1.BareMetalHost{other}, false, v1alpha1.ReasonNodeSystemUUIDDiffers, "runs on another server"},
		"of k3s":                                  {uuid, turned, "k3s://x", "x", "", []v1alpha1.BareMetalHost{host}, false, v1alpha1.ReasonNodeProviderIDDiffers, "--disable-cloud-controller and --kubelet-arg=provider-id=" + machineID},
		"of RKE2, by its name":                    {"", uuid, "rke2://m", "m", "192.0.2.9", nil, false, v1alpha1.ReasonNodeProviderIDDiffers, "--disable-cloud-controller"},
		"of another cloud":                        {uuid, uuid, "aws:///eu-1/i-1", "x", "", []v1alpha1.BareMetalHost{host}, false, v1alpha1.ReasonNodeProviderIDDiffers, "start the kubelet with --provider-id=" + machineID},
		"of another cloud, elsewhere":             {uuid, another, "aws:///eu-1/i-1", "x", "", []v1alpha1.BareMetalHost{other}, false, "", ""},
		"without a provider ID":                   {uuid, uuid, "", "x", "", []v1alpha1.BareMetalHost{host}, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host.Status.Hardware = &v1alpha1.Hardware{SystemUUID: test.ofHost}
			node := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: test.name, CreationTimestamp: then}, Spec: corev1.NodeSpec{ProviderID: test.providerID},
				Status: corev1.NodeStatus{
					NodeInfo: corev1.NodeSystemInfo{SystemUUID: test.ofNode}, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: test.address}},
				},
			}
			g.Expect(matches(node, &host, boot, test.hosts)).To(Equal(test.matches))
			why := mismatch(node, &host, boot, test.hosts)
			if test.reason == "" {
				g.Expect(why).To(BeNil())
				return
			}
			g.Expect(why.Reason).To(Equal(test.reason))
			g.Expect(why.Message).To(ContainSubstring(test.message))
			node.CreationTimestamp = metav1.NewTime(then.Add(-time.Second))
			g.Expect(mismatch(node, &host, boot, test.hosts)).To(BeNil(), "it is of a former machine")
		})
	}
}

// TestStripNode: the cache keeps only the fields of a Node that are read, and a heartbeat is no change.
func TestStripNode(t *testing.T) {
	g := NewWithT(t)
	node := func(heartbeat time.Time) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: heartbeat.String(), Annotations: map[string]string{"a": "b"}},
			Spec:       corev1.NodeSpec{ProviderID: "baremetal://dc/h/m", PodCIDR: "10.0.0.0/24"},
			Status: corev1.NodeStatus{
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.NewTime(heartbeat)}},
			},
		}
		for range 50 {
			n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{"registry.example/some/image@sha256:0123456789abcdef"}, SizeBytes: 1})
		}
		return n
	}
	now := time.Now()
	before, err := stripNode(node(now))
	g.Expect(err).NotTo(HaveOccurred())
	after, err := stripNode(node(now.Add(time.Minute)))
	g.Expect(err).NotTo(HaveOccurred())
	update := event.UpdateEvent{ObjectOld: before.(*corev1.Node), ObjectNew: after.(*corev1.Node)}
	g.Expect(nodeChanged(update)).To(BeFalse())
	update.ObjectNew.(*corev1.Node).Status.Conditions[0].Status = corev1.ConditionUnknown
	g.Expect(nodeChanged(update)).To(BeTrue())
	kept, err := json.Marshal(before)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(kept)).To(BeNumerically("<", 1200))
	g.Expect(before.(*corev1.Node).Spec.ProviderID).To(Equal("baremetal://dc/h/m"))
	hostile := node(now)
	hostile.Name, hostile.Status.NodeInfo.SystemUUID = strings.Repeat("n", 1<<20), strings.Repeat("u", 1<<20)
	hostile.Status.Addresses = slices.Repeat([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: strings.Repeat("9", 1<<10)}}, 1000)
	stripped, err := stripNode(hostile)
	g.Expect(err).NotTo(HaveOccurred())
	kept, err = json.Marshal(stripped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(kept)).To(BeNumerically("<", 48<<10), "a Node that no real API server has")
	hostile = node(now)
	hostile.Annotations[v1alpha1.NodeLabelsAnnotation] = strings.Repeat("example.com/a,", 1<<16)
	hostile.Labels = map[string]string{"example.com/a": strings.Repeat("v", 1<<20)}
	stripped, err = stripNode(hostile)
	g.Expect(err).NotTo(HaveOccurred())
	kept, err = json.Marshal(stripped)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(kept)).To(BeNumerically("<", 2<<10), "an annotation that the provider did not write")
	other, err := stripNode(&corev1.Pod{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other).To(Equal(&corev1.Pod{}))
}

// TestLabelsOfOthers: the annotation of a Node that its kubelet wrote takes no label from the Node that the kubelet may not remove.
func TestLabelsOfOthers(t *testing.T) {
	g := NewWithT(t)
	labels := map[string]string{"node-restriction.kubernetes.io/tenant": "a", "node.cluster.x-k8s.io/pool": "b", "plain": "c", "example.com/x": "d", "topology.kubernetes.io/rack": "e"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels: maps.Clone(labels), Annotations: map[string]string{v1alpha1.NodeLabelsAnnotation: strings.Join(slices.Collect(maps.Keys(labels)), ",")},
	}}
	g.Expect(changeLabels(node, nil)).To(BeTrue())
	delete(labels, "example.com/x")
	g.Expect(node.Labels).To(Equal(labels))
}

// TestHostLabels: which labels of a host its Node gets.
func TestHostLabels(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{}
	host.Spec.FailureDomain = strings.Repeat("x", 64)
	prefixes := []string{"example.com/", "topology.kubernetes.io/"}
	g.Expect(labelsOf(host, prefixes)).To(BeEmpty(), "no value of a label")
	host.Spec.FailureDomain, host.Labels = "room", map[string]string{corev1.LabelTopologyZone: "own", "topology.kubernetes.io/rack": "not of Kubernetes"}
	g.Expect(labelsOf(host, prefixes)).To(Equal(map[string]string{corev1.LabelTopologyZone: "own"}))
	g.Expect(labelsOf(host, nil)).To(BeEmpty())
	for n := range 100 {
		host.Labels[fmt.Sprintf("example.com/%02d", n)] = "v"
	}
	g.Expect(labelsOf(host, prefixes)).To(And(HaveLen(maxLabels), HaveKey("example.com/31"), Not(HaveKey("example.com/32"))))
}

// TestLabelWrites: the labels of a Node that something else changes back are written once in the interval.
func TestLabelWrites(t *testing.T) {
	g := NewWithT(t)
	var w labelWrites
	now := time.Now()
	a, b := client.ObjectKey{Name: "a"}, client.ObjectKey{Name: "b"}
	g.Expect(w.wait(a, time.Minute, now)).To(BeZero())
	g.Expect(w.wait(a, time.Minute, now.Add(20*time.Second))).To(Equal(40 * time.Second))
	g.Expect(w.wait(b, time.Minute, now.Add(20*time.Second))).To(BeZero())
	g.Expect(w.wait(a, time.Minute, now.Add(time.Minute))).To(BeZero())
	g.Expect(w.last).To(HaveLen(2))
	g.Expect(w.wait(a, time.Minute, now.Add(time.Hour))).To(BeZero())
	g.Expect(w.last).To(HaveLen(1), "old entries are removed")
}

// TestIsBareMetal: clusters of other providers get no connection.
func TestIsBareMetal(t *testing.T) {
	g := NewWithT(t)
	for kind, want := range map[string]bool{"BareMetalCluster": true, "AWSCluster": false} {
		cluster := &clusterv1.Cluster{Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "infrastructure.cluster.x-k8s.io", Kind: kind, Name: "c",
		}}}
		g.Expect(isBareMetal(cluster)).To(Equal(want), kind)
	}
}
