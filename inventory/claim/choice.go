package claim

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Choice is the version of a host that a machine claims. The machine records it in an annotation before the claim, and the claim succeeds for that
// version only. If the host has another version now, or another machine has it, the choice can never become a claim.
type Choice struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// ChoiceOf returns the choice that a machine recorded last. It returns false without one.
func ChoiceOf(m *v1alpha1.BareMetalMachine) (choice Choice, ok bool) {
	parts := strings.Split(m.Annotations[v1alpha1.ChosenHostAnnotation], "/")
	if len(parts) != 3 {
		return Choice{}, false
	}
	return Choice{parts[0], types.UID(parts[1]), parts[2]}, true
}

// Open is true while a claim of the choice can still succeed. host must be a current read of the chosen host from the API server. The UID distinguishes
// it from a copy that `clusterctl move` made, since another API server counts the copy's versions.
func (c Choice) Open(host *v1alpha1.BareMetalHost) bool {
	return host.Name == c.Name && host.UID == c.UID && host.ResourceVersion == c.ResourceVersion && host.Spec.ConsumerRef == nil
}

// Closed is true if seen proves that no claim of the choice can succeed any more: its host has a newer version, and a version never returns. A read from the cache proves it too. A
// host with another UID proves nothing, since the cache may show an earlier host of the name.
func (c Choice) Closed(seen *v1alpha1.BareMetalHost) bool {
	if seen.Name != c.Name || seen.UID != c.UID {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(seen.ResourceVersion, c.ResourceVersion)
	return err == nil && order > 0
}

// Choose records in a machine which version of a host it claims. The caller writes the machine with an optimistic lock, before the claim.
func Choose(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[v1alpha1.ChosenHostAnnotation] = strings.Join([]string{host.Name, string(host.UID), host.ResourceVersion}, "/")
}
