package boot

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	// batchDelay is how long a writer waits for more stages of a host, so that stages which follow each other closely are written together.
	batchDelay = 2 * time.Second
	// progressDelay is batchDelay for the progress of an agent, which is limited already: later it would be that of a step that is over.
	progressDelay = 500 * time.Millisecond
	// maxWriters is how many hosts are written at once. While hundreds of servers boot, a write takes most of a second, and each host has one or two.
	maxWriters = 32
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

// stageWriter writes the observed stages and the problems of boots to their status, in the background.
type stageWriter struct {
	client  client.Client
	log     logr.Logger
	clock   clock.PassiveClock
	records *bootRecords
	events  *eventRecorder
	queue   *stageQueue
}

// run writes observed stages until ctx ends, and then the pending ones: the machine does not repeat its report of the bootstrap's result.
func (w *stageWriter) run(ctx context.Context) {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var wg sync.WaitGroup
	for range maxWriters {
		wg.Go(func() {
			for {
				host, over := w.queue.hosts.Get()
				if over {
					return
				}
				w.write(writing, host, w.queue.takePending(host, w.clock.Now()))
				w.queue.hosts.Done(host)
			}
		})
	}
	<-ctx.Done()
	defer time.AfterFunc(shutdownTimeout, cancel).Stop()
	w.queue.hosts.ShutDown()
	wg.Wait()
	for _, host := range w.queue.pendingHosts() {
		w.write(writing, host, w.queue.takePending(host, w.clock.Now()))
	}
}

// write writes the pending status of a host.
func (w *stageWriter) write(ctx context.Context, host types.NamespacedName, n *pendingStatus) {
	if n == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	// Stages and agent both write status.progress: it shows what the agent does, until it is done.
	ends := slices.ContainsFunc(n.stages, func(s stage) bool { return s.Stage == v1alpha1.StageAgentDone })
	if ends {
		w.writeAgentProgress(ctx, host, n.agent)
	}
	if len(n.stages) > 0 {
		err := w.writeStages(ctx, host, n.stages)
		for _, s := range n.stages {
			if err == nil {
				metrics.BootStage(s.Stage, s.took)
			}
			w.forgetFailedWrite(writeKey{host, s.way}, err)
		}
	}
	if !ends {
		w.writeAgentProgress(ctx, host, n.agent)
	}
	if n.problem != nil {
		w.forgetFailedWrite(writeKey{host, problemKey(n.problem)}, w.records.written.ApplyProblem(ctx, w.client, host, *n.problem))
	}
	if n.problem == nil { // the cache does not show that one yet
		w.writeOtherServer(ctx, host, n.otherServer)
	}
}

// writeAgentProgress writes what the agent of a boot does; nil if it reported nothing. A report that comes after the end of the agent is dropped.
func (w *stageWriter) writeAgentProgress(ctx context.Context, host types.NamespacedName, p *v1alpha1.AgentProgress) {
	if p == nil || w.agentIsDone(ctx, host, p.Number) {
		return
	}
	if err := w.records.written.ApplyAgentProgress(ctx, w.client, host, *p); client.IgnoreNotFound(err) != nil {
		w.log.Error(err, "Failed to write the progress of an agent", "host", host)
	}
}

// agentIsDone is true if the status of a boot shows that its agent completed its plan.
func (w *stageWriter) agentIsDone(ctx context.Context, host types.NamespacedName, number int32) bool {
	boot, err := w.records.bootOf(ctx, host)
	return err == nil && boot != nil && boot.Spec.Number == number && controllers.ObservedStage(boot, v1alpha1.StageAgentDone) != nil
}

// writeStages writes the stages of the boot that is under way. Stages of an earlier boot are dropped.
func (w *stageWriter) writeStages(ctx context.Context, host types.NamespacedName, stages []stage) error {
	boot, err := w.records.bootOf(ctx, host)
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
	return w.records.written.ApplyStages(ctx, w.client, boot, seen...)
}

// forgetFailedWrite forgets a write that failed, so that the next observation of the same stage is written.
func (w *stageWriter) forgetFailedWrite(key writeKey, err error) {
	if client.IgnoreNotFound(err) == nil {
		return
	}
	w.log.Error(err, "Failed to write the observed boot stage", "host", key.host, "what", key.what)
	w.queue.forget(key)
}

// recordAgent records that the agent introduced itself, once in an attempt.
func (w *stageWriter) recordAgent(boot *v1alpha1.BareMetalBoot, from netip.Addr, hello agent.Hello) {
	if controllers.ObservedStage(boot, v1alpha1.StageAgent) != nil {
		return
	}
	seen := w.seenStage(boot, v1alpha1.StageAgent, from, "")
	seen.Agent = &v1alpha1.ObservedAgent{
		Release: controllers.Clip(hello.Release, 64), FirmwareMode: firmwareModeOf(hello.Firmware), SecureBoot: secureBootOf(hello.SecureBoot),
	}
	w.enqueueSeen(boot, seen, string(seen.Stage))
}

// recordStage records a stage of the current boot attempt, once.
func (w *stageWriter) recordStage(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage, from netip.Addr, what string) {
	if controllers.ObservedStage(boot, stage) == nil {
		w.enqueueStage(boot, stage, from, what)
	}
}

func (w *stageWriter) enqueueStage(boot *v1alpha1.BareMetalBoot, at v1alpha1.BootStage, from netip.Addr, what string) {
	w.enqueueSeen(boot, w.seenStage(boot, at, from, what), string(at))
}

// seenStage returns a stage that is observed now.
func (w *stageWriter) seenStage(boot *v1alpha1.BareMetalBoot, at v1alpha1.BootStage, from netip.Addr, what string) v1alpha1.ObservedStage {
	seen := controllers.NewStageAt(boot, at, w.clock.Now())
	if from.IsValid() && !from.IsUnspecified() {
		seen.Address = from.String()
	}
	seen.Client = controllers.Clip(what, controllers.MaxText)
	return seen
}

// enqueueSeen writes a stage. A stage that is observed in several ways is written once for each way.
func (w *stageWriter) enqueueSeen(boot *v1alpha1.BareMetalBoot, seen v1alpha1.ObservedStage, way string) {
	if boot.Spec.Number == 0 || boot.Spec.Failure != nil {
		return
	}
	took := seen.Time.Sub(boot.Spec.StartTime.Time)
	if w.enqueue(boot, way, func(n *pendingStatus) { n.addStage(stage{seen, took, way}) }) {
		w.events.recordStageEvent(boot, seen)
	}
}

// recordProblem records why a boot cannot be served.
func (w *stageWriter) recordProblem(boot *v1alpha1.BareMetalBoot, reason string, err error) {
	if boot == nil || boot.Spec.Number == 0 {
		return
	}
	problem := v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: reason, Message: controllers.Clip(err.Error(), controllers.MaxMessage)}, Number: boot.Spec.Number,
		Time: metav1.NewTime(w.clock.Now()),
	}
	// The same problem is written again only for another boot, or after a new stage was observed.
	if p := controllers.Problem(boot); p != nil && p.BootFailure == problem.BootFailure {
		return
	}
	if w.enqueue(boot, problemKey(&problem), func(n *pendingStatus) { n.problem = &problem }) {
		metrics.BootProblem(reason)
		w.events.recordProblemEvent(boot, problem)
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
func (w *stageWriter) enqueue(boot *v1alpha1.BareMetalBoot, what string, change func(*pendingStatus)) bool {
	key := writeKey{client.ObjectKeyFromObject(boot), what}
	if !w.queue.startWrite(key, boot.Spec.Number, w.clock.Now()) {
		return false
	}
	if !w.queue.add(key.host, change) {
		w.queue.forget(key)
		w.log.Info("Dropped an observed boot stage: too many hosts are pending", "host", key.host, "what", what)
		return false
	}
	return true
}
