package boot

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// attemptKey is a boot attempt.
type attemptKey struct {
	host  types.NamespacedName
	start metav1.Time
}

// tellSeeded tells people that the bootstrap data was given out, and to whom. Of all boot servers the one that wrote it down tells.
func (b *Booter) tellSeeded(host *v1alpha1.BareMetalHost, to netip.Addr) {
	b.event(host, corev1.EventTypeNormal, controllers.EventServed, "Serve", "Gave the bootstrap data of boot attempt %d to %s", host.Spec.Boot.Attempt, to)
}

// tellRefusal tells people of the first refusal of a boot attempt. The others are counted: whoever is refused may ask without end.
func (b *Booter) tellRefusal(host *v1alpha1.BareMetalHost, from netip.Addr, err error) {
	if host.Spec.Boot == nil || !errors.Is(err, pxe.ErrRefused) {
		return
	}
	key := attemptKey{client.ObjectKeyFromObject(host), host.Spec.Boot.StartedAt}
	if _, told := b.told.Get(key); told {
		return
	}
	b.told.Add(key, nil)
	b.event(host, corev1.EventTypeWarning, controllers.EventRefused, "Refuse", "Refused a request from %s in boot attempt %d: %s", from, host.Spec.Boot.Attempt, err)
}

// tellStage tells of a stage when it is first seen in a boot attempt. That of the bootstrap data was told by who gave it out; how a place in line
// changes only the status tells. While very many boot at once the status alone tells of what goes as it should.
func (b *Booter) tellStage(host *v1alpha1.BareMetalHost, s v1alpha1.Sighting) {
	if s.Stage == v1alpha1.StageSeed || s.Stage == v1alpha1.StageWaiting && controllers.Seen(host, s.Stage) != nil {
		return
	}
	kind := corev1.EventTypeNormal
	if s.Stage == v1alpha1.StageBootstrapFailed || s.Stage == v1alpha1.StageRestarted {
		kind = corev1.EventTypeWarning
	} else if !b.pace.Allow(b.Clock.Now()) {
		return
	}
	note := fmt.Sprintf("Boot attempt %d: the stage %s was seen", s.Attempt, s.Stage)
	if by := strings.Trim(s.Address+", "+s.Client, ", "); by != "" {
		note += " of " + by
	}
	b.event(host, kind, controllers.EventBootStage+string(s.Stage), "Boot", "%s", note)
}

// tellProblem tells what keeps a boot from being served.
func (b *Booter) tellProblem(host *v1alpha1.BareMetalHost, p v1alpha1.BootProblem) {
	b.event(host, corev1.EventTypeWarning, controllers.EventBootNotServed, "Boot", "Boot attempt %d: %s: %s", host.Spec.Boot.Attempt, p.Reason, p.Message)
}

// tellFailed tells that an attempt ended.
func (b *Booter) tellFailed(host *v1alpha1.BareMetalHost) {
	failure := host.Spec.Boot.Failure
	metrics.BootFailed(failure.Reason)
	b.event(host, corev1.EventTypeWarning, controllers.EventBootFailed, "Boot", "%s: %s", failure.Reason, failure.Message)
}

func (b *Booter) event(host *v1alpha1.BareMetalHost, kind, reason, action, note string, args ...any) {
	controllers.Tell(b.Recorder, host, nil, kind, reason, action, note, args...)
}
