package bootstrap

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestMetrics: only the leader counts configs by reason.
func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	config := func(name, reason string) client.Object {
		c := newConfig("n", name)
		if reason != "" {
			c.Status.Conditions = []metav1.Condition{{Type: bootstrapv1.DataSecretAvailableCondition, Reason: reason}}
		}
		return c
	}
	leads := make(chan struct{})
	m := &Metrics{Leads: leads, Client: fake.NewClientBuilder().WithScheme(controllerstest.FakeScheme()).WithObjects(
		config("a", bootstrapv1.ReasonDataSecretCreated), config("b", bootstrapv1.ReasonDataSecretCreated), config("c", bootstrapv1.ReasonValueMissing), config("d", ""),
	).Build()}
	g.Expect(testutil.CollectAndCount(m)).To(BeZero())
	close(leads)
	g.Expect(testutil.CollectAndCount(m)).To(Equal(len(reasons)))
	text, err := testutil.CollectAndFormat(m, expfmt.TypeTextPlain, "capbm_bootstrap_configs")
	g.Expect(err).NotTo(HaveOccurred())
	for line, want := range map[string]string{"DataSecretCreated": "2", "ValueMissing": "1", "WaitingForMachine": "1", "SecretConflict": "0"} {
		g.Expect(string(text)).To(ContainSubstring(`capbm_bootstrap_configs{reason="` + line + `"} ` + want))
	}
	problems, err := testutil.CollectAndLint(m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
}

// TestReasons: the metric has every reason of the API.
func TestReasons(t *testing.T) {
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), "../../api/bootstrap/v1alpha1/conditions.go", nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	known := sets.New(reasons...)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(known.Has(value)).To(BeTrue(), value)
		found++
		return true
	})
	g.Expect(found).To(Equal(len(reasons)-1), "and the one for configs without the condition")
}
