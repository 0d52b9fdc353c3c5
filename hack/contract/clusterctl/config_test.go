package clusterctl

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// bootstrapData is what a server may have booted with: it must never change.
type bootstrapData struct {
	value     string
	keys      []string
	kind      corev1.SecretType
	immutable bool
	labels    map[string]string
}

// rotateToken writes a new join token into the Secret with the values of the BareMetalConfigs, when the control plane is up.
func (s *story) rotateToken(t *testing.T) {
	t.Helper()
	token, err := s.lab.WriteJoinSecret(s.ctx, s.source)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.tokens = append(s.tokens, token)
}

// rendered returns the bootstrap data of the BareMetalConfigs, by name. Each config belongs to its Machine, and its Secret to the config, by their UIDs of
// this management plane.
func (s *story) rendered(t *testing.T, p *plane.Plane) map[string]bootstrapData {
	t.Helper()
	g := NewWithT(t)
	configs, err := site.Configs(s.ctx, p)
	g.Expect(err).NotTo(HaveOccurred())
	all := map[string]bootstrapData{}
	for _, config := range configs {
		var machine clusterv1.Machine
		var secret corev1.Secret
		key := client.ObjectKeyFromObject(&config)
		g.Expect(p.Client.Get(s.ctx, key, &machine)).To(Succeed())
		g.Expect(metav1.IsControlledBy(&config, &machine)).To(BeTrue(), "%v", config.OwnerReferences)
		g.Expect(p.Client.Get(s.ctx, key, &secret)).To(Succeed())
		g.Expect(secret.OwnerReferences).To(HaveExactElements(HaveField("Kind", "BareMetalConfig")))
		g.Expect(metav1.IsControlledBy(&secret, &config)).To(BeTrue(), "%v", secret.OwnerReferences)
		all[config.Name] = bootstrapData{
			string(secret.Data["value"]), slices.Sorted(maps.Keys(secret.Data)), secret.Type, secret.Immutable != nil && *secret.Immutable, secret.Labels,
		}
	}
	g.Expect(all).NotTo(BeEmpty())
	return all
}

// moved checks what came with the configs of a cluster, and that nothing of it was left behind or rendered again.
func (s *story) moved(t *testing.T, from, to *plane.Plane, before map[string]bootstrapData) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.rendered(t, to)).To(Equal(before), "the move changed bootstrap data")
	for name := range before {
		g.Expect(s.recorded(t, to, name)).NotTo(ContainElement(bootstrapv1.EventDataSecretRestored), "clusterctl sets the owner itself")
	}
	var template bootstrapv1.BareMetalConfigTemplate
	g.Expect(to.Client.Get(s.ctx, inNamespace(site.ConfigWorkers), &template)).To(Succeed())
	var secret corev1.Secret
	g.Expect(to.Client.Get(s.ctx, inNamespace(site.JoinSecret), &secret)).To(Succeed())
	g.Expect(secret.Labels).To(And(HaveKey(bootstrapv1.ValueSecretLabel), HaveKey(v1alpha1.MoveLabel)))
	g.Expect(string(secret.Data["token"])).To(Equal(s.tokens[len(s.tokens)-1]))
	var labels corev1.ConfigMap
	g.Expect(to.Client.Get(s.ctx, inNamespace(site.NodeLabels), &labels)).To(Succeed())
	g.Expect(labels.Labels).To(HaveKey(v1alpha1.MoveLabel))
	s.until(t, time.Minute, func(ctx context.Context) error {
		out, err := from.Kubectl(ctx, "-n", site.Namespace, "get", "-o", "name", "baremetalconfigs,baremetalconfigtemplates,secrets,configmaps")
		if left := ofConfigs.FindAllString(out, -1); err == nil && len(left) > 0 {
			err = fmt.Errorf("left behind: %s", left)
		}
		return err
	})
}

// ofConfigs matches the names of the objects of BareMetalConfigs.
var ofConfigs = regexp.MustCompile(".*/(" + site.ConfigWorkers + "|" + site.JoinSecret + "|" + site.NodeLabels + ").*")

func inNamespace(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: site.Namespace, Name: name}
}

// recorded returns the reasons of the events of a BareMetalConfig.
func (s *story) recorded(t *testing.T, p *plane.Plane, config string) []string {
	t.Helper()
	var events eventsv1.EventList
	NewWithT(t).Expect(p.Client.List(s.ctx, &events, client.InNamespace(site.Namespace))).To(Succeed())
	var reasons []string
	for _, e := range events.Items {
		if e.Regarding.Kind == "BareMetalConfig" && e.Regarding.Name == config {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// renderedAnew checks the scale-up on the other side: one config was rendered, with the values that were moved. The others stay as they were.
func (s *story) renderedAnew(t *testing.T, before map[string]bootstrapData) {
	t.Helper()
	g := NewWithT(t)
	after := s.rendered(t, s.target)
	for name, data := range after {
		old, existed := before[name]
		if existed {
			g.Expect(data).To(Equal(old), "bootstrap data was rendered again")
			g.Expect(data.value).To(ContainSubstring(s.tokens[0]))
			g.Expect(s.recorded(t, s.target, name)).NotTo(ContainElement(bootstrapv1.ReasonDataSecretCreated))
			continue
		}
		g.Expect(data.value).To(ContainSubstring(s.tokens[len(s.tokens)-1]))
		g.Expect(data.value).NotTo(ContainSubstring(s.tokens[0]))
		g.Expect(s.recorded(t, s.target, name)).To(ContainElement(bootstrapv1.ReasonDataSecretCreated))
	}
	g.Expect(after).To(HaveLen(len(before) + 1))
	workload, err := site.Workload(s.ctx, s.target)
	g.Expect(err).NotTo(HaveOccurred())
	var nodes corev1.NodeList
	g.Expect(workload.List(s.ctx, &nodes, client.MatchingLabels{"example.com/rack": "lab"})).To(Succeed())
	g.Expect(nodes.Items).To(HaveLen(len(after)), "the kubelets did not get the labels in the ConfigMap")
}
