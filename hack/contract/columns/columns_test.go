// Package columns checks what the real kubectl prints about hosts and boots.
package columns

import (
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// get returns the lines that kubectl prints for the objects of a kind in a namespace.
func get(t *testing.T, args ...string) []string {
	t.Helper()
	kubectl := filepath.Join(controllerstest.Root(), ".cache", "bin", "kubectl")
	command := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", env.Kubeconfig(t, "reader", "system:masters"), "get"}, args...)...)
	out, err := command.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s", out)
	t.Logf("kubectl get %s\n%s", strings.Join(args, " "), out)
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// names are as long as those of real clusters: a host in a rack, and a Machine of a MachineDeployment or of a control plane, with the suffixes of Cluster
// API.
var names = map[string]string{"r07-u23": "prod-md-0-x7k2p-9q4fz", "r07-u24": "prod-control-plane-l8x4d", "r12-u01": ""}

// register creates a host for each name. Each boots for its machine, if it has one, and has reached one of the stages.
func register(t *testing.T, stages ...v1alpha1.BootStage) (namespace string) {
	t.Helper()
	g := NewWithT(t)
	namespace = env.Namespace(t)
	number := 0
	for _, name := range slices.Sorted(maps.Keys(names)) {
		machine := names[name]
		number++
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://10.20.7.123", CredentialsSecretName: name + "-bmc"}, BootMACAddresses: []string{"52:54:00:12:34:5" + string(rune('0'+number))},
		}}
		boot := &v1alpha1.BareMetalBoot{ObjectMeta: h.ObjectMeta}
		if machine != "" {
			h.Spec.ConsumerRef, h.Spec.ProviderState.Boots = controllerstest.Claimed(machine), 117
			boot.Spec = v1alpha1.BareMetalBootSpec{
				Number: 117, Attempt: 2, Purpose: v1alpha1.PurposeProvision, ClaimID: h.Spec.ConsumerRef.ClaimID, MachineName: machine,
				StartTime: metav1.NewTime(time.Now().Add(-90 * time.Second)),
			}
		}
		env.Create(t, h, boot)
		if machine != "" {
			g.Expect(controllers.ApplyStages(t.Context(), env.Client, boot, controllers.NewStage(boot, stages[number-1]))).To(Succeed())
		}
	}
	return namespace
}

// TestBoots: at every stage up to the machine's Node, what users watch fits into 100 columns. -o wide has the rest.
func TestBoots(t *testing.T) {
	for _, stages := range [][]v1alpha1.BootStage{
		{v1alpha1.StageStarted, v1alpha1.StageDHCP}, {v1alpha1.StageLoader, v1alpha1.StageWaiting}, {v1alpha1.StageScript, v1alpha1.StageKernel},
		{v1alpha1.StageData, v1alpha1.StageNode}, {v1alpha1.StageReportedIn, v1alpha1.StageNode},
	} {
		t.Run(string(stages[0]), func(t *testing.T) {
			g := NewWithT(t)
			lines := get(t, "-n", register(t, stages...), "baremetalboots")
			g.Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "PURPOSE", "MACHINE", "NUMBER", "STAGE", "PROGRESS", "STARTED", "AGE"}))
			g.Expect(lines).To(HaveLen(1 + len(names)))
			for _, line := range lines {
				g.Expect(len(line)).To(BeNumerically("<=", 100), line)
			}
			for i, host := range slices.Sorted(maps.Keys(names)) {
				shown := " "
				if machine := names[host]; machine != "" {
					shown = `Provision +` + machine + ` +117 +` + string(stages[i]) + ` +(awaits [a-zA-Z]+|done) +9\ds `
				}
				g.Expect(lines).To(ContainElement(MatchRegexp(`^`+host+` +`+shown)), host)
			}
		})
	}
	wide := get(t, "-n", register(t, v1alpha1.StageScript, v1alpha1.StageData), "baremetalboots", "-o", "wide")
	NewWithT(t).Expect(strings.Fields(wide[0])).To(Equal([]string{
		"NAME", "PURPOSE", "MACHINE", "NUMBER", "STAGE", "PROGRESS", "STARTED", "AGE", "ATTEMPT", "METHOD", "SCRIPT", "MAC", "DATA", "VOIDED", "FAILURE",
	}))
}

// TestHosts: as TestBoots, for hosts.
func TestHosts(t *testing.T) {
	g := NewWithT(t)
	namespace := register(t, v1alpha1.StageDHCP, v1alpha1.StageKernel)
	lines := get(t, "-n", namespace, "baremetalhosts")
	g.Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "PHASE", "POWER", "MACHINE", "READY", "REASON", "AGE"}))
	for _, line := range lines {
		g.Expect(len(line)).To(BeNumerically("<=", 100), line)
	}
	// Related kinds are listed together.
	all := get(t, "-n", namespace, "cluster-api")
	for _, kind := range []string{"baremetalhost", "baremetalboot"} {
		g.Expect(all).To(ContainElement(HavePrefix(kind+".infrastructure.cluster.x-k8s.io/r07-u23 ")), kind)
	}
}

// TestMachines: as TestBoots, for the machines of these hosts in their longest usual phase, with the longest usual reason.
func TestMachines(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	for host, name := range names {
		if name == "" {
			continue
		}
		m := env.NewClaim(t, namespace, name, func(c *controllerstest.Claim) {
			c.BareMetalMachine.Labels[clusterv1.ClusterNameLabel] = "prod"
		}).BareMetalMachine
		m.Status.Phase, m.Status.NodeName, m.Status.HostRef = string(v1alpha1.PhaseProvisioned), name, &v1alpha1.HostReference{Name: host}
		conditions.Set(m, metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForBootstrapData})
		g.Expect(env.Client.Status().Update(t.Context(), m)).To(Succeed())
	}
	lines := get(t, "-n", namespace, "baremetalmachines")
	g.Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "CLUSTER", "HOST", "PHASE", "READY", "REASON", "AGE"}))
	for _, line := range lines {
		g.Expect(len(line)).To(BeNumerically("<=", 100), line)
	}
	wide := get(t, "-n", namespace, "baremetalmachines", "-o", "wide")
	g.Expect(strings.Fields(wide[0])).To(Equal([]string{"NAME", "CLUSTER", "HOST", "PHASE", "READY", "REASON", "AGE", "NODE", "MACHINE", "PROVIDERID", "MESSAGE"}))
	g.Expect(wide).To(ContainElement(MatchRegexp(`^prod-md-0-x7k2p-9q4fz +prod +r07-u23 +Provisioned .* prod-md-0-x7k2p-9q4fz +prod-md-0-x7k2p-9q4fz`)))
}
