package boot

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	// batchDelay is how long a writer waits for more stages of a host, so that stages which follow each other closely are written together.
	batchDelay = 500 * time.Millisecond
	// maxWriters is how many hosts are written at once.
	maxWriters = 4
	// writeTimeout is the timeout for writing one host.
	writeTimeout = 30 * time.Second
	// shutdownTimeout is the timeout for the writes of a process that stops.
	shutdownTimeout = 5 * time.Second
	// maxPendingHosts is how many hosts may wait to be written.
	maxPendingHosts = 1024
	// cacheSyncDelay is how long the cache may take to show a write. Until then memory prevents a second write of the same stage, and afterwards the
	// boot's own status does.
	cacheSyncDelay = time.Minute
	// stageRewriteInterval is the shortest time between two writes of a stage that is written more than once: Restarted, which only new firmware requests of a
	// running machine cause, and Waiting, whose queue position changes.
	stageRewriteInterval = time.Minute
)

// NeedLeaderElection is false: every boot server writes the stages that it observes.
func (b *Booter) NeedLeaderElection() bool { return false }

// Start writes observed stages until ctx ends, and then the pending ones: the machine does not repeat its report of the bootstrap's result.
func (b *Booter) Start(ctx context.Context) error {
	b.started.Store(&metav1.Time{Time: b.Clock.Now()})
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for range maxWriters {
		wg.Go(func() {
			for {
				host, over := b.stageQueue.hosts.Get()
				if over {
					return
				}
				b.write(writing, host, b.stageQueue.takePending(host, b.Clock.Now()))
				b.stageQueue.hosts.Done(host)
			}
		})
	}
	<-ctx.Done()
	defer time.AfterFunc(shutdownTimeout, cancel).Stop()
	b.stageQueue.hosts.ShutDown()
	wg.Wait()
	for _, host := range b.stageQueue.pendingHosts() {
		b.write(writing, host, b.stageQueue.takePending(host, b.Clock.Now()))
	}
	return nil
}

// write writes the pending status of a host.
func (b *Booter) write(ctx context.Context, host types.NamespacedName, n *pendingStatus) {
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	// Stages and agent both write status.progress: it shows what the agent does, until it is done.
	ends := slices.ContainsFunc(n.stages, func(s stage) bool { return s.Stage == v1alpha1.StageAgentDone })
	if ends {
		b.writeAgentProgress(ctx, host, n.agent)
	}
	if len(n.stages) > 0 {
		err := b.writeStages(ctx, host, n.stages)
		for _, s := range n.stages {
			if err == nil {
				metrics.BootStage(s.Stage, s.took)
			}
			b.forgetFailedWrite(writeKey{host, s.way}, err)
		}
	}
	if !ends {
		b.writeAgentProgress(ctx, host, n.agent)
	}
	if n.problem != nil {
		b.forgetFailedWrite(writeKey{host, problemKey(n.problem)}, controllers.ApplyProblem(ctx, b.Client, host, *n.problem))
	}
	if n.problem == nil { // the cache does not show that one yet
		b.writeOtherServer(ctx, host, n.otherServer)
	}
}

// writeAgentProgress writes what the agent of a boot does; nil if it reported nothing. A report that comes after the end of the agent is dropped.
func (b *Booter) writeAgentProgress(ctx context.Context, host types.NamespacedName, p *v1alpha1.AgentProgress) {
	if p == nil || b.agentIsDone(ctx, host, p.Number) {
		return
	}
	if err := controllers.ApplyAgentProgress(ctx, b.Client, host, *p); client.IgnoreNotFound(err) != nil {
		b.Log.Error(err, "Failed to write the progress of an agent", "host", host)
	}
}

// agentIsDone is true if the status of a boot shows that its agent completed its plan.
func (b *Booter) agentIsDone(ctx context.Context, host types.NamespacedName, number int32) bool {
	boot, err := b.bootOf(ctx, host)
	return err == nil && boot != nil && boot.Spec.Number == number && controllers.ObservedStage(boot, v1alpha1.StageAgentDone) != nil
}

// writeStages writes the stages of the boot that is under way. Stages of an earlier boot are dropped.
func (b *Booter) writeStages(ctx context.Context, host types.NamespacedName, stages []stage) error {
	boot, err := b.bootOf(ctx, host)
	if err != nil || boot == nil {
		return err
	}
	var seen []v1alpha1.ObservedStage
	for _, s := range stages {
		if s.Number == boot.Spec.Number {
			seen = append(seen, s.ObservedStage)
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return controllers.ApplyStages(ctx, b.Client, boot, seen...)
}

// forgetFailedWrite forgets a write that failed, so that the next observation of the same stage is written.
func (b *Booter) forgetFailedWrite(key writeKey, err error) {
	if client.IgnoreNotFound(err) == nil {
		return
	}
	b.Log.Error(err, "Failed to write the observed boot stage", "host", key.host, "what", key.what)
	b.stageQueue.forget(key)
}

// observed returns the host with a MAC address, and its boot if the server is booting or booted: a request before the power-on is not the server's.
func (b *Booter) observed(mac net.HardwareAddr) (*v1alpha1.BareMetalHost, *v1alpha1.BareMetalBoot) {
	// Reading the cache does not block.
	host, err := b.hostOf(context.Background(), mac)
	if err != nil || host == nil {
		return nil, nil
	}
	boot, err := b.bootOf(context.Background(), client.ObjectKeyFromObject(host))
	if err != nil || boot == nil || boot.Spec.PoweredOnTime == nil || boot.Spec.VoidedTime != nil {
		return host, nil
	}
	return host, boot
}

// ObserveStage records a stage of a boot.
func (b *Booter) ObserveStage(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	host, boot := b.observed(mac)
	switch {
	case boot == nil:
	case boot.Spec.DataServedTime != nil:
		b.recordRestart(host, boot, from, what)
	// Any client can ask for a kernel or a boot loader with the MAC address of a server.
	case stage == pxe.StageKernel && boot.Spec.ScriptAddress != from.String():
	case stage == pxe.StageLoader && !b.expectsLoader(boot):
	case stage != pxe.StageFirmware:
		if stage == pxe.StageDHCP {
			b.recordDHCPRequest(boot, mac, from)
		}
		b.recordStage(boot, v1alpha1.BootStage(stage), from, what)
	}
}

// expectsLoader is true if a request for a boot loader can be one of the server: its attempt uses no medium, and its DHCP request came or may be one that this boot server
// does not see.
func (b *Booter) expectsLoader(boot *v1alpha1.BareMetalBoot) bool {
	dhcpTime, _ := b.dhcpRequest(boot, "")
	unseen := len(b.Networks) == 0 || b.startedAfter(boot.Spec.PoweredOnTime) ||
		slices.ContainsFunc(b.Networks, func(n bootconfig.Network) bool { return n.Mode == bootconfig.Off })
	return !lifecycle.UsesMedium(&boot.Spec) && (dhcpTime != nil || unseen)
}

// ObserveWaiting records that a server waits for a boot slot, and its queue position. The update moves the deadline of the attempt. A server that had its script
// already counts as booting: it waits for a retry, and its deadline does not move.
func (b *Booter) ObserveWaiting(mac net.HardwareAddr, from netip.Addr, position int) {
	_, boot := b.observed(mac)
	if boot == nil || boot.Spec.ScriptAddress != "" {
		return
	}
	if last := controllers.ObservedStage(boot, v1alpha1.StageWaiting); last == nil || b.Clock.Since(last.Time.Time) >= stageRewriteInterval {
		seen := b.seenStage(boot, v1alpha1.StageWaiting, from, "")
		seen.QueuePosition = number(position)
		b.enqueueSeen(boot, seen, string(seen.Stage))
	}
}

// recordAgent records that the agent introduced itself, once in an attempt.
func (b *Booter) recordAgent(boot *v1alpha1.BareMetalBoot, from netip.Addr, hello agent.Hello) {
	if controllers.ObservedStage(boot, v1alpha1.StageAgent) != nil {
		return
	}
	seen := b.seenStage(boot, v1alpha1.StageAgent, from, "")
	seen.Agent = &v1alpha1.ObservedAgent{
		Release: controllers.Clip(hello.Release, 64), FirmwareMode: firmwareModeOf(hello.Firmware), SecureBoot: secureBootOf(hello.SecureBoot),
	}
	b.enqueueSeen(boot, seen, string(seen.Stage))
}

// recordRestart records a request of firmware or of a boot loader after the bootstrap data was served. It is recorded only for a machine that runs from memory: its
// server has no other reason to return to its firmware.
func (b *Booter) recordRestart(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, from netip.Addr, what string) {
	if last := controllers.ObservedStage(boot, v1alpha1.StageRestarted); last != nil && b.Clock.Since(last.Time.Time) < stageRewriteInterval {
		return
	}
	consumer, err := controllers.GetConsumer(context.Background(), b.Client, host)
	if err != nil || consumer == nil || consumer.BareMetalMachine == nil ||
		consumer.BareMetalMachine.Spec.Persistence() != v1alpha1.PersistenceEphemeral {
		return
	}
	b.enqueueStage(boot, v1alpha1.StageRestarted, from, what)
}

// recordStage records a stage of the current boot attempt, once.
func (b *Booter) recordStage(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage, from netip.Addr, what string) {
	if controllers.ObservedStage(boot, stage) == nil {
		b.enqueueStage(boot, stage, from, what)
	}
}

func (b *Booter) enqueueStage(boot *v1alpha1.BareMetalBoot, at v1alpha1.BootStage, from netip.Addr, what string) {
	b.enqueueSeen(boot, b.seenStage(boot, at, from, what), string(at))
}

// seenStage returns a stage that is observed now.
func (b *Booter) seenStage(boot *v1alpha1.BareMetalBoot, at v1alpha1.BootStage, from netip.Addr, what string) v1alpha1.ObservedStage {
	seen := controllers.NewStageAt(boot, at, b.Clock.Now())
	if from.IsValid() && !from.IsUnspecified() {
		seen.Address = from.String()
	}
	seen.Client = controllers.Clip(what, controllers.MaxText)
	return seen
}

// enqueueSeen writes a stage. A stage that is observed in several ways is written once for each way.
func (b *Booter) enqueueSeen(boot *v1alpha1.BareMetalBoot, seen v1alpha1.ObservedStage, way string) {
	if boot.Spec.Number == 0 || boot.Spec.Failure != nil {
		return
	}
	took := seen.Time.Sub(boot.Spec.StartTime.Time)
	if b.enqueue(boot, way, func(n *pendingStatus) { n.addStage(stage{seen, took, way}) }) {
		b.recordStageEvent(boot, seen)
	}
}

// ObserveFailure records why a boot cannot be served.
func (b *Booter) ObserveFailure(mac net.HardwareAddr, err error) {
	host, lookupErr := b.hostOf(context.Background(), mac)
	if lookupErr != nil || host == nil {
		return
	}
	boot, lookupErr := b.bootOf(context.Background(), client.ObjectKeyFromObject(host))
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
		b.enqueueOtherServer(boot, err)
		return
	}
	b.recordProblem(boot, reason, err)
}

func (b *Booter) recordProblem(boot *v1alpha1.BareMetalBoot, reason string, err error) {
	if boot == nil || boot.Spec.Number == 0 {
		return
	}
	problem := v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: reason, Message: controllers.Clip(err.Error(), controllers.MaxMessage)}, Number: boot.Spec.Number,
		Time: metav1.NewTime(b.Clock.Now()),
	}
	// The same problem is written again only for another boot, or after a new stage was observed.
	if p := controllers.Problem(boot); p != nil && p.BootFailure == problem.BootFailure {
		return
	}
	if b.enqueue(boot, problemKey(&problem), func(n *pendingStatus) { n.problem = &problem }) {
		metrics.BootProblem(reason)
		b.recordProblemEvent(boot, problem)
	}
}

// problemKey identifies a problem among the recent writes of an attempt. What clients can name in the message is written once for all of them.
func problemKey(p *v1alpha1.BootProblem) string {
	if p.Reason == v1alpha1.ReasonMediaRefused {
		return p.Reason
	}
	return p.Reason + ": " + p.Message
}

// enqueue queues a write, unless it was written for this attempt already. It drops the write if too many hosts are pending: the next request is written
// instead. Operators read these stages; only the stage DHCP decides what is served, and memory has that too. It returns true if the write was queued.
func (b *Booter) enqueue(boot *v1alpha1.BareMetalBoot, what string, change func(*pendingStatus)) bool {
	key := writeKey{client.ObjectKeyFromObject(boot), what}
	if !b.stageQueue.startWrite(key, boot.Spec.Number, b.Clock.Now()) {
		return false
	}
	if !b.stageQueue.add(key.host, change) {
		b.stageQueue.forget(key)
		b.Log.Info("Dropped an observed boot stage: too many hosts are pending", "host", key.host, "what", what)
		return false
	}
	return true
}
