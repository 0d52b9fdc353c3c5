package claim_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// TestChoiceClosed: only a newer version of the same host proves that no claim of a choice can succeed any more.
func TestChoiceClosed(t *testing.T) {
	for name, c := range map[string]struct {
		name, version string
		uid           types.UID
		closed        bool
	}{
		"older":         {"h", "99", "a", false},
		"the same":      {"h", "100", "a", false},
		"newer":         {"h", "101", "a", true},
		"another host":  {"i", "101", "a", false},
		"another UID":   {"h", "101", "b", false},
		"not parseable": {"h", "x", "a", false},
	} {
		t.Run(name, func(t *testing.T) {
			choice := claim.Choice{Name: "h", UID: "a", ResourceVersion: "100"}
			seen := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: c.name, UID: c.uid, ResourceVersion: c.version}}
			NewWithT(t).Expect(choice.Closed(seen)).To(Equal(c.closed))
		})
	}
}
