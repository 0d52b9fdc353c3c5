package boot

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// expectedServer is how the server of a host identifies itself to an agent that runs on it and found an identity, as far as that is known. An inspection may run on any server: its
// report shows that the rows of two servers are swapped.
func expectedServer(a attempt, found inventory.ServerID) inventory.ServerID {
	switch {
	case a.boot.Spec.Purpose == v1alpha1.PurposeInspect:
		return inventory.ServerID{}
	case a.host.Spec.SystemUUID != "": // also instead of a serial number of the chassis
		return inventory.ServerID{SystemUUID: a.host.Spec.SystemUUID}
	}
	var expected inventory.ServerID
	if h := a.host.Status.Hardware; h != nil {
		expected = inventory.ServerID{SystemUUID: h.SystemUUID, SerialNumber: systemSerial(h)}
	}
	// Some BMCs have a GUID of their own in the place of the system's (IPMI 2.0, 22.14), whose byte order is guessed besides: one serial number says more.
	byUUID, bySerial := inventory.ServerID{SystemUUID: expected.SystemUUID}, inventory.ServerID{SerialNumber: expected.SerialNumber}
	if strings.HasPrefix(a.host.Spec.BMC.Address, "ipmi") && byUUID.Compare(found) == inventory.OtherServer && bySerial.Compare(found) == inventory.SameServer {
		expected.SystemUUID = ""
	}
	if lifecycle.IsRequestedErasure(&a.boot.Spec) {
		expected.SerialNumber = cmp.Or(expected.SerialNumber, a.boot.Spec.ErasureRequest.SerialNumber)
	}
	return expected
}

// systemSerial returns the serial number that a BMC reports for the system. Without one, the inventory has that of the chassis or of a baseboard (docs/development/inventory.md), which an agent
// need not find.
func systemSerial(h *v1alpha1.Hardware) string {
	for _, fact := range h.Facts {
		if fact.Name == string(bmc.FactSerialNumber) && serialOfPart.MatchString(fact.Source) {
			return ""
		}
	}
	return h.SerialNumber
}

// serialOfPart matches the Redfish resources of a chassis or a baseboard.
var serialOfPart = regexp.MustCompile(`/Chassis/|/Systems/HGX_`)

// checkServer refuses an agent that runs on another server than the host's. The BMC's commands reach one server, and the server with spec.bootMACAddresses boots: if the rows of
// two servers are swapped, these are two servers, and the wrong one would be erased.
func (s *agents) checkServer(a attempt, server agent.Server) error {
	found := inventory.ServerID(server)
	expected := expectedServer(a, found)
	if expected.Compare(found) != inventory.OtherServer {
		return nil
	}
	why := inventory.DescribeOtherServer(expected, found)
	a.recordProblem(s.stages, wire.ReasonOtherServer, errors.New(why))
	return otherServerError(why)
}

// otherServerError is a pxe.ErrOtherServer.
type otherServerError string

func (e otherServerError) Error() string { return string(e) }
func (e otherServerError) Unwrap() error { return pxe.ErrOtherServer }

// reportUnknownServer records, once for a boot, that nothing shows that the agent runs on the server of the host. It stops nothing: racks are sold whose firmware has
// placeholders.
func (s *agents) reportUnknownServer(a attempt, server agent.Server) {
	found := inventory.ServerID(server)
	expected := expectedServer(a, found)
	if a.boot.Spec.Purpose == v1alpha1.PurposeInspect || controllers.ObservedStage(a.boot, v1alpha1.StageAgent) != nil || expected.Compare(found) != inventory.MatchUnknown {
		return
	}
	s.events.recordAgentEvent(a.boot, true, controllers.EventServerUnknown,
		"Nothing shows that the agent runs on the server of the host: the BMC reports %s, and the agent found %s", expected, found)
}
