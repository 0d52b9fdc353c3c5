package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// attemptKey is a boot.
type attemptKey struct {
	host   types.NamespacedName
	claim  string
	number int32
}

func keyOf(boot *v1alpha1.BareMetalBoot) attemptKey {
	return attemptKey{client.ObjectKeyFromObject(boot), boot.Spec.ClaimID, boot.Spec.Number}
}

// tellSeeded tells people that the bootstrap data was given out, and to whom. Of all boot servers the one that wrote it down tells.
func (b *Booter) tellSeeded(a attempt, to netip.Addr) {
	b.event(a.boot, corev1.EventTypeNormal, controllers.EventServed, "Serve", "Served the bootstrap data of boot attempt %d to %s", a.boot.Spec.Attempt, to)
}

// tellRefusal tells people of the first refusal of a boot attempt. The others are counted: whoever is refused may ask without end.
func (b *Booter) tellRefusal(a attempt, from netip.Addr, err error) {
	if a.boot == nil || a.boot.Spec.Number == 0 || !errors.Is(err, pxe.ErrRefused) {
		return
	}
	key := keyOf(a.boot)
	if _, told := b.told.Get(key); told {
		return
	}
	b.told.Add(key, nil)
	b.event(a.boot, corev1.EventTypeWarning, controllers.EventRefused, "Refuse", "Refused a request from %s in boot attempt %d: %s", from, a.boot.Spec.Attempt, err)
}

// tellStage tells of a stage when it is first seen in a boot attempt. That of the bootstrap data was told by who gave it out; how a place in line
// changes only the status tells. While very many boot at once the status alone tells of what goes as it should.
func (b *Booter) tellStage(boot *v1alpha1.BareMetalBoot, s v1alpha1.ObservedStage) {
	if s.Stage == v1alpha1.StageData || s.Stage == v1alpha1.StageWaiting && controllers.ObservedStage(boot, s.Stage) != nil {
		return
	}
	kind := corev1.EventTypeNormal
	if s.Stage == v1alpha1.StageBootstrapFailed || s.Stage == v1alpha1.StageRestarted {
		kind = corev1.EventTypeWarning
	} else if !b.pace.Allow(b.Clock.Now()) {
		return
	}
	note := fmt.Sprintf("Boot attempt %d: the stage %s was seen", boot.Spec.Attempt, s.Stage)
	if by := strings.Trim(s.Address+", "+s.Client, ", "); by != "" {
		note += " of " + by
	}
	b.event(boot, kind, controllers.EventBootStage+string(s.Stage), "Boot", "%s", note)
}

// tellProblem tells what keeps a boot from being served.
func (b *Booter) tellProblem(boot *v1alpha1.BareMetalBoot, p v1alpha1.BootProblem) {
	b.event(boot, corev1.EventTypeWarning, controllers.EventBootNotServed, "Boot", "Boot attempt %d: %s: %s", boot.Spec.Attempt, p.Reason, p.Message)
}

// tellFailed tells that an attempt ended.
func (b *Booter) tellFailed(a attempt) {
	failure := a.boot.Spec.Failure
	metrics.BootFailed(failure.Reason)
	b.event(a.boot, corev1.EventTypeWarning, controllers.EventBootFailed, "Boot", "%s: %s", failure.Reason, failure.Message)
}

// event records an event about the host of a boot: its life is told in one place.
//
//nolint:contextcheck,nolintlint // an event outlives the request that it came of; nolintlint does not see that callers are checked
func (b *Booter) event(boot *v1alpha1.BareMetalBoot, kind, reason, action, note string, args ...any) {
	host := &v1alpha1.BareMetalHost{}
	if err := b.Client.Get(context.Background(), client.ObjectKeyFromObject(boot), host); err != nil { // reading the cache does not block
		return
	}
	controllers.RecordEvent(b.Recorder, host, nil, kind, reason, action, note, args...)
}
