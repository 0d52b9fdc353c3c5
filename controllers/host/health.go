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

// component is a part of a server whose health its BMC reports.
type component struct {
	kind, name, model, serial string
	health                    wire.Health
}

// componentsOf returns the components of a server that are not healthy. The server itself is one of them, if none of its components explains its health.
func componentsOf(hw *v1alpha1.Hardware) []component {
	var all []component
	for _, d := range hw.Disks {
		all = append(all, component{"disk", d.Name, d.Model, d.SerialNumber, d.Health})
	}
	for _, d := range hw.DIMMs {
		all = append(all, component{"memory module", d.Name, d.PartNumber, d.SerialNumber, d.Health})
	}
	for _, p := range hw.PowerSupplies {
		all = append(all, component{"power supply", p.Name, p.Model, "", p.Health})
	}
	for _, d := range hw.Devices {
		all = append(all, component{cmp.Or(d.Class, "device"), d.Name, d.Model, d.SerialNumber, d.Health})
	}
	unhealthy := slices.DeleteFunc(all, func(c component) bool { return !isUnhealthy(c.health) })
	if isUnhealthy(hw.Health) && len(unhealthy) == 0 || hw.Health == wire.HealthCritical && !slices.ContainsFunc(unhealthy, component.isCritical) {
		unhealthy = append(unhealthy, component{kind: "server", health: hw.Health})
	}
	return unhealthy
}

func (c component) isCritical() bool { return c.health == wire.HealthCritical }

// isCritical is true if an inventory has a component that is critical.
func isCritical(hw *v1alpha1.Hardware) bool {
	return hw != nil && slices.ContainsFunc(componentsOf(hw), component.isCritical)
}

func isUnhealthy(health wire.Health) bool {
	return health == wire.HealthWarning || health == wire.HealthCritical
}

// text describes a component, such as "disk 3 (model VK000960GXAWL, serial number 21122DE9C12C): Critical".
func (c component) text() string {
	var details []string
	if c.model != "" {
		details = append(details, "model "+c.model)
	}
	if c.serial != "" {
		details = append(details, "serial number "+c.serial)
	}
	name := strings.TrimSpace(c.kind + " " + c.name)
	if len(details) > 0 {
		name += " (" + strings.Join(details, ", ") + ")"
	}
	return name + ": " + string(c.health)
}

// maxNamedComponents is how many components a message names.
const maxNamedComponents = 8

// textOf describes components, the critical ones first.
func textOf(unhealthy []component) string {
	slices.SortStableFunc(unhealthy, func(a, b component) int { return cmp.Compare(a.health, b.health) }) // Critical sorts before Warning
	var texts []string
	for _, c := range unhealthy[:min(len(unhealthy), maxNamedComponents)] {
		texts = append(texts, c.text())
	}
	if more := len(unhealthy) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, "; ")
}

// setHardwareHealthy sets the condition HardwareHealthy from the inventory. Without an inventory it deletes the condition.
func setHardwareHealthy(host *v1alpha1.BareMetalHost) {
	hw := host.Status.Hardware
	if hw == nil {
		conditions.Delete(host, v1alpha1.HardwareHealthyCondition)
		return
	}
	c := metav1.Condition{
		Type: v1alpha1.HardwareHealthyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHardwareOK, ObservedGeneration: host.Generation,
	}
	switch unhealthy := componentsOf(hw); {
	case len(unhealthy) > 0:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonHardwareWarning
		if isCritical(hw) {
			c.Reason = v1alpha1.ReasonHardwareCritical
		}
		c.Message = "The BMC reports " + textOf(unhealthy)
	case hw.Health == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonHealthUnknown, "The BMC does not report the health of the server"
	}
	c.Message = controllers.Clip(c.Message, controllers.MaxMessage)
	conditions.Set(host, c)
}
