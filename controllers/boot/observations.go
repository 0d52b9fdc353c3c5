package boot

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// observer records what the packets and requests of servers show of their boots.
type observer struct {
	client    client.Client // reads from the cache
	clock     clock.PassiveClock
	lookup    *lookup
	records   *bootRecords
	admission *admission
	stages    *stageWriter
}

// observed returns the host with a MAC address, and its boot if the server is booting or booted: a request before the power-on is not the server's.
func (o *observer) observed(mac net.HardwareAddr) (*v1alpha1.BareMetalHost, *v1alpha1.BareMetalBoot) {
	// Reading the cache does not block.
	host, err := o.lookup.hostOf(context.Background(), mac)
	if err != nil || host == nil {
		return nil, nil
	}
	boot, err := o.records.bootOf(context.Background(), client.ObjectKeyFromObject(host))
	if err != nil || boot == nil || boot.Spec.PoweredOnTime == nil || boot.Spec.VoidedTime != nil {
		return host, nil
	}
	return host, boot
}

// ObserveStage records a stage of a boot.
func (o *observer) ObserveStage(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	host, boot := o.observed(mac)
	switch {
	case boot == nil:
	case boot.Spec.DataServedTime != nil:
		o.recordRestart(host, boot, from, what)
	// Any client can ask for a kernel or a boot loader with the MAC address of a server.
	case stage == pxe.StageKernel && boot.Spec.ScriptAddress != from.String():
	case stage == pxe.StageLoader && !o.admission.expectsLoader(boot):
	case stage != pxe.StageFirmware:
		if stage == pxe.StageDHCP {
			o.admission.recordDHCPRequest(boot, mac, from)
		}
		o.stages.recordStage(boot, v1alpha1.BootStage(stage), from, what)
	}
}

// ObserveWaiting records that a server waits for a boot slot, and its queue position. The update moves the deadline of the attempt. A server that had its script
// already counts as booting: it waits for a retry, and its deadline does not move.
func (o *observer) ObserveWaiting(mac net.HardwareAddr, from netip.Addr, position int) {
	_, boot := o.observed(mac)
	if boot == nil || boot.Spec.ScriptAddress != "" {
		return
	}
	if last := controllers.ObservedStage(boot, v1alpha1.StageWaiting); last == nil || o.clock.Since(last.Time.Time) >= stageRewriteInterval {
		seen := o.stages.seenStage(boot, v1alpha1.StageWaiting, from, "")
		seen.QueuePosition = int32(min(max(position, 0), math.MaxInt32)) //nolint:gosec // it is limited
		o.stages.enqueueSeen(boot, seen, string(seen.Stage))
	}
}

// recordRestart records a request of firmware or of a boot loader after the bootstrap data was served. It is recorded only for a machine that runs from memory: its
// server has no other reason to return to its firmware.
func (o *observer) recordRestart(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, from netip.Addr, what string) {
	if last := controllers.ObservedStage(boot, v1alpha1.StageRestarted); last != nil && o.clock.Since(last.Time.Time) < stageRewriteInterval {
		return
	}
	consumer, err := controllers.GetConsumer(context.Background(), o.client, host)
	if err != nil || consumer == nil || consumer.BareMetalMachine == nil ||
		consumer.BareMetalMachine.Spec.Persistence() != v1alpha1.PersistenceEphemeral {
		return
	}
	o.stages.enqueueStage(boot, v1alpha1.StageRestarted, from, what)
}

// ObserveFailure records why a boot cannot be served.
func (o *observer) ObserveFailure(mac net.HardwareAddr, err error) {
	host, lookupErr := o.lookup.hostOf(context.Background(), mac)
	if lookupErr != nil || host == nil {
		return
	}
	boot, lookupErr := o.records.bootOf(context.Background(), client.ObjectKeyFromObject(host))
	if lookupErr != nil || boot == nil {
		return
	}
	reason := v1alpha1.ReasonArtifactUnavailable
	switch {
	case errors.Is(err, artifact.ErrChecksum):
		reason = v1alpha1.ReasonChecksumMismatch
	case errors.Is(err, pxe.ErrCommandLine):
		reason = v1alpha1.ReasonCommandLineTooLong
	case errors.Is(err, pxe.ErrBootSource):
		reason = v1alpha1.ReasonBootSourceInvalid
	}
	if errors.Is(err, pxe.ErrOtherDHCPServer) {
		o.stages.enqueueOtherServer(boot, err)
		return
	}
	o.stages.recordProblem(boot, reason, err)
}
