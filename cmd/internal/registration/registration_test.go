package registration

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRefusal: errors about one line are distinguished from errors about all lines.
func TestRefusal(t *testing.T) {
	hosts := schema.GroupResource{Group: "infrastructure.cluster.x-k8s.io", Resource: "baremetalhosts"}
	for _, test := range []struct {
		name  string
		err   error
		lines bool
		says  string
	}{
		{"a rule", apierrors.NewInvalid(schema.GroupKind{Kind: "BareMetalHost"}, "h", nil), true, `"h" is invalid`},
		{"a webhook refuses", apierrors.NewForbidden(hosts, "h", errors.New(`admission webhook "w" denied the request: not in this rack`)), true, "not in this rack"},
		{"a webhook is away", apierrors.NewInternalError(errors.New(`failed calling webhook "w"`)), false, ""},
		{"a right is missing", apierrors.NewForbidden(hosts, "h", errors.New("User \"u\" cannot patch resource")), false, ""},
		{"no answer", errors.New("connection refused"), false, ""},
		{"too many requests", apierrors.NewTooManyRequestsError("later"), false, ""},
		{"a conflict", apierrors.NewApplyConflict([]metav1.StatusCause{{Field: ".spec.power", Message: `conflict with "kubectl"`}}, "1 conflict"), true, `.spec.power (conflict with "kubectl")`},
	} {
		g := NewWithT(t)
		text, lines := refusal(test.err)
		g.Expect(lines).To(Equal(test.lines), test.name)
		g.Expect(text).To(ContainSubstring(test.says), test.name)
	}
}

func TestRanges(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ranges([]int{7})).To(Equal("line 7"))
	g.Expect(ranges([]int{2, 3, 4, 7, 9, 10})).To(Equal("lines 2-4, 7, 9-10"))
}
