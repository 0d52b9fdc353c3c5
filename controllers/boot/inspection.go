package boot

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

const (
	// maxInspection is the maximum size of the spec of a BareMetalInspection as JSON, in bytes.
	maxInspection = 32 << 10
	// lldpSeconds is how long an agent waits for LLDP frames: a little more than the interval of most switches.
	lldpSeconds = 35
	// maxInspected is the maximum length of a list in a BareMetalInspection, as in the API.
	maxInspected = 512
)

// Inventory writes what the agent found to the BareMetalInspection of the host.
func (s *agents) Inventory(ctx context.Context, r pxe.AgentRequest, found wire.Inspection) error {
	a, err := s.guard.withAgent(ctx, r, true, nil, func(a attempt) error {
		if a.boot.Spec.Purpose != v1alpha1.PurposeInspect || a.boot.Spec.AgentDoneTime != nil {
			return refused("the boot of %s inspects nothing, or is over", r.Host)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !s.reports.allow(keyOf(a.boot), s.clock.Now()) { // an agent reports once, and again if the answer was lost
		return tooEarly("the agent of %s reports its inventory too often", r.Host)
	}
	spec := inspectionOf(found)
	spec.BootNumber, spec.ReceivedTime = a.boot.Spec.Number, metav1.NewTime(s.clock.Now())
	switch content, err := json.Marshal(spec); {
	case err != nil:
		return fmt.Errorf("encode the report of the agent: %w", err)
	case len(content) > maxInspection:
		return refused("the report of the agent of %s has %d bytes, and the maximum is %d", r.Host, len(content), maxInspection)
	}
	return s.inspections.writeInspection(ctx, a.host, spec)
}

// inspections read and write the BareMetalInspections: what agents found on the servers of hosts.
type inspections struct {
	client    client.Client
	apiReader client.Reader
}

// writeInspection creates the BareMetalInspection of a host, or replaces its spec.
func (i *inspections) writeInspection(ctx context.Context, host *v1alpha1.BareMetalHost, spec v1alpha1.BareMetalInspectionSpec) error {
	object := &v1alpha1.BareMetalInspection{}
	err := i.apiReader.Get(ctx, client.ObjectKeyFromObject(host), object)
	switch {
	case apierrors.IsNotFound(err):
		object = &v1alpha1.BareMetalInspection{ObjectMeta: metav1.ObjectMeta{
			Namespace: host.Namespace, Name: host.Name, OwnerReferences: []metav1.OwnerReference{controllers.OwnedByHost(host)},
		}, Spec: spec}
		err = i.client.Create(ctx, object)
	case err == nil:
		before := object.DeepCopy()
		object.Spec = spec
		err = i.client.Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err != nil {
		return fmt.Errorf("write the BareMetalInspection of the host: %w", err)
	}
	return nil
}

// inspected is true once the report of an inspection was written.
func (i *inspections) inspected(ctx context.Context, a attempt) (bool, error) {
	report := &v1alpha1.BareMetalInspection{}
	err := i.apiReader.Get(ctx, client.ObjectKeyFromObject(a.host), report)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return report.Spec.BootNumber == a.boot.Spec.Number, nil
}

// inspectionOf returns the record of what an agent found, within the limits of the API and with its words: an agent may report anything. It changes found.
func inspectionOf(found wire.Inspection) v1alpha1.BareMetalInspectionSpec {
	controllers.ClipReport(&found, controllers.MaxText, maxInspected)
	found.FirmwareMode, found.SecureBoot = firmwareModeOf(found.FirmwareMode), secureBootOf(found.SecureBoot)
	for i := range found.Disks {
		d := &found.Disks[i]
		d.Transport, d.Health = transportOf(d.Transport), controllers.HealthOf(d.Health)
		d.EraseClass = controllers.OneOf(d.EraseClass, wire.PolicyClear, wire.PolicyPurge)
	}
	return v1alpha1.BareMetalInspectionSpec{Inspection: found}
}

func firmwareModeOf(mode wire.FirmwareMode) wire.FirmwareMode {
	return controllers.OneOf(mode, wire.FirmwareUEFI, wire.FirmwareBIOS)
}

func secureBootOf(state wire.SecureBoot) wire.SecureBoot {
	return controllers.OneOf(state, wire.SecureBootEnabled, wire.SecureBootDisabled)
}

// transportOf returns how a disk is connected. A word that the API does not have is TransportOther.
func transportOf(transport wire.DiskTransport) wire.DiskTransport {
	if transport == "" {
		return ""
	}
	return cmp.Or(controllers.OneOf(transport, wire.TransportNVMe, wire.TransportNVMeOverFabrics, wire.TransportSATA, wire.TransportSAS, wire.TransportSCSI,
		wire.TransportFibreChannel, wire.TransportISCSI, wire.TransportVirtio, wire.TransportUSB, wire.TransportMMC), wire.TransportOther)
}

func text(s string) string { return controllers.Clip(s, controllers.MaxText) }
