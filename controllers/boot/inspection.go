package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
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
func (s *agents) Inventory(ctx context.Context, r pxe.AgentRequest, found agent.Inventory) error {
	a, err := s.guard.withAgent(ctx, r, true, func(a attempt) error {
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

// inspectionOf converts the report of an agent, with texts and lists cut to the limits of the API: an agent may report anything.
func inspectionOf(i agent.Inventory) v1alpha1.BareMetalInspectionSpec {
	out := v1alpha1.BareMetalInspectionSpec{
		AgentRelease: text(i.Release),
		System: v1alpha1.InspectedSystem{
			Manufacturer: text(i.System.Manufacturer), Model: text(i.System.Product), SerialNumber: text(i.System.SerialNumber), SystemUUID: text(i.System.UUID),
			BoardSerialNumber: text(i.System.BoardSerial), FirmwareVendor: text(i.System.FirmwareVendor), FirmwareVersion: text(i.System.FirmwareVersion),
			FirmwareDate: text(i.System.FirmwareDate),
		},
		CPU: v1alpha1.InspectedCPU{
			Architecture: text(i.CPU.Architecture), Model: text(i.CPU.Model), Sockets: number(i.CPU.Sockets), Cores: number(i.CPU.Cores),
			Threads: number(i.CPU.Threads), NUMANodes: number(i.CPU.NUMANodes), Features: texts(i.CPU.Features),
		},
		Memory:       v1alpha1.InspectedMemory{Bytes: max(i.Memory.Bytes, 0), DIMMs: each(i.Memory.DIMMs, inspectedDIMM)},
		Disks:        each(i.Disks, inspectedDisk),
		NICs:         each(i.NICs, inspectedNIC),
		FirmwareMode: firmwareModeOf(i.Firmware.Mode), SecureBoot: secureBootOf(i.Firmware.SecureBoot), Problems: texts(i.Problems),
		Devices: each(i.Devices, func(d agent.PCI) v1alpha1.InspectedDevice {
			return v1alpha1.InspectedDevice{PCIAddress: text(d.Address), Class: text(d.Class), Vendor: text(d.Vendor), Device: text(d.Device)}
		}),
	}
	if i.BMC != nil {
		out.BMC = &v1alpha1.InspectedBMC{
			Address: text(i.BMC.Address), Address6: text(i.BMC.Address6), MACAddress: text(i.BMC.MAC), FirmwareVersion: text(i.BMC.Firmware),
		}
	}
	if i.TPM != nil {
		out.TPMVersion = text(i.TPM.Version)
	}
	return out
}

func inspectedDIMM(d agent.DIMM) v1alpha1.InspectedDIMM {
	return v1alpha1.InspectedDIMM{
		Slot: text(d.Slot), Bytes: max(d.Bytes, 0), Type: text(d.Type), SpeedMTs: number(d.SpeedMTs), Manufacturer: text(d.Manufacturer),
		PartNumber: text(d.PartNumber), SerialNumber: text(d.SerialNumber),
	}
}

func inspectedDisk(d agent.Disk) v1alpha1.InspectedDisk {
	return v1alpha1.InspectedDisk{
		Name: text(d.Name), ByPath: text(d.ByPath), HCTL: text(d.HCTL), Vendor: text(d.Vendor), Model: text(d.Model), SerialNumber: text(d.SerialNumber),
		WWN: text(d.WWN), FirmwareVersion: text(d.Firmware), SizeBytes: max(d.SizeBytes, 0), LogicalSectorBytes: number(d.LogicalSector),
		PhysicalSectorBytes: number(d.PhysicalSector), Rotational: d.Rotational, Transport: transportOf(d.Transport), Removable: d.Removable, ReadOnly: d.ReadOnly,
		Health: controllers.HealthOf(d.Health), EraseMethods: texts(d.Erase),
		EraseClass: controllers.OneOf(d.EraseClass, wire.PolicyClear, wire.PolicyPurge), Signatures: texts(d.Signatures), Holders: texts(d.Holders), Protected: text(d.Protected),
	}
}

func inspectedNIC(n agent.NIC) v1alpha1.InspectedNIC {
	out := v1alpha1.InspectedNIC{
		Name: text(n.Name), MACAddress: text(n.MAC), PCIAddress: text(n.PCI), Vendor: text(n.Vendor), Device: text(n.Device), Driver: text(n.Driver),
		FirmwareVersion: text(n.Firmware), SpeedMbps: number(n.SpeedMbps), LinkUp: n.LinkUp,
	}
	if n.NUMANode != nil {
		out.NUMANode = new(number(*n.NUMANode))
	}
	if l := n.LLDP; l != nil {
		out.Neighbor = &v1alpha1.InspectedNeighbor{
			ChassisID: text(l.ChassisID), SystemName: text(l.SystemName), SystemDescription: text(l.SystemDescription), PortID: text(l.PortID),
			PortDescription: text(l.PortDescription), ManagementAddress: text(l.ManagementAddress), VLAN: number(l.VLAN),
		}
	}
	return out
}

func firmwareModeOf(firmware agent.Firmware) v1alpha1.FirmwareMode {
	return controllers.OneOf(firmware, v1alpha1.FirmwareUEFI, v1alpha1.FirmwareBIOS)
}

func secureBootOf(state agent.SecureBoot) v1alpha1.SecureBoot {
	return controllers.OneOf(state, v1alpha1.SecureBootEnabled, v1alpha1.SecureBootDisabled)
}

func text(s string) string { return controllers.Clip(s, controllers.MaxText) }

func texts(all []string) []string { return each(all, text) }

// number limits a number to those that the API can have.
func number(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) } //nolint:gosec // it is limited

// each converts the elements of a list, up to the limit of the API.
func each[From, To any](from []From, convert func(From) To) []To {
	var out []To
	for _, element := range from[:min(len(from), maxInspected)] {
		out = append(out, convert(element))
	}
	return out
}
