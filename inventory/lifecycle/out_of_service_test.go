package lifecycle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// outOfService are the ways to take a host out of service, by their names in the tables.
var outOfService = map[string]func(*View){
	"paused (annotation)":   func(v *View) { v.Host.Paused = true },
	"detached (annotation)": detached,
	"maintenance":           maintenance,
	"quarantine":            quarantined,
	"externallyProvisioned": external,
}

// isClaimed says whether a machine may claim an unclaimed host. It sets the condition Available as the host controller does.
func isClaimed(v View) string {
	host := v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}, Spec: v.Host.Spec}
	if v.Requests.Detached.Set {
		host.Annotations[v1alpha1.DetachedAnnotation] = v.Requests.Detached.Value
	}
	available := metav1.ConditionFalse
	if Next(v, DefaultSettings()).Phase == v1alpha1.PhaseAvailable {
		available = metav1.ConditionTrue
	}
	host.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.AvailableCondition, Status: available},
	}
	if got, _ := claim.Pick(claim.Each([]v1alpha1.BareMetalHost{host}), claim.Want{Selector: labels.Everything()}, func(*v1alpha1.BareMetalHost) bool { return false }); got != nil {
		return "yes"
	}
	return "no"
}

// isPowered says whether the server gets a requested power command: by spec.power for an unclaimed host, by a power hold for a claimed one.
func isPowered(way func(*View)) string {
	commanded := func(v View) bool { return Next(v, DefaultSettings()).Action.Commands() }
	free := commanded(freeView(func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOn }, way)) ||
		commanded(freeView(poweredOn, func(v *View) { v.Host.Spec.Power = v1alpha1.PowerOff }, way))
	switch held := commanded(claimedView(provisioned, poweredOn, forceHeld, powerHoldSince, way)); {
	case free && held:
		return "yes"
	case held:
		return "if claimed"
	default:
		return "no"
	}
}

// isReleased says what the deletion of the machine does to its host.
func isReleased(way func(*View)) string {
	running := Next(claimedView(provisioned, poweredOn, deleting, way), DefaultSettings()).Action
	clean := Next(claimedView(provisioned, deleting, cleaningBegan, cleaned, way), DefaultSettings()).Action
	switch {
	case running == Release:
		return "untouched"
	case running.Commands() && clean == Release:
		return "yes"
	default:
		return "waits"
	}
}

// isDeleted says when the host object is removed.
func isDeleted(way func(*View)) string {
	goes := func(v View) bool {
		v.Host.Deleting = true
		return Next(v, DefaultSettings()).Action == Forget
	}
	switch free := goes(freeView(way)); {
	case free && goes(claimedView(provisioned, way)):
		return "at once"
	case free:
		return "when free"
	default:
		return "waits"
	}
}

// rows returns the rows of the table with the ways to take a host out of service, by their first cell.
func rows(text string) map[string][]string {
	table := regexp.MustCompile(`(?m)^\| set on the host .*\n(\|.*(\n|$))+`).FindString(text)
	found := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !strings.HasPrefix(cells[0], "---") && cells[0] != "set on the host" {
			found[cells[0]] = cells[1:]
		}
	}
	return found
}

// TestOutOfService: the tables in the documentation of the CRD, which kubectl explain shows, and in
// docs/guides/maintain-servers.md agree with the lifecycle.
func TestOutOfService(t *testing.T) {
	g := NewWithT(t)
	nothing := func(*View) {}
	g.Expect([]string{isClaimed(freeView()), isPowered(nothing), isReleased(nothing), isDeleted(nothing)}).To(Equal([]string{"yes", "yes", "yes", "when free"}),
		"a host in service: else the rest shows nothing")

	want := map[string][]string{}
	for name, way := range outOfService {
		want[name] = []string{isClaimed(freeView(way)), isPowered(way), isReleased(way), isDeleted(way)}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", "infrastructure.cluster.x-k8s.io_baremetalhosts.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal(text, &crd)).To(Succeed())
	explained := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Description
	g.Expect(rows(explained)).To(Equal(want))
	for line := range strings.Lines(explained) {
		if strings.HasPrefix(line, "|") {
			g.Expect(len(line)).To(BeNumerically("<=", 76), "kubectl explain breaks longer lines")
		}
	}

	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "maintain-servers.md"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(rows(strings.ReplaceAll(string(page), "`", ""))).To(Equal(want))
}
