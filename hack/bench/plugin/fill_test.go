package plugin

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const (
	namespace = "fleet"
	// writers is how many objects are written at once.
	writers = 16
	// rack is the number of hosts of a failure domain.
	rack = 40
)

// fill creates the objects of a fleet: hosts, of which the first boot, their boots and machines, and a machine that no host fits. What exists already stays.
func fill(tb testing.TB, hosts int) {
	tb.Helper()
	g := NewWithT(tb)
	start := time.Now()
	ctx := tb.Context()
	g.Expect(client.IgnoreAlreadyExists(env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))).To(Succeed())
	g.Expect(create(ctx, &clusterv1.Cluster{ObjectMeta: meta(namespace), Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: namespace},
	}}, nil)).To(Succeed())
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range hosts {
		group.Go(func() error { return createHost(ctx, i) })
	}
	for i := range bootingHosts {
		group.Go(func() error { return createMachine(ctx, fmt.Sprintf("machine-%d", i), fmt.Sprintf("host-%d", i)) })
	}
	group.Go(func() error { return createMachine(ctx, "waiting", "") })
	g.Expect(group.Wait()).To(Succeed())
	tb.Logf("%d hosts were created in %.0f s", hosts, time.Since(start).Seconds())
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: namespace}}
}

// create creates an object and, with status, its status. An object that exists stays.
func create(ctx context.Context, object client.Object, status func()) error {
	err := env.Client.Create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil || status == nil {
		return err
	}
	status()
	return env.Client.Status().Update(ctx, object)
}

// createHost creates the host with this number. Those below bootingHosts boot, every third of the others is provisioned, and one in a hundred has a fault.
func createHost(ctx context.Context, number int) error {
	name := fmt.Sprintf("host-%d", number)
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"rack": fmt.Sprint("r", number/rack)}},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC:              v1alpha1.BMC{Address: fmt.Sprintf("redfish://10.%d.%d.%d", number>>16&0xff, number>>8&0xff, number&0xff), CredentialsSecretName: name + "-bmc"},
			BootMACAddresses: []string{fmt.Sprintf("52:54:00:%02x:%02x:%02x", number>>16&0xff, number>>8&0xff, number&0xff)}, FailureDomain: fmt.Sprint("r", number/rack),
		},
	}
	phase, ready := v1alpha1.PhaseAvailable, v1alpha1.ReadyCondition
	reason, status := ready, metav1.ConditionTrue
	switch {
	case number < bootingHosts:
		host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: fmt.Sprintf("machine-%d", number), ClaimID: name}
		phase, reason, status = v1alpha1.PhaseBooting, v1alpha1.ReasonWaitingForDHCP, metav1.ConditionFalse
	case number%3 == 0:
		phase = v1alpha1.PhaseProvisioned
	case number%100 == 1:
		phase, reason, status = v1alpha1.PhaseUnavailable, v1alpha1.ReasonCredentialsRefused, metav1.ConditionFalse
	}
	err := create(ctx, host, func() {
		host.Status = v1alpha1.BareMetalHostStatus{Phase: phase, Power: v1alpha1.PowerOff, Hardware: hardware(number), Conditions: hostConditions(reason, status)}
	})
	if err != nil || number >= bootingHosts {
		return err
	}
	return createBoot(ctx, number)
}

// hostConditions has as many conditions as the provider writes. Ready has the reason.
func hostConditions(reason string, status metav1.ConditionStatus) []metav1.Condition {
	since := metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	conditions := []metav1.Condition{{Type: v1alpha1.ReadyCondition, Status: status, Reason: reason, Message: "Waiting for what the reason says", LastTransitionTime: since}}
	for _, kind := range []string{
		v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition, v1alpha1.AvailableCondition, v1alpha1.HardwareHealthyCondition, v1alpha1.PreflightPassedCondition,
	} {
		conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Known", LastTransitionTime: since})
	}
	return conditions
}

// hardware is the inventory of a usual server.
func hardware(number int) *v1alpha1.Hardware {
	h := &v1alpha1.Hardware{
		Manufacturer: "Example", Model: "R2", SerialNumber: fmt.Sprintf("SN%08d", number), SystemUUID: fmt.Sprintf("4c4c4544-0034-4b10-8057-%012x", number), FirmwareVersion: "2.1.0",
		CPU: v1alpha1.CPU{Model: "Example 32 cores", Sockets: 2, Threads: 128}, Memory: resource.MustParse("512Gi"), Architecture: "amd64", Health: wire.HealthOK,
	}
	for i := range 8 {
		h.DIMMs = append(h.DIMMs, v1alpha1.DIMM{Name: fmt.Sprint("DIMM ", i), Manufacturer: "Example", PartNumber: "M64", SerialNumber: fmt.Sprintf("D%08d%d", number, i)})
	}
	for i := range 4 {
		h.Disks = append(h.Disks, v1alpha1.Disk{Name: fmt.Sprint("Disk ", i), Size: resource.MustParse("894Gi"), Model: "PM9A3", SerialNumber: fmt.Sprintf("S%08d%d", number, i), Rotational: new(false)})
		h.NICs = append(h.NICs, v1alpha1.NIC{Name: fmt.Sprint("NIC ", i), MACAddress: fmt.Sprintf("52:54:01:%02x:%02x:%02x", number>>8&0xff, number&0xff, i), SpeedMbps: 25_000, LinkUp: new(true)})
	}
	return h
}

// createBoot creates the record of the boot of a host, which waits for the DHCP request.
func createBoot(ctx context.Context, number int) error {
	name, start := fmt.Sprintf("host-%d", number), metav1.NewTime(time.Now().Add(-time.Minute).Truncate(time.Second))
	boot := &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.BareMetalBootSpec{
			Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: name, MachineName: fmt.Sprintf("machine-%d", number), StartTime: start,
		},
	}
	return create(ctx, boot, func() {
		boot.Status = v1alpha1.BareMetalBootStatus{Stage: v1alpha1.StageStarted, Stages: []v1alpha1.ObservedStage{{Stage: v1alpha1.StageStarted, Number: 1, Time: start}}}
	})
}

// createMachine creates a Machine and its BareMetalMachine, which has a host or waits for one.
func createMachine(ctx context.Context, name, host string) error {
	machine := &clusterv1.Machine{ObjectMeta: meta(name), Spec: clusterv1.MachineSpec{
		ClusterName: namespace, Bootstrap: clusterv1.Bootstrap{DataSecretName: &name},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalMachine", Name: name},
	}}
	if err := create(ctx, machine, nil); err != nil {
		return err
	}
	infra := &v1alpha1.BareMetalMachine{ObjectMeta: meta(name), Spec: v1alpha1.BareMetalMachineSpec{
		HostSelector: &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "none"}},
		Boot: v1alpha1.BootSource{
			Kernel: v1alpha1.Artifact{URL: "http://192.0.2.1/kernel", Checksum: "sha256:" + strings.Repeat("0", 64)}, Persistence: v1alpha1.PersistenceInstalled,
		},
	}}
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: machine.UID}}
	if machine.UID == "" { // it existed already, and so does the BareMetalMachine
		return nil
	}
	return create(ctx, infra, func() {
		claimed := metav1.Condition{Type: v1alpha1.HostClaimedCondition, Status: metav1.ConditionTrue, Reason: "Claimed", LastTransitionTime: metav1.Now()}
		if host == "" {
			claimed.Status, claimed.Reason = metav1.ConditionFalse, v1alpha1.ReasonNoHostFits
			claimed.Message = "None of the hosts fits: all of them do not match hostSelector"
		} else {
			infra.Status.HostRef = &v1alpha1.HostReference{Name: host}
		}
		infra.Status.Conditions = []metav1.Condition{claimed, {Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: claimed.Reason, LastTransitionTime: metav1.Now()}}
	})
}
