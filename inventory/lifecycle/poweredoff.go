package lifecycle

import (
	"fmt"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// A machine on disk survives the loss of its server's power. The loss is reported here; restorePower does more where spec.whenPoweredOff requests it. Two witnesses must agree (docs/decisions/0046): the BMC, and
// the Node.
const (
	// minOffForReport is how long a server must read as off before that is reported: BMCs answer nonsense while they restart.
	minOffForReport = time.Minute
	// nodeUnreadableFor is how long the Node must be unreadable to count as the second witness. The API server may run on the same rack.
	nodeUnreadableFor = 5 * time.Minute
	// minOffForDispute is how long a server must read as off before a Ready Node contradicts its BMC. Kubernetes notices a silent kubelet after 40 to 55 seconds.
	minOffForDispute = 2 * time.Minute
)

// offFor returns for how long all readings of the power have been "off"; at most zero after a single one. Only readings after the last power command and the last failure of the
// BMC count, and after the server fetched its bootstrap data: it was running then, whatever the BMC had reported before.
func (v View) offFor() time.Duration {
	if v.BMC.Problem != nil || v.BMC.Power != v1alpha1.PowerOff || v.BMC.PowerSince.IsZero() {
		return 0
	}
	since := latest(v.BMC.LastPowerAt, v.BMC.FailedAt) // a BMC that did not answer in between may have restarted
	if b := v.Host.CurrentBoot(); b != nil && b.DataServedTime != nil && !recordedInFuture(v.Now, b.DataServedTime) {
		since = latest(since, b.DataServedTime.Time)
	}
	return v.BMC.powerUnchangedFor(since)
}

// nodeReadiness returns what the machine's Node says about its server, and since when. It is empty if that was never recorded.
func (o Observed) nodeReadiness() (v1alpha1.NodeReadiness, time.Time) {
	if o.Node == nil || o.Node.Mismatch != nil || o.Node.ReadinessTime == nil {
		return "", time.Time{}
	}
	return o.Node.Readiness, o.Node.ReadinessTime.Time
}

// nodeConfirmsOff is true if the Node does not contradict a server that has read as off for some time.
func (o Observed) nodeConfirmsOff(now time.Time, offFor time.Duration) bool {
	switch readiness, since := o.nodeReadiness(); readiness {
	case v1alpha1.NodeReady:
		return false
	case v1alpha1.NodeNotReady:
		return offFor >= minOffForReport
	case v1alpha1.NodeUnreadable:
		return offFor >= minOffForReport && now.Sub(since) >= nodeUnreadableFor
	default: // there is no Node, or nothing reads it: the BMC is the only witness
		return false
	}
}

// poweredOff is true for a machine on disk whose server lost its power, or was powered off by something other than the provider. Once it was reported, it stays true until
// the server reads as anything else than off, or the Node is Ready: a BMC that does not answer, or a restart of the provider, proves nothing.
func (v View) poweredOff() bool {
	readiness, _ := v.Observed.nodeReadiness()
	switch {
	case v.Consumer.Persistence == v1alpha1.PersistenceEphemeral, v.BMC.notOff(), readiness == v1alpha1.NodeReady:
		return false
	case !v.PowerLoss.PoweredOffTime.IsZero():
		return true
	default:
		return v.Observed.nodeConfirmsOff(v.Now, v.offFor())
	}
}

// powerDisputed is true if the BMC reports a server as off whose Node has been Ready for as long.
func (v View) powerDisputed() bool {
	readiness, since := v.Observed.nodeReadiness()
	return readiness == v1alpha1.NodeReady && min(v.offFor(), v.BMC.powerUnchangedFor(since)) >= minOffForDispute
}

// powerUnconfirmed is true if the BMC reports a server as off, and no Node was observed that could confirm or contradict it.
func (v View) powerUnconfirmed() bool {
	readiness, _ := v.Observed.nodeReadiness()
	return readiness == "" && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral && v.PowerLoss.PoweredOffTime.IsZero() && v.offFor() >= nodeUnreadableFor
}

// awaitsPowerReading is true while another reading of the power may change what is reported about a provisioned host: it reads as off and that is not decided, or its Node
// changed after the last reading.
func (v View) awaitsPowerReading() bool {
	readiness, changed := v.Observed.nodeReadiness()
	switch {
	case v.BMC.Power == v1alpha1.PowerOff && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral:
		return true
	case v.BMC.Power == v1alpha1.PowerOff && !v.poweredOff() && !v.powerDisputed() && !v.powerUnconfirmed():
		return true
	default:
		return readiness != "" && readiness != v1alpha1.NodeUnreadable && changed.After(v.BMC.PowerAt)
	}
}

// reportPower adds to the step of a provisioned host what is wrong with its power.
func reportPower(v View, step Step) Step {
	switch {
	case v.poweredOff():
		step.Reason, step.PoweredOffTime = v1alpha1.ReasonPoweredOff, v.OffSince()
		step.Message = fmt.Sprintf("The server has been off since %s, and the provider did not power it off: %s. Check its power supply and the event log of its BMC. "+
			"To power it on, set the annotation %sWHO=\"why\", or delete the Machine to have it replaced",
			step.PoweredOffTime.UTC().Format(time.RFC3339), v.Observed.nodeText(), v1alpha1.PowerOnPrefix)
	case v.powerDisputed():
		step.Reason = v1alpha1.ReasonPowerDisputed
		step.Message = fmt.Sprintf("The BMC reports that the server is off, but Node %q is Ready. Check that spec.bmc.address is the BMC of this server, and restart the BMC", v.Observed.Node.Name)
	case v.powerUnconfirmed():
		step.Reason = v1alpha1.ReasonPowerUnconfirmed
		step.Message = "The BMC reports that the server is off, and the machine has no Node that could confirm it. Check the server"
	}
	return step
}

// nodeText describes the second witness.
func (o Observed) nodeText() string {
	switch readiness, _ := o.nodeReadiness(); readiness {
	case v1alpha1.NodeNotReady:
		return fmt.Sprintf("Node %q is not Ready", o.Node.Name)
	case v1alpha1.NodeUnreadable:
		return fmt.Sprintf("Node %q cannot be read", o.Node.Name)
	default:
		return "its Node is no longer known"
	}
}
