package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

const userRoles = "../../config/rbac/user_roles.yaml"

// roles reads the roles for people, as VERB RESOURCE.GROUP.
func roles(t *testing.T) map[string]map[string]bool {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash(userRoles))
	g.Expect(err).NotTo(HaveOccurred())
	all := map[string]map[string]bool{}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole
		g.Expect(yaml.UnmarshalStrict([]byte(document), &role)).To(Succeed())
		granted := map[string]bool{}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						granted[strings.TrimSuffix(verb+" "+resource+"."+group, ".")] = true
					}
				}
			}
		}
		all[role.Name] = granted
	}
	return all
}

// permits is true if a role grants a right, also by a wildcard.
func permits(granted map[string]bool, right string) bool {
	verb, resource, _ := strings.Cut(right, " ")
	_, group, _ := strings.Cut(resource, ".")
	return granted[right] || granted[verb+" *."+group]
}

// everybody has these rights: those of the group system:authenticated.
var everybody = []string{"create selfsubjectreviews.authentication.k8s.io"}

// TestRoles: the viewer may run what changes nothing, the operator every command, and the tenant may ask about machines and clusters. The rights that the commands need are
// those that they use here; without the others they say what they may not do.
func TestRoles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rack.csv")
	NewWithT(t).Expect(os.WriteFile(file, []byte("name,bmcAddress,username,password,bootMACAddresses\ns1,redfish://192.0.2.1,u,p,52:54:00:00:00:01\n"), 0o600)).To(Succeed())
	reports := filepath.Join(t.TempDir(), "report.tar.gz")
	const viewer, operator, tenant = "capbm-system-viewer", "capbm-system-operator", "capbm-system-tenant"
	cases := []struct {
		command string
		args    []string
		roles   []string
	}{
		{"status", []string{"status"}, []string{viewer, operator}},
		{"status", []string{"status", "server-1"}, []string{viewer, operator}},
		{"why", []string{"why", "server-1"}, []string{viewer, operator}},
		{"why", []string{"why", "machine/m"}, []string{tenant, viewer, operator}},
		{"why", []string{"why", "cluster/c"}, []string{tenant, viewer, operator}},
		{"why", []string{"why", "profile/r750"}, []string{tenant, viewer, operator}},
		{"why", []string{"why", "baremetalsettings/server-1"}, []string{viewer, operator}},
		{"events", []string{"events", "server-1"}, []string{viewer, operator}},
		{"erasures", []string{"erasures"}, []string{viewer, operator}},
		{"report", []string{"report", "server-1", "--without-logs", "--file", reports}, []string{viewer, operator}},
		{"power status", []string{"power", "status", "server-1"}, []string{viewer, operator}},
		{"power on", []string{"power", "on", "server-2", "--reason", "x", "--yes", "--wait=0"}, []string{operator}},
		{"power off", []string{"power", "off", "server-1", "--reason", "x", "--yes-its-claimed", "server-1", "--wait=0"}, []string{operator}},
		{"power cycle", []string{"power", "cycle", "server-1", "--reason", "x", "--yes-its-claimed", "server-1", "--wait=0"}, []string{operator}},
		{"maintenance start", []string{"maintenance", "start", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"maintenance end", []string{"maintenance", "end", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"quarantine start", []string{"quarantine", "start", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"quarantine end", []string{"quarantine", "end", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"inspect", []string{"inspect", "server-2", "--reason", "x", "--yes", "--wait=0"}, []string{operator}},
		{"drain start", []string{"drain", "start", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"drain end", []string{"drain", "end", "server-1", "--reason", "x", "--yes"}, []string{operator}},
		{"erase", []string{"erase", "server-2", "--policy", "Clear", "--reason", "x", "--yes-erase", "server-2"}, []string{operator}},
		{"register", []string{"register", file, "--yes", "--reason", "x"}, []string{operator}},
	}
	granted := roles(t)
	tried := map[string]bool{}
	for _, c := range cases {
		tried[c.command] = true
		b := newBench(runningHost("server-1"), freeHost("server-2"), machine(), workloadSecret(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}},
			&v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "r750"}}, &v1alpha1.BareMetalSettings{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "server-1"}},
			&v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "e"}}, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c"}}, &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m", Labels: machine().Labels},
				Spec:       clusterv1.MachineSpec{ClusterName: "c", InfrastructureRef: clusterv1.ContractVersionedObjectReference{Kind: why.KindBareMetalMachine, Name: "m"}},
			})
		if slices.Contains(ends, c.command) {
			h := b.host(t, "server-1")
			h.Spec.Maintenance, h.Spec.Quarantine = &v1alpha1.Maintenance{Reason: "x"}, &v1alpha1.Quarantine{Reason: "x"}
			NewWithT(t).Expect(b.client.Update(t.Context(), h)).To(Succeed())
		}
		got := b.run(t, c.args...)
		NewWithT(t).Expect(got.code == exitOK || c.command == "why" && got.code == exitFault).To(BeTrue(), "%v: %s", c.args, got.err)
		for _, role := range c.roles {
			for _, right := range slices.Sorted(maps.Keys(b.used)) {
				if !permits(granted[role], right) && !slices.Contains(everybody, right) && !deniedIsFine(role, right) {
					t.Errorf("%s needs %q, which %s does not grant", strings.Join(c.args, " "), right, role)
				}
			}
		}
	}
	for _, path := range leaves(newTool(genericiooptions.NewTestIOStreamsDiscard()).command()) {
		if !tried[path] {
			t.Errorf("the command %q has no case in this test", path)
		}
	}
}

// ends are the commands that do something only in a maintenance and a quarantine.
var ends = []string{"maintenance end", "quarantine end"}

// deniedIsFine is true for what a tenant may not read: the answer says so. The namespace is read to explain a wrong name, and a role that a RoleBinding binds cannot grant that.
func deniedIsFine(role, right string) bool {
	return right == "get namespaces" || role == "capbm-system-tenant" && (strings.HasSuffix(right, " baremetalhosts.infrastructure.cluster.x-k8s.io") || strings.HasSuffix(right, " baremetalboots.infrastructure.cluster.x-k8s.io"))
}

// leaves returns the commands that do something, without the name of the program.
func leaves(cmd *cobra.Command) []string {
	var paths []string
	for _, child := range cmd.Commands() {
		switch {
		case child.Name() == "options" || child.Name() == "completion" || child.Name() == "help":
		case child.HasSubCommands():
			paths = append(paths, leaves(child)...)
		default:
			paths = append(paths, strings.TrimPrefix(child.CommandPath(), "kubectl baremetal "))
		}
	}
	return paths
}

// TestTenantReadsNoEvents: events of hosts have entries of the logs of BMCs.
func TestTenantReadsNoEvents(t *testing.T) {
	g := NewWithT(t)
	all := roles(t)
	for _, right := range []string{"get events", "list events", "watch events", "list events.events.k8s.io", "list baremetalhosts.infrastructure.cluster.x-k8s.io", "get secrets"} {
		g.Expect(all["capbm-system-tenant"]).NotTo(HaveKey(right))
	}
	g.Expect(all["capbm-system-viewer"]).To(HaveKey("list events"))
}

// TestRolesAreDocumented: the page about security names each role, and what it permits.
func TestRolesAreDocumented(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.FromSlash("../../docs/concepts/security.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for name := range roles(t) {
		g.Expect(string(content)).To(ContainSubstring("| `" + name + "` |"))
	}
}
