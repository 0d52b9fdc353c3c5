// Package inventorycheck runs the programs kubectl-baremetal and bmcctl against an API server, to register servers that files list, and to export and verify erasures.
package inventorycheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var (
	env *controllerstest.Env
	// plugin is kubectl-baremetal, and bmcctl is bmcctl.
	plugin, bmcctl string
)

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

func TestInventory(t *testing.T) {
	folder := t.TempDir()
	plugin, bmcctl = filepath.Join(folder, "kubectl-baremetal"), filepath.Join(folder, "bmcctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", folder, "./cmd/kubectl-baremetal", "./cmd/bmcctl")
	build.Dir = controllerstest.Root()
	out, err := build.CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	t.Run("register", testRegister)
	t.Run("nothing half done", testNothingHalfDone)
	t.Run("Secrets that exist", testSecretsThatExist)
	t.Run("sample", testSample)
	t.Run("conflicts", testConflicts)
	t.Run("broken off", testBrokenOff)
	t.Run("YAML", testYAML)
	t.Run("usage", testUsage)
	t.Run("least rights", testLeastRights)
	t.Run("erasures", testErasures)
}

// outcome is the result of a run.
type outcome struct {
	code     int
	out, err string
}

// inventory runs kubectl baremetal register with a file of these lines, and consents.
func inventory(t *testing.T, kubeconfig, namespace string, lines []string, flags ...string) outcome {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rack.csv")
	NewWithT(t).Expect(os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	args := append([]string{"register", "rack.csv", "--kubeconfig", kubeconfig, "--namespace", namespace, "--yes", "--reason", "rack"}, flags...)
	command := exec.CommandContext(ctx, plugin, args...)
	command.Dir = filepath.Dir(file)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	o := outcome{command.ProcessState.ExitCode(), out.String(), errs.String()}
	if strings.Contains(o.out+o.err, "sEcret") {
		t.Errorf("a password was printed: %s%s", o.out, o.err)
	}
	return o
}

const header = "name,bmcAddress,username,password,bootMACAddresses,failureDomain,labels"

// rack returns the lines of a file with servers. n makes racks distinct.
func rack(n, servers int) []string {
	lines := []string{header}
	for i := range servers {
		lines = append(lines, fmt.Sprintf("r%d-u%d,redfish://10.%d.0.%d,admin,sEcret-%d,52:54:00:00:%02x:%02x,rack%d,rack=r%d", n, i, n, i, i, n, i, n, n))
	}
	return lines
}

func admin(t *testing.T) string {
	t.Helper()
	return env.Kubeconfig(t, "admin", "system:masters")
}

func hosts(t *testing.T, namespace string) []v1alpha1.BareMetalHost {
	t.Helper()
	var list v1alpha1.BareMetalHostList
	NewWithT(t).Expect(env.Client.List(t.Context(), &list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// Hosts and Secrets are there after one run; the next changes nothing, and a changed file changes what it says and nothing
// that the provider wrote.
func testRegister(t *testing.T) {
	g := NewWithT(t)
	namespace, kubeconfig, lines := env.Namespace(t), admin(t), rack(1, 12)
	got := inventory(t, kubeconfig, namespace, lines, "--dry-run")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(HaveSuffix("12 hosts would be registered; nothing was applied: 12 created, 0 changed, 0 unchanged; 12 Secrets would be written\n"))
	g.Expect(hosts(t, namespace)).To(BeEmpty())

	got = inventory(t, kubeconfig, namespace, lines)
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(HaveSuffix("12 hosts are registered: 12 created, 0 changed, 0 unchanged; 12 Secrets written\n"))
	g.Expect(hosts(t, namespace)).To(HaveLen(12))
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r1-u3"}}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(host), host)).To(Succeed())
	g.Expect(host.Spec.FailureDomain).To(Equal("rack1"))
	g.Expect(host.Labels).To(Equal(map[string]string{"rack": "r1"}))
	g.Expect(host.Annotations).To(HaveKeyWithValue(v1alpha1.HostRequestedByAnnotation, "admin: rack"))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r1-u3-bmc"}}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	g.Expect(secret.Data).To(Equal(map[string][]byte{"username": []byte("admin"), "password": []byte("sEcret-3")}))
	g.Expect(secret.Labels).To(And(HaveKey(v1alpha1.MoveLabel), HaveKey(v1alpha1.BMCSecretLabel)))
	g.Expect(secret.Annotations).To(HaveKeyWithValue(v1alpha1.BMCHostsAnnotation, MatchRegexp(`^10[.]`)))

	// The fields that the provider writes.
	controllerstest.Modify(t, env, host, func(h *v1alpha1.BareMetalHost) {
		h.Finalizers = []string{v1alpha1.HostFinalizer}
		h.Labels["seen"] = "yes"
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Tested"}
	})
	before := host.ResourceVersion
	got = inventory(t, kubeconfig, namespace, lines, "--reason", "another")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(Equal("12 hosts are registered: 0 created, 0 changed, 12 unchanged; 12 Secrets written\n"))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(host), host)).To(Succeed())
	g.Expect(host.ResourceVersion).To(Equal(before))

	lines[4] = strings.Replace(lines[4], "rack1,rack=r1", ",row=2", 1)
	got = inventory(t, kubeconfig, namespace, lines, "--reason", "moved")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(Equal(namespace + "/r1-u3 changed\n12 hosts are registered: 0 created, 1 changed, 11 unchanged; 12 Secrets written\n"))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(host), host)).To(Succeed())
	g.Expect(host.Annotations).To(HaveKeyWithValue(v1alpha1.HostRequestedByAnnotation, "admin: moved"))
	g.Expect(host.Spec.FailureDomain).To(BeEmpty())
	g.Expect(host.Labels).To(Equal(map[string]string{"row": "2", "seen": "yes"}))
	g.Expect(host.Spec.ConsumerRef.Name).To(Equal("m"))
	g.Expect(host.Spec.Quarantine.Reason).To(Equal("Tested"))
	g.Expect(host.Finalizers).To(Equal([]string{v1alpha1.HostFinalizer}))
	controllerstest.Modify(t, env, host, func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil })
}

// What is wrong by the file, by the API server's rules and by the hosts that there are is said in one run, line by
// line, and nothing is applied.
func testNothingHalfDone(t *testing.T) {
	g := NewWithT(t)
	namespace, elsewhere, kubeconfig := env.Namespace(t), env.Namespace(t), admin(t)
	g.Expect(inventory(t, kubeconfig, elsewhere, rack(2, 2)).code).To(Equal(0))
	g.Expect(inventory(t, kubeconfig, namespace, rack(3, 1)).code).To(Equal(0))
	lines := append(rack(4, 3),
		"r4-u3,redfish://10.4.0.3,admin,sEcret,01:00:5e:00:00:01,rack4,",                        // 5: multicast, which CEL says
		"r4-u4,redfish://10.4.0.4,admin,sEcret,52:54:00:00:04,rack4,",                           // 6: too short, which the file's reader says
		"r4-u5,redfish://10.2.0.1,admin,sEcret,52:54:00:00:02:00,rack4,",                        // 7: the BMC and the MAC of others
		"r3-u0,redfish://10.99.0.1,admin,sEcret,52:54:00:00:03:00,rack3,",                       // 8: another BMC for a host that exists
		"r4-u6,redfish://10.4.0.6,admin,sEcret,52:54:00:00:04:06,"+strings.Repeat("x", 257)+",") // 9: too long, which the schema says
	got := inventory(t, kubeconfig, namespace, lines)
	g.Expect(got.code).To(Equal(1))
	g.Expect(strings.Split(strings.TrimSpace(got.err), "\n")).To(HaveExactElements(
		And(HavePrefix("rack.csv:5: "), ContainSubstring("spec.bootMACAddresses"), ContainSubstring("must be a unicast MAC address")),
		HavePrefix("rack.csv:6: bootMACAddresses: "),
		HavePrefix("rack.csv:7: bootMACAddresses: the MAC address 52:54:00:00:02:00 belongs to the host "+elsewhere+"/r2-u0: correct it, or delete that host first"),
		HavePrefix("rack.csv:7: bmcAddress: the BMC redfish://10.2.0.1 belongs to the host "+elsewhere+"/r2-u1"),
		HavePrefix("rack.csv:8: bmcAddress: the host r3-u0 exists with the BMC redfish://10.3.0.0: use another name for this server, or --replace-bmc"),
		And(HavePrefix("rack.csv:9: "), ContainSubstring("spec.failureDomain"), ContainSubstring("63")),
		Equal("kubectl baremetal register: nothing was applied: correct the problems above (6), and run it again"),
	))
	g.Expect(hosts(t, namespace)).To(HaveLen(1))
	var secrets corev1.SecretList
	g.Expect(env.Client.List(t.Context(), &secrets, client.InNamespace(namespace))).To(Succeed())
	g.Expect(secrets.Items).To(HaveLen(1))

	got = inventory(t, kubeconfig, namespace, []string{header, lines[7]}, "--replace-bmc")
	g.Expect(got.code).To(Equal(0), got.err)
	host := hosts(t, namespace)[0]
	g.Expect(host.Spec.BMC.Address).To(Equal("redfish://10.99.0.1"))

	controllerstest.Modify(t, env, &host, func(h *v1alpha1.BareMetalHost) { h.Finalizers = []string{v1alpha1.HostFinalizer} })
	g.Expect(env.Client.Delete(t.Context(), &host)).To(Succeed())
	got = inventory(t, kubeconfig, namespace, []string{header, lines[7]})
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(HavePrefix("rack.csv:2: name: the host r3-u0 is being deleted: wait until it is deleted\n"))
	controllerstest.Modify(t, env, &host, func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil })
}

// A line may name a Secret, which must exist, and is not changed.
func testSecretsThatExist(t *testing.T) {
	g := NewWithT(t)
	namespace, kubeconfig := env.Namespace(t), admin(t)
	lines := []string{"name,bmcAddress,credentialsSecretName,caSecretName,bootMACAddresses", "r5-a,redfish://10.5.0.1,shared,ca,52:54:00:00:05:01"}
	got := inventory(t, kubeconfig, namespace, lines)
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(And(ContainSubstring("rack.csv:2: credentialsSecretName: the Secret "+namespace+"/shared does not exist: create it first"),
		ContainSubstring("rack.csv:2: caSecretName: the Secret "+namespace+"/ca does not exist")))
	shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}, Data: map[string][]byte{"username": []byte("u"), "password": []byte("p")}}
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca"}}
	env.Create(t, shared, ca)
	got = inventory(t, kubeconfig, namespace, lines)
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(ContainSubstring("rack.csv:2: credentialsSecretName: the Secret " + namespace + "/shared is not labeled as a Secret of a BMC: run kubectl label secret shared --namespace " + namespace))
	for _, secret := range []*corev1.Secret{shared, ca} {
		controllerstest.Modify(t, env, secret, func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.BMCSecretLabel: ""} })
	}
	got = inventory(t, kubeconfig, namespace, lines)
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(HaveSuffix("1 hosts are registered: 1 created, 0 changed, 0 unchanged; 0 Secrets written\n"))
	after := &corev1.Secret{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(shared), after)).To(Succeed())
	g.Expect(after.ResourceVersion).To(Equal(shared.ResourceVersion))
}

// The sample of config/samples can be registered.
func testSample(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "config", "samples", "rack.csv"))
	g.Expect(err).NotTo(HaveOccurred())
	got := inventory(t, admin(t), namespace, []string{string(content)})
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(hosts(t, namespace)).To(HaveLen(3))
}

// Fields of another client are overwritten only with --force-conflicts.
func testConflicts(t *testing.T) {
	g := NewWithT(t)
	namespace, kubeconfig := env.Namespace(t), admin(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r6-u0-bmc"}, Data: map[string][]byte{"username": []byte("admin"), "password": []byte("another")}}
	env.Create(t, secret, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "r6-u0"}, Spec: v1alpha1.BareMetalHostSpec{
		BMC: v1alpha1.BMC{Address: "redfish://10.6.0.0", CredentialsSecretName: "r6-u0-bmc"}, BootMACAddresses: []string{"52:54:00:00:06:00"}, FailureDomain: "by-hand",
	}})
	got := inventory(t, kubeconfig, namespace, rack(6, 2))
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(And(
		MatchRegexp(`(?m)^rack.csv:2: another client has set fields of it to other values: .*\.data\.password \(conflict with .*use --force-conflicts`),
		MatchRegexp(`(?m)^rack.csv:2: another client has set fields of it to other values: .*\.spec\.failureDomain \(conflict with`)))
	g.Expect(hosts(t, namespace)).To(HaveLen(1))
	got = inventory(t, kubeconfig, namespace, rack(6, 2), "--force-conflicts")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(hosts(t, namespace)[0].Spec.FailureDomain).To(Equal("rack6"))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	g.Expect(string(secret.Data["password"])).To(Equal("sEcret-0"))
}

// throughProxy returns a kubeconfig for a proxy before the API server, which breaks connections once allowed requests were made that
// write something.
func throughProxy(t *testing.T, allowed int64) (kubeconfig string, written *atomic.Int64) {
	t.Helper()
	g := NewWithT(t)
	target, err := url.Parse(env.Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	written = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "" && written.Add(1) > allowed {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: c}}],
clusters: [{name: c, cluster: {server: %q}}], users: [{name: c, user: {}}]}`, server.URL), 0o600)).To(Succeed())
	return kubeconfig, written
}

// If the API server becomes unreachable, the result of each line is printed, and another run completes it.
func testBrokenOff(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	kubeconfig, written := throughProxy(t, 21)
	got := inventory(t, kubeconfig, namespace, rack(7, 30))
	g.Expect(got.code).To(Equal(1))
	g.Expect(written.Load()).To(BeNumerically(">", 21))
	g.Expect(got.err).To(ContainSubstring("run it again with the same file to complete it"))
	said := map[int]string{}
	for line := range strings.Lines(got.err) {
		what, numbers, ok := strings.Cut(strings.TrimSpace(line), ": line")
		if !ok || strings.HasPrefix(what, "kubectl baremetal") {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(numbers, "s"), " "), ", ") {
			var from, to int
			if n, _ := fmt.Sscanf(part, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			for n := from; n <= to; n++ {
				g.Expect(said).NotTo(HaveKey(n))
				said[n] = what
			}
		}
	}
	g.Expect(said).To(HaveLen(30), got.err)
	for line, what := range said {
		name := fmt.Sprintf("r7-u%d", line-2)
		host := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &v1alpha1.BareMetalHost{})
		secret := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-bmc"}, &corev1.Secret{})
		switch what {
		case "applied":
			g.Expect(host).NotTo(HaveOccurred())
			g.Expect(secret).NotTo(HaveOccurred())
		case "only the Secret was applied":
			g.Expect(secret).NotTo(HaveOccurred())
			g.Expect(host).To(HaveOccurred())
		case "not applied":
			g.Expect(host).To(HaveOccurred())
			g.Expect(secret).To(HaveOccurred())
		default:
			g.Expect(what).To(Equal("requested without a response, so it may be applied or not"))
		}
	}
	got = inventory(t, admin(t), namespace, rack(7, 30))
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(hosts(t, namespace)).To(HaveLen(30))
}

// The objects are printed without a cluster, and without passwords by default.
func testYAML(t *testing.T) {
	g := NewWithT(t)
	got := inventory(t, "/nonexistent", "ns", rack(8, 2), "-o", "yaml")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).NotTo(ContainSubstring("kind: Secret"))
	g.Expect(got.err).To(ContainSubstring("2 Secrets were omitted: --with-passwords prints them"))
	documents := strings.Split(strings.TrimPrefix(got.out, "---\n"), "---\n")
	g.Expect(documents).To(HaveLen(2))
	var host v1alpha1.BareMetalHost
	g.Expect(yaml.UnmarshalStrict([]byte(documents[1]), &host)).To(Succeed())
	g.Expect(host.Spec.BMC).To(Equal(v1alpha1.BMC{Address: "redfish://10.8.0.1", CredentialsSecretName: "r8-u1-bmc"}))
	got = inventory(t, "/nonexistent", "ns", rack(8, 2), "-o", "yaml", "--with-passwords")
	g.Expect(strings.Count(got.out, "kind: Secret")).To(Equal(2))
	got = inventory(t, "/nonexistent", "ns", append(rack(8, 2), "x"), "-o", "yaml")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.out).To(BeEmpty())
}

// Errors contain the remedy.
func testUsage(t *testing.T) {
	for _, test := range []struct {
		namespace  string
		kubeconfig func(*testing.T) string
		flags      []string
		code       int
		says       string
	}{
		{"not-there", admin, nil, 1, `the namespace "not-there" does not exist: run kubectl create namespace not-there, or use --namespace`},
		{"default", func(*testing.T) string { return "/nonexistent" }, nil, 2, "the kubeconfig: "},
		{"default", admin, []string{"-o", "json"}, 2, `--output: "json" is unknown`},
		{"default", admin, []string{"-o", "yaml", "--dry-run"}, 2, "use only one of them"},
		{"default", admin, []string{"--with-passwords"}, 2, "--with-passwords needs -o yaml"},
		{"default", admin, []string{"another.csv"}, 2, "takes one file, but got 2"},
		{"default", func(t *testing.T) string { t.Helper(); return env.Kubeconfig(t, "nobody") }, nil, 1, "cannot list resource"},
	} {
		g := NewWithT(t)
		got := inventory(t, test.kubeconfig(t), test.namespace, rack(9, 1), test.flags...)
		g.Expect(got.code).To(Equal(test.code), got.err)
		g.Expect(got.err).To(ContainSubstring(test.says))
	}
}

// A user who may only read and write hosts, write Secrets and record events in one namespace can register servers there.
func testLeastRights(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "registrar"}
	env.Create(t, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"baremetalhosts"}, Verbs: []string{"list", "create", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create"}},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "registrar"}},
	})
	kubeconfig := env.Kubeconfig(t, "registrar")
	g.Eventually(func(g Gomega) { // the authorizer sees a new role a moment later
		got := inventory(t, kubeconfig, namespace, rack(10, 2))
		g.Expect(got.code).To(Equal(0), got.err)
		g.Expect(got.err).To(ContainSubstring("the user may not list the hosts of other namespaces"))
	}).Should(Succeed())
	g.Expect(hosts(t, namespace)).To(HaveLen(2))
}
