package host

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// partsOf returns the parts of an inventory that are not healthy, with the server itself, which has the given health.
func partsOf(hw *v1alpha1.Hardware, server wire.Health) []v1alpha1.UnhealthyPart {
	if hw == nil {
		return nil
	}
	var parts []v1alpha1.UnhealthyPart
	add := func(class v1alpha1.PartClass, name, model, serial string, health wire.Health) {
		if isUnhealthy(health) {
			parts = append(parts, v1alpha1.UnhealthyPart{Class: class, Name: name, Model: model, SerialNumber: serial, Health: health})
		}
	}
	for _, d := range hw.Disks {
		add(v1alpha1.PartDisk, d.Name, d.Model, d.SerialNumber, d.Health)
	}
	for _, d := range hw.DIMMs {
		add(v1alpha1.PartMemory, d.Name, d.PartNumber, d.SerialNumber, d.Health)
	}
	for _, p := range hw.PowerSupplies {
		add(v1alpha1.PartPowerSupply, p.Name, p.Model, "", p.Health)
	}
	for _, d := range hw.Devices {
		add(v1alpha1.PartDevice, controllers.Clip(strings.TrimSpace(cmp.Or(d.Class, "device")+" "+d.Name), controllers.MaxText), d.Model, d.SerialNumber, d.Health)
	}
	add(v1alpha1.PartServer, "", "", "", server)
	return parts
}

// isCritical is true if an inventory has a part that is critical.
func isCritical(hw *v1alpha1.Hardware) bool {
	return hw != nil && slices.ContainsFunc(partsOf(hw, hw.Health), func(p v1alpha1.UnhealthyPart) bool { return p.Health == wire.HealthCritical })
}

func isUnhealthy(health wire.Health) bool {
	return health == wire.HealthWarning || health == wire.HealthCritical
}

// classWord is a class with its words in a message and its reason of the condition HardwareHealthy.
type classWord struct{ text, reason string }

var classWords = map[v1alpha1.PartClass]classWord{
	v1alpha1.PartDisk:        {"disk", v1alpha1.ReasonDiskUnhealthy},
	v1alpha1.PartVolume:      {"volume", v1alpha1.ReasonVolumeUnhealthy},
	v1alpha1.PartMemory:      {"memory module", v1alpha1.ReasonMemoryUnhealthy},
	v1alpha1.PartCPU:         {"processor", v1alpha1.ReasonCPUUnhealthy},
	v1alpha1.PartPowerSupply: {"power supply", v1alpha1.ReasonPowerSupplyUnhealthy},
	v1alpha1.PartFan:         {"fan", v1alpha1.ReasonFanUnhealthy},
	v1alpha1.PartTemperature: {"temperature", v1alpha1.ReasonTemperatureUnhealthy},
	v1alpha1.PartVoltage:     {"voltage", v1alpha1.ReasonVoltageUnhealthy},
	v1alpha1.PartNIC:         {"network interface", v1alpha1.ReasonNICUnhealthy},
	v1alpha1.PartDevice:      {"", v1alpha1.ReasonDeviceUnhealthy}, // its name has the class of the device
	v1alpha1.PartBMC:         {"BMC", v1alpha1.ReasonBMCUnhealthy},
	v1alpha1.PartChassis:     {"chassis", v1alpha1.ReasonChassisUnhealthy},
	v1alpha1.PartServer:      {"server", v1alpha1.ReasonServerUnhealthy},
}

// isUnhealthyReason is true for the reasons of a condition that is False.
func isUnhealthyReason(reason string) bool {
	for _, word := range classWords {
		if word.reason == reason {
			return true
		}
	}
	return false
}

// textOf describes a part, such as "disk 3 (model VK000960GXAWL, serial number 21122DE9C12C): Critical".
func textOf(p v1alpha1.UnhealthyPart) string {
	var details []string
	if p.Model != "" {
		details = append(details, "model "+p.Model)
	}
	if p.SerialNumber != "" {
		details = append(details, "serial number "+p.SerialNumber)
	}
	name := strings.TrimSpace(classWords[p.Class].text + " " + p.Name)
	if len(details) > 0 {
		name += " (" + strings.Join(details, ", ") + ")"
	}
	return name + ": " + string(p.Health)
}

// maxNamedParts is how many parts a message names.
const maxNamedParts = 8

// textOfAll describes the parts of a status, the worst ones first.
func textOfAll(status *v1alpha1.HealthStatus) string {
	var texts []string
	for _, p := range status.Parts[:min(len(status.Parts), maxNamedParts)] {
		texts = append(texts, textOf(p))
	}
	if more := len(status.Parts) - len(texts) + int(status.OmittedParts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// flappingNote says in the condition why it does not change.
const flappingNote = ". This changed more than 3 times in 10 minutes or 4 readings: the worst state is shown until nothing changes for as long"

// setHardwareHealthy sets the condition HardwareHealthy from what is reported. Without an inventory it deletes the condition. rollup is the last reading of the health in this process;
// unread is true if no reading succeeds any more.
func setHardwareHealthy(host *v1alpha1.BareMetalHost, rollup wire.Health, unread bool) {
	hw, status := host.Status.Hardware, host.Status.Health
	if hw == nil {
		conditions.Delete(host, v1alpha1.HardwareHealthyCondition)
		return
	}
	c := metav1.Condition{
		Type: v1alpha1.HardwareHealthyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHardwareOK, ObservedGeneration: host.Generation,
	}
	wasOK := conditions.GetReason(host, v1alpha1.HardwareHealthyCondition) == v1alpha1.ReasonHardwareOK
	switch {
	case status != nil && len(status.Parts) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, classWords[status.Parts[0].Class].reason
		c.Message = "The BMC reports " + textOfAll(status)
	case hw.Health == "" && (unread || rollup == "" && !wasOK): // an inventory without a health, as that of IPMI, says nothing until the health was read
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonHealthUnknown, "The BMC does not report the health of the server"
	}
	if status != nil && status.Flapping {
		c.Message += flappingNote
	}
	c.Message = controllers.Clip(strings.TrimPrefix(c.Message, ". "), controllers.MaxMessage)
	conditions.Set(host, c)
}
