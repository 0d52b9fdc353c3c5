// Package plan decides what a command of a person does to a host: what it will do, as sentences; what it writes; and what it refuses. It is pure: each function gets the
// host as it was read, so a host that changed meanwhile gets a new plan.
package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
)

// Requester is who asks for a change, and why.
type Requester struct {
	// User is the name that is recorded.
	User string
	// Reason is why the user asks.
	Reason string
	// Now is the time of the request.
	Now metav1.Time
}

// maxText is the maximum length of the note of an event, in bytes. A reason in the API may have as many characters.
const maxText = 1024

// Text is what is recorded: the user and the reason.
func (r Requester) Text() string {
	text := terminal.Line(r.User + ": " + r.Reason)
	end := min(len(text), maxText)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

// maxHolder is the maximum length of the name part of an annotation's key.
const maxHolder = 63

// Holder is the key of the user in the annotations that control power, so that users do not undo each other's requests. It is the name of the user, with a hyphen for each
// character that such a key cannot have. A key that is not the whole name ends with a hash of it, since several names would have one key.
func (r Requester) Holder() string {
	key := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			return c
		default:
			return '-'
		}
	}, r.User)
	key = strings.Trim(key, "-_.")
	if key == r.User && key != "" && len(key) <= maxHolder {
		return key
	}
	const hashLength = 8
	sum := sha256.Sum256([]byte(r.User))
	key = cmp.Or(key, "user")
	return key[:min(len(key), maxHolder-hashLength-1)] + "-" + hex.EncodeToString(sum[:])[:hashLength]
}

// Consent is what a person has to type before a plan is carried out.
type Consent int

const (
	// ConsentYes is a yes.
	ConsentYes Consent = iota
	// ConsentName is the name of the host: the server runs a machine, which stops, or data is lost.
	ConsentName
)

// Plan is what a command does to a host.
type Plan struct {
	// Does says what happens, as sentences for the user. It is empty if nothing is to be done.
	Does []string
	// Already says why nothing is to be done, if Does is empty.
	Already string
	// Consent is what a person has to type.
	Consent Consent
	// Event is the reason of the event that records the request.
	Event string
	// Change changes the host.
	Change func(*v1alpha1.BareMetalHost)
	// Power is true if the provider sends a power command for it.
	Power bool
	// Service is true if the provider controls the server again, or machines can claim the host, and what waited for that begins.
	Service bool
	// Reached is true once the provider has done what was asked. It is nil if the change is all there is.
	Reached func(*v1alpha1.BareMetalHost) bool
	// Outcome is what came of it once it is reached: an error if it failed. It is nil if what is reached has not failed.
	Outcome func(*v1alpha1.BareMetalHost) error
}

// Func makes the plan for a host. The error says why the change is refused, and what to do instead.
type Func func(*v1alpha1.BareMetalHost, Requester) (Plan, error)

// already is the plan that does nothing.
func already(format string, args ...any) Plan { return Plan{Already: fmt.Sprintf(format, args...)} }

// setAnnotation returns the change that sets an annotation.
func setAnnotation(key, value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[key] = value
	}
}

// machineOf names the machine that has the host.
func machineOf(h *v1alpha1.BareMetalHost) string {
	if h.Spec.ConsumerRef == nil {
		return ""
	}
	return "BareMetalMachine " + terminal.Line(h.Spec.ConsumerRef.Name)
}

// bmcUnused says why the BMC of a host gets no request; nil if it does.
func bmcUnused(h *v1alpha1.BareMetalHost) error {
	_, paused := h.Annotations[clusterv1.PausedAnnotation]
	_, detached := h.Annotations[v1alpha1.DetachedAnnotation]
	switch {
	case !h.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is being deleted", h.Name)
	case detached:
		return fmt.Errorf("%s is detached, so its BMC gets no request: remove the annotation %s first", h.Name, v1alpha1.DetachedAnnotation)
	case paused || meta.IsStatusConditionTrue(h.Status.Conditions, clusterv1.PausedCondition):
		return fmt.Errorf("%s is paused, so its BMC gets no request: remove the annotation %s of the host, its machine or its Cluster, or set spec.paused of the Cluster to false",
			h.Name, clusterv1.PausedAnnotation)
	default:
		return nil
	}
}

// readOnly says why the provider does not control the power of a host's server; nil if it does.
func readOnly(h *v1alpha1.BareMetalHost) error {
	if err := bmcUnused(h); err != nil {
		return err
	}
	switch {
	case h.Spec.Maintenance != nil:
		return fmt.Errorf("%s is in maintenance (%s), so the provider does not control its power: run kubectl baremetal maintenance end %s first", h.Name, terminal.Line(h.Spec.Maintenance.Reason), h.Name)
	case h.Spec.ExternallyProvisioned:
		return fmt.Errorf("something other than the provider runs %s (spec.externallyProvisioned), so the provider does not control its power", h.Name)
	default:
		return nil
	}
}
