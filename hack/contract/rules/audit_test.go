package rules

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// request is the part of an audit event that this suite reads.
type request struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Received   time.Time `json:"requestReceivedTimestamp"`
	Verb       string    `json:"verb"`
	RequestURI string    `json:"requestURI"`
	Object     *struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Answer struct {
		Kind string `json:"kind"`
	} `json:"responseObject"`
}

// right is a verb on a resource, such as "patch baremetalhosts/status.infrastructure.cluster.x-k8s.io".
type right string

func rightOf(verb, resource, group string) right {
	return right(strings.TrimSuffix(verb+" "+resource+"."+group, "."))
}

// requests reads the audit log: the requests of this provider's service accounts since the start of the API server.
func (s *suite) requests(t *testing.T) []request {
	t.Helper()
	g := NewWithT(t)
	file, err := os.Open(s.audit)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(file.Close()).To(Succeed()) }()
	var out []request
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var r request
		g.Expect(json.Unmarshal(lines.Bytes(), &r)).To(Succeed())
		out = append(out, r)
	}
	g.Expect(lines.Err()).NotTo(HaveOccurred())
	g.Expect(out).NotTo(BeEmpty())
	return out
}

// nothingRefused shows that no right is missing. It also reads the metrics with and without the permission, for which the managers ask the API server.
func (s *suite) nothingRefused(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	g.Expect(c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta(providerNamespace, "scraper")})).To(Succeed())
	role := metav1.ObjectMeta{Name: "scraper"}
	g.Expect(c.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}})).To(Succeed())
	g.Expect(c.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: providerNamespace, Name: "scraper"}},
	})).To(Succeed())
	for account, want := range map[string]int{"scraper": http.StatusOK, "capbm-boot": http.StatusForbidden} {
		token := s.tokenOf(ctx, t, providerNamespace, account)
		for _, address := range []string{s.metrics, s.boot, s.render} {
			eventually(t, func(g Gomega) { // the controllers were just started
				status, err := scrape(ctx, address, token)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(status).To(Equal(want), "%s at %s", account, address)
			})
		}
	}
	for _, r := range s.requests(t) {
		g.Expect(r.Status.Code).NotTo(Equal(http.StatusForbidden), "%s: %s %s", r.User.Username, r.Verb, r.RequestURI)
	}
}

// repeatedEvents: client-go's recorder counts an event that is repeated within some minutes in one object. A host that boots twice causes that, but takes
// longer than this suite. So events are recorded here with the rights of a boot server and of the bootstrap provider.
func (s *suite) repeatedEvents(t *testing.T) {
	host := &v1alpha1.BareMetalHost{}
	s.get(t, site.Namespace, "server-1", host)
	s.repeatEvent(t, filepath.Join(s.lab.Dir, "capbm-boot.kubeconfig"), host)
	config := &bootstrapv1.BareMetalConfig{}
	s.get(t, rendering, "ownerless", config)
	s.repeatEvent(t, s.kubeconfigOf(t.Context(), t, bootstrapNamespace, "capbm-bootstrap-manager"), config)
}

func (s *suite) repeatEvent(t *testing.T, kubeconfig string, about client.Object) {
	t.Helper()
	g := NewWithT(t)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	clients, err := kubernetes.NewForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: clients.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	g.Expect(broadcaster.StartRecordingToSinkWithContext(t.Context())).To(Succeed())
	recorder := broadcaster.NewRecorder(plane.Scheme(), "repeating")
	eventually(t, func(g Gomega) {
		recorder.Eventf(about, nil, corev1.EventTypeNormal, "Repeated", "Repeat", "again")
		var list eventsv1.EventList
		g.Expect(s.plane.Client.List(t.Context(), &list, client.InNamespace(about.GetNamespace()))).To(Succeed())
		g.Expect(list.Items).To(ContainElement(And(HaveField("Reason", "Repeated"), HaveField("Series", Not(BeNil())))))
	})
}

// used returns the rights that a user used: in a namespace, which is that of its provider, and elsewhere or cluster-wide.
func (s *suite) used(t *testing.T, user, namespace string) (own, wide map[right]int) {
	t.Helper()
	own, wide = map[right]int{}, map[right]int{}
	for _, r := range s.requests(t) {
		if r.User.Username != user || r.Object == nil {
			continue
		}
		resource := r.Object.Resource
		if r.Object.Subresource != "" {
			resource += "/" + r.Object.Subresource
		}
		if r.Object.Namespace == namespace {
			own[rightOf(r.Verb, resource, r.Object.Group)]++
		} else {
			wide[rightOf(r.Verb, resource, r.Object.Group)]++
		}
	}
	return own, wide
}

// granted returns the rights that rules give.
func granted(rules []rbacv1.PolicyRule) []right {
	var out []right
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, rightOf(verb, resource, group))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// remediations is the reason of the rights that only remediations use. A remediation would replace the machines of this suite.
var remediations = struct{ why, test string }{"a remediation tells how it goes, and hands a Machine over", "hack/contract/remediation.TestMachineHealthCheck"}

// inspections is the reason of rights that an inspection by the agent uses: the servers of this suite run no agent.
var inspections = struct{ why, test string }{"the agent reports what it found", "hack/e2e.TestInspection"}

// erasures is the reason of rights that recording an erasure uses: the servers of this suite run no agent.
var erasures = struct{ why, test string }{"the erasure of a host is recorded, and signed with a key of the provider's namespace", "cmd/manager.TestErasureRights"}

// profiles is the reason of rights that firmware settings use: the manager of this suite runs without --profiles.
var profiles = struct{ why, test string }{"a profile is read, and the settings of a host are recorded", "controllers/host.TestSettingsRun"}

// elsewhere are the rights that this suite does not use reliably, by role, with the reason and the test that uses them.
var elsewhere = map[string]map[right]struct{ why, test string }{
	"ClusterRole capbm-system-manager": {
		"patch events.events.k8s.io":                                            remediations,
		"delete baremetalerasurerequests.infrastructure.cluster.x-k8s.io":       {"no disk is erased on request", "cmd/manager.TestErasureRequestRights"},
		"patch baremetalerasurerequests/status.infrastructure.cluster.x-k8s.io": {"no disk is erased on request", "cmd/manager.TestErasureRequestRights"},
		"record baremetalhosts.infrastructure.cluster.x-k8s.io":                 {"the policy capbm-system-hosts-state asks for it, and no request has this verb", "cmd/manager.TestHostStatePolicy"},
		"get baremetalremediations.infrastructure.cluster.x-k8s.io":             remediations,
		"patch baremetalremediations.infrastructure.cluster.x-k8s.io":           remediations,
		"patch baremetalremediations/status.infrastructure.cluster.x-k8s.io":    remediations,
		"patch machines/status.cluster.x-k8s.io":                                remediations,
		"patch machines.cluster.x-k8s.io":                                       {"a Machine is kept from MachineHealthChecks while its host is kept off or in maintenance", "controllers/machine.TestSkipRemediation"},
		"get nodes":                                                             {"the manager reads the Node that its Pod runs on; the process of this suite runs on no Node", "controllers/host.TestOwnNode"},
		"get namespaces":                                                        {"a host that is deleted while a machine has it goes with its namespace, which is looked at then", "controllers/host.TestNamespaceGoes"},
		"get baremetalinspections.infrastructure.cluster.x-k8s.io":              inspections,
		"create baremetalerasures.infrastructure.cluster.x-k8s.io":              erasures,
		"get baremetalerasures.infrastructure.cluster.x-k8s.io":                 erasures,
		"list baremetalerasures.infrastructure.cluster.x-k8s.io":                erasures,
		"delete baremetalerasures.infrastructure.cluster.x-k8s.io":              erasures,
		"record baremetalerasures.infrastructure.cluster.x-k8s.io":              {"the policy capbm-system-erasures asks for it, and no request has this verb", "cmd/manager.TestErasureRights"},
		"get baremetalprofiles.infrastructure.cluster.x-k8s.io":                 profiles,
		"list baremetalprofiles.infrastructure.cluster.x-k8s.io":                profiles,
		"watch baremetalprofiles.infrastructure.cluster.x-k8s.io":               profiles,
		"patch baremetalprofiles/status.infrastructure.cluster.x-k8s.io":        profiles,
		"create baremetalsettings.infrastructure.cluster.x-k8s.io":              profiles,
		"get baremetalsettings.infrastructure.cluster.x-k8s.io":                 profiles,
		"list baremetalsettings.infrastructure.cluster.x-k8s.io":                profiles,
		"watch baremetalsettings.infrastructure.cluster.x-k8s.io":               profiles,
		"patch baremetalsettings.infrastructure.cluster.x-k8s.io":               profiles,
		"patch baremetalsettings/status.infrastructure.cluster.x-k8s.io":        profiles,
		"record baremetalsettings.infrastructure.cluster.x-k8s.io":              {"the policy capbm-system-settings asks for it, and no request has this verb", "cmd/manager.TestSettingsPolicy"},
		"patch baremetalinspections.infrastructure.cluster.x-k8s.io":            {"the owner of a report is restored after a backup tool removed it", "controllers/host.TestInspectionByAgent"},
	},
	"Role capbm-manager": {
		"create secrets":    erasures,
		"get secrets":       erasures,
		"create configmaps": erasures,
		"get configmaps":    erasures,
		"patch configmaps":  erasures,
	},
	"ClusterRole capbm-system-boot": {
		"create baremetalinspections.infrastructure.cluster.x-k8s.io": inspections,
		"get baremetalinspections.infrastructure.cluster.x-k8s.io":    inspections,
		"patch baremetalinspections.infrastructure.cluster.x-k8s.io":  inspections,
	},
	"ClusterRole capbm-system-boot-data": {
		"get *.bootstrap.cluster.x-k8s.io": {"the owner of the bootstrap config that controls a Secret decides who gets it; used counts the kinds by their names", "cmd/manager.TestBootRole"},
	},
	"Role capbm-boot": {
		"get leases.coordination.k8s.io":    {"a lease that another boot server made first, or that its server declines, is read as it is", "controllers/boot.TestLeases"},
		"update leases.coordination.k8s.io": {"an address that somebody else uses is withheld, and one whose host is gone is given to another", "controllers/boot.TestLeases"},
	},
}

// rulesUsed shows that no right is superfluous: each right of config/rbac was used in its scope.
func (s *suite) rulesUsed(t *testing.T) {
	ctx := t.Context()
	for user, name := range map[string]struct{ namespace, role, clusterRole string }{
		controllersUser: {providerNamespace, "capbm-manager", providerNamespace + "-manager"},
		bootUser:        {providerNamespace, "capbm-boot", providerNamespace + "-boot"},
		bootstrapUser:   {bootstrapNamespace, "capbm-bootstrap-manager", bootstrapNamespace + "-manager"},
	} {
		role, clusterRole := &rbacv1.Role{}, &rbacv1.ClusterRole{}
		s.get(t, name.namespace, name.role, role)
		NewWithT(t).Expect(s.plane.Client.Get(ctx, types.NamespacedName{Name: name.clusterRole}, clusterRole)).To(Succeed())
		own, wide := s.used(t, user, name.namespace)
		s.compare(t, "Role "+role.Name, granted(role.Rules), own)
		s.compare(t, "ClusterRole "+clusterRole.Name, granted(clusterRole.Rules), wide)
	}
	data := &rbacv1.ClusterRole{}
	NewWithT(t).Expect(s.plane.Client.Get(ctx, types.NamespacedName{Name: providerNamespace + "-boot-data"}, data)).To(Succeed())
	_, wide := s.used(t, bootUser, providerNamespace)
	s.compare(t, "ClusterRole "+data.Name, granted(data.Rules), wide)
}

func (s *suite) compare(t *testing.T, role string, given []right, used map[right]int) {
	t.Helper()
	NewWithT(t).Expect(given).NotTo(BeEmpty(), role)
	known := elsewhere[role]
	for _, r := range given {
		_, excused := known[r] // or used by chance, as when a server sends two requests for its address at once
		if used[r] == 0 && !excused {
			t.Errorf("%s: %q was not used: take it out of the marker that gives it, or say in elsewhere what uses it", role, r)
		} else {
			t.Logf("%-27s %-60s %s", role, r, count(used[r]))
		}
	}
	for r := range known {
		if !slices.Contains(given, r) {
			t.Errorf("%s: elsewhere has %q, which it does not give", role, r)
		}
	}
}

func count(n int) string {
	if n == 0 {
		return "not here"
	}
	return fmt.Sprintf("%d times", n)
}

// secretsUsed shows which Secrets are read: the metadata of all, and the content only of those that have a use.
func (s *suite) secretsUsed(t *testing.T) {
	g := NewWithT(t)
	lists := 0
	for _, r := range s.requests(t) {
		if r.Object == nil || r.Object.Resource != "secrets" {
			continue
		}
		what := fmt.Sprintf("%s: %s %s", r.User.Username, r.Verb, r.RequestURI)
		if r.User.Username == bootstrapUser {
			g.Expect(r.Object.Namespace).To(Equal(rendering), what) // of the configs that are there
			g.Expect(r.Verb).To(BeElementOf("get", "create", "patch"), what)
			continue
		}
		switch r.Verb {
		case "list":
			g.Expect(r.User.Username).To(Equal(controllersUser), "a boot server lists no Secrets")
			g.Expect(r.Answer.Kind).To(Equal("PartialObjectMetadataList"), what)
			lists++
		case "watch":
			g.Expect(r.User.Username).To(Equal(controllersUser), what)
		case "patch":
			g.Expect(r.User.Username).To(Equal(controllersUser), what)
			g.Expect(r.Object.Name).To(Or(HaveSuffix("-bmc"), Equal("data")), what) // data is the bootstrap Secret of machineWaits
		case "create":
			g.Expect(r.User.Username).To(Equal(bootUser), what)
			g.Expect(r.Object.Namespace).To(Equal(providerNamespace), what)
		case "get":
			g.Expect(r.Object.Name).To(Satisfy(func(name string) bool {
				if r.User.Username == bootUser {
					return name == "capbm-boot-key" || strings.HasPrefix(name, site.ClusterName+"-") // bootstrap data has the name of its Machine
				}
				return strings.HasSuffix(name, "-bmc") || strings.HasSuffix(name, "-kubeconfig")
			}), what)
		default:
			t.Errorf("nobody has a use for this: %s", what)
		}
	}
	g.Expect(lists).To(BeNumerically(">", 0))
	s.bootServerKept(t)
}

// bootServerKept: with the rights of a boot server no one can list the Secrets of other namespaces or of BMCs, write to a host, turn a boot into another
// one, fail a running machine, take the Lease of the controllers, or get a token of theirs.
func (s *suite) bootServerKept(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.lab.Dir, "capbm-boot.kubeconfig"))
	g.Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: plane.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	ctx := t.Context()
	g.Expect(c.Get(ctx, types.NamespacedName{Namespace: side, Name: "data"}, &corev1.Secret{})).To(MatchError(apierrors.IsForbidden, "no cluster's namespace"))
	g.Expect(c.List(ctx, &corev1.SecretList{}, client.InNamespace(site.Namespace))).To(MatchError(apierrors.IsForbidden, "a list of Secrets"))
	host := &v1alpha1.BareMetalHost{ObjectMeta: meta(site.Namespace, "server-1")}
	g.Expect(c.Patch(ctx, host, merge(`{"spec":{"consumerRef":null}}`))).To(MatchError(apierrors.IsForbidden, "a write to a host"))
	g.Expect(c.Status().Patch(ctx, host, merge(`{"status":{"phase":"Available"}}`))).To(MatchError(apierrors.IsForbidden, "a write to a host's status"))
	token := &corev1.Secret{ObjectMeta: meta(providerNamespace, "capbm-boot-key"), Type: corev1.SecretTypeServiceAccountToken}
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "capbm-manager"}
	g.Expect(c.Create(ctx, token, client.DryRunAll)).To(MatchError(ContainSubstring("must not write a Secret of a type other than Opaque")))
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: meta(site.Namespace, "server-1")}
	g.Expect(c.Delete(ctx, boot)).To(MatchError(apierrors.IsForbidden, "the deletion of a boot"))
	for _, patch := range []string{
		`{"spec":{"number":1000}}`, `{"spec":{"attempt":9}}`, `{"spec":{"purpose":"Clean"}}`, `{"spec":{"claimID":"mine"}}`, `{"spec":{"machineName":"mine"}}`,
		`{"spec":{"startTime":"2026-01-01T00:00:00Z"}}`, `{"spec":{"poweredOffTime":"2026-01-01T00:00:00Z"}}`, `{"spec":{"poweredOnTime":"2026-01-01T00:00:00Z"}}`,
		`{"spec":{"commitAllowedTime":"2026-01-01T00:00:00Z"}}`, `{"spec":{"voidedTime":"2026-01-01T00:00:00Z"}}`, `{"metadata":{"finalizers":null}}`,
		`{"metadata":{"ownerReferences":null}}`,
	} {
		err := c.Patch(ctx, boot, client.RawPatch(types.MergePatchType, []byte(patch)))
		g.Expect(err).To(MatchError(Or(ContainSubstring("the boot server must not change"), ContainSubstring("only a new boot, with a higher number, may have other"))), patch)
	}
	var boots v1alpha1.BareMetalBootList
	g.Expect(s.plane.Client.List(ctx, &boots, client.InNamespace(site.Namespace))).To(Succeed())
	reported := slices.DeleteFunc(boots.Items, func(b v1alpha1.BareMetalBoot) bool { return b.Spec.ReportAddress == "" })
	g.Expect(reported).NotTo(BeEmpty())
	for _, patch := range []string{
		`{"spec":{"failure":{"reason":"Any","message":"any"}}}`, `{"spec":{"reportedTime":null}}`, `{"spec":{"reportAddress":null}}`,
		`{"metadata":{"labels":{"mine":""}}}`, `{"metadata":{"annotations":{"mine":""}}}`,
	} {
		g.Expect(c.Patch(ctx, &reported[0], merge("%s", patch), client.DryRunAll)).To(MatchError(ContainSubstring("the boot server must not change")), patch)
	}
	s.get(t, site.Namespace, "server-1", host)
	report := &v1alpha1.BareMetalInspection{ObjectMeta: meta(site.Namespace, "server-1"), Spec: v1alpha1.BareMetalInspectionSpec{BootNumber: 7}}
	foreign := []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Name: "server-2", UID: "u"}}
	for _, owners := range [][]metav1.OwnerReference{nil, foreign} {
		report.OwnerReferences = owners
		g.Expect(c.Create(ctx, report, client.DryRunAll)).To(MatchError(ContainSubstring("the boot server must not write a report that is owned by anything but")))
	}
	report.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Name: "server-1", UID: host.UID}}
	report.Labels = map[string]string{"mine": ""}
	g.Expect(c.Create(ctx, report, client.DryRunAll)).To(MatchError(ContainSubstring("the boot server must not write labels")))
	report.Labels = nil
	g.Expect(c.Create(ctx, report)).To(Succeed())
	for patch, message := range map[string]string{
		`{"metadata":{"ownerReferences":null}}`: "owned by anything but", `{"metadata":{"annotations":{"mine":""}}}`: "must not write labels, annotations",
		`{"spec":{"bootNumber":6}}`: "that of an earlier boot",
	} {
		g.Expect(c.Patch(ctx, report, merge("%s", patch), client.DryRunAll)).To(MatchError(ContainSubstring(message)), patch)
	}
	g.Expect(c.Delete(ctx, report)).To(MatchError(apierrors.IsForbidden, "the deletion of a report"))
	g.Expect(s.plane.Client.Delete(ctx, report)).To(Succeed())
	leader := &coordinationv1.Lease{}
	s.get(t, providerNamespace, "capbm-controllers", leader)
	leader.Spec.HolderIdentity = new("mine")
	g.Expect(c.Update(ctx, leader, client.DryRunAll)).To(MatchError(ContainSubstring("the boot server must not write a Lease")))
}
