package boot

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// otherServerAfter is how long after a request for another DHCP server the server must show no progress before that is a problem. The other one may be another boot server of
// the provider: firmware asks it for the boot loader within seconds.
const otherServerAfter = 30 * time.Second

// enqueueOtherServer queues the problem that another DHCP server answered a server. Any client of the network can send such a request, so it is recorded once in an attempt,
// and never replaces another problem.
func (w *stageWriter) enqueueOtherServer(boot *v1alpha1.BareMetalBoot, err error) {
	if boot.Spec.Number == 0 || controllers.Problem(boot) != nil {
		return
	}
	problem := &v1alpha1.BootProblem{
		BootFailure: v1alpha1.BootFailure{Reason: v1alpha1.ReasonOtherDHCPServer, Message: controllers.Clip(err.Error(), controllers.MaxMessage)},
		Number:      boot.Spec.Number, Time: metav1.NewTime(w.clock.Now()),
	}
	w.enqueue(boot, problem.Reason, func(n *pendingStatus) {
		if n.otherServer == nil || n.otherServer.Number != problem.Number {
			n.otherServer = problem
		}
	})
}

// writeOtherServer writes that another DHCP server answered a server, unless it boots all the same.
func (w *stageWriter) writeOtherServer(ctx context.Context, host types.NamespacedName, p *v1alpha1.BootProblem) {
	if p == nil {
		return
	}
	boot, err := w.records.bootOf(ctx, host)
	if err == nil && (boot == nil || boot.Spec.Number != p.Number || boot.Spec.Failure != nil || boot.Spec.VoidedTime != nil || controllers.Problem(boot) != nil || boots(boot)) {
		return
	}
	if err == nil {
		err = w.records.written.ApplyProblem(ctx, w.client, host, *p)
	}
	w.forgetFailedWrite(writeKey{host, p.Reason}, err)
	if err == nil {
		metrics.BootProblem(p.Reason)
		w.events.recordProblemEvent(boot, *p)
	}
}

// boots is true if a boot server of the provider observed a stage that follows the answer of a DHCP server. Each stage is observed once in an attempt, so its time says nothing about
// a server that starts again.
func boots(boot *v1alpha1.BareMetalBoot) bool {
	return slices.ContainsFunc(boot.Status.Stages, func(s v1alpha1.ObservedStage) bool {
		early := s.Stage == v1alpha1.StageStarted || s.Stage == v1alpha1.StageMedia || s.Stage == v1alpha1.StageDHCP
		return s.Number == boot.Spec.Number && !early
	})
}
