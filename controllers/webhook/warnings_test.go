package webhook

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// warned collects the warnings of an API server.
type warned struct {
	mu  sync.Mutex
	all []string
}

func (w *warned) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// take returns the warnings since the last call.
func (w *warned) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.all
	w.all = nil
	return all
}

// TestWarnings: a change of the fields that select a host has no effect after the claim, and a change of what the host boots has no effect after the boot.
// The user gets a warning, and the change is not refused. Changes that have an effect, and writes of the provider, get no warning.
func TestWarnings(t *testing.T) {
	g := NewWithT(t)
	env.StartWebhooks(t, controllerstest.InfrastructureWebhooks(), SetupWithManager)
	w := &warned{}
	config := rest.CopyConfig(env.Config)
	config.WarningHandlerWithContext = w
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	m := newMachine(env.Namespace(t), "m")
	g.Expect(c.Create(t.Context(), m)).To(Succeed())
	tolerations := 0
	change := func(name string, change func(*v1alpha1.BareMetalMachine), fields ...string) {
		t.Helper()
		change(m)
		g.Expect(c.Update(t.Context(), m)).To(Succeed(), name)
		var want []any
		for _, f := range fields {
			want = append(want, HavePrefix("spec."+f+": the change has no effect, because the machine already has its host."))
		}
		g.Expect(w.take()).To(ConsistOf(want...), name)
	}
	choose := func(m *v1alpha1.BareMetalMachine) {
		tolerations++
		m.Spec.Tolerations = make([]v1alpha1.HostToleration, tolerations)
		for i := range m.Spec.Tolerations {
			m.Spec.Tolerations[i].Key = "a"
		}
		m.Spec.ReuseHost = !m.Spec.ReuseHost
		m.Spec.Hardware.CPU++
		m.Spec.CleaningPolicy = []wire.ErasePolicy{wire.PolicyClear, wire.PolicyPurge}[tolerations%2]
		m.Spec.Profile += "a"
		m.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"cpu": v1alpha1.LabelValue("a" + m.Spec.Boot.CommandLine)}}
		m.Spec.Preferences = append(m.Spec.Preferences, v1alpha1.HostPreference{Weight: 1, HostSelector: *m.Spec.HostSelector})
	}
	boot := func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.CommandLine += "a"
		m.Spec.Boot.Kernel.URL += "a"
		m.Spec.Boot.Initrds = append(m.Spec.Boot.Initrds, m.Spec.Boot.Kernel)
		m.Spec.Boot.IPXETemplate = "#!ipxe\necho " + m.Spec.Boot.CommandLine + "\n"
		m.Spec.Boot.ReportBootstrap = !m.Spec.Boot.ReportBootstrap
	}
	choosing := []string{"hostSelector", "hardware", "preferences", "tolerations", "reuseHost", "cleaningPolicy", "profile"}
	booting := []string{"boot.kernel", "boot.initrds", "boot.commandLine", "boot.ipxeTemplate", "boot.reportBootstrap"}

	change("before the claim", func(m *v1alpha1.BareMetalMachine) { choose(m); boot(m) })
	m.Status.HostRef = &v1alpha1.HostReference{Name: "h"}
	g.Expect(c.Status().Update(t.Context(), m)).To(Succeed())
	change("what chooses a host, after the claim", choose, choosing...)
	change("what boots, before it booted", boot)
	change("the provider ID", func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" })
	change("everything, after the boot", func(m *v1alpha1.BareMetalMachine) { boot(m); choose(m) }, append(choosing, booting...)...)
	change("the persistence", func(m *v1alpha1.BareMetalMachine) { m.Spec.Boot.Persistence = v1alpha1.PersistenceEphemeral })
}

// TestDocs: docs/reference/manager.md lists exactly the fields of fieldsReadOnce.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "reference", "manager.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var documented, fields []string
	for _, row := range regexp.MustCompile(`(?m)^\| (?:has a host|booted) \|(.*)\|$`).FindAllStringSubmatch(string(content), -1) {
		for _, field := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, field[1])
		}
	}
	for _, f := range fieldsReadOnce {
		fields = append(fields, f.name)
	}
	g.Expect(documented).To(Equal(fields))
}
