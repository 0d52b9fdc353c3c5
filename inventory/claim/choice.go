package claim

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Choice is the version of a host that a machine claims. The machine records it in an annotation before the claim, and the claim succeeds for that
// version only: a choice whose host has another version, or is claimed by another machine, can never become a claim.
type Choice struct {
	Name            string
	UID             types.UID
	ResourceVersion string
}

// ChoiceOf returns the choice that a machine recorded last. ok is false without one.
func ChoiceOf(m *v1alpha1.BareMetalMachine) (choice Choice, ok bool) {
	parts := strings.Split(m.Annotations[v1alpha1.ChosenHostAnnotation], "/")
	if len(parts) != 3 {
		return Choice{}, false
	}
	return Choice{parts[0], types.UID(parts[1]), parts[2]}, true
}

// Open is true while a claim of the choice can still succeed. host is the chosen host as the API server has it now. Its UID tells it from the copy that
// `clusterctl move` makes, whose versions are counted by another API server.
func (c Choice) Open(host *v1alpha1.BareMetalHost) bool {
	return host.Name == c.Name && host.UID == c.UID && host.ResourceVersion == c.ResourceVersion && host.Spec.ConsumerRef == nil
}

// Choose records in a machine, by one optimistic-lock patch, that it claims a host as it was read. If anyone wrote to the machine since it was read, the
// error is a conflict (apierrors.IsConflict) and nothing was changed. The machine is the API server's answer afterwards.
func Choose(ctx context.Context, c client.Client, m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) error {
	before := m.DeepCopy()
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[v1alpha1.ChosenHostAnnotation] = strings.Join([]string{host.Name, string(host.UID), host.ResourceVersion}, "/")
	return c.Patch(ctx, m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}
