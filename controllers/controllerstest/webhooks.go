package controllerstest

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

// Webhooks are the webhooks of a provider.
type Webhooks struct {
	// Folder is the kustomization of the configuration, below the project's folder.
	Folder string
	// Probe is an object that a webhook is called for.
	Probe client.Object
}

// InfrastructureWebhooks are the webhooks of the infrastructure provider.
func InfrastructureWebhooks() Webhooks {
	return Webhooks{"config/webhook", newClaim(metav1.NamespaceDefault, "webhook-probe").BareMetalMachine}
}

// BootstrapWebhooks are the webhooks of the bootstrap provider.
func BootstrapWebhooks() Webhooks {
	return Webhooks{"config/bootstrap/webhook", &bootstrapv1.BareMetalConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "webhook-probe"},
		Spec:       bootstrapv1.BareMetalConfigSpec{Commands: []string{"true"}},
	}}
}

// InstallWebhooks installs the configuration of webhooks until the test ends. It returns the address that the API server calls, and the folder with
// the certificate that it trusts. Nothing listens there yet.
func (e *Env) InstallWebhooks(t *testing.T, webhooks Webhooks) *envtest.WebhookInstallOptions {
	t.Helper()
	g := NewWithT(t)
	manifests := filepath.Join(t.TempDir(), "webhooks.yaml")
	kustomize := exec.CommandContext(t.Context(), filepath.Join(Root(), ".cache", "bin", "kubectl"), //nolint:gosec // one of the lab's programs
		"kustomize", filepath.Join(Root(), webhooks.Folder), "-o", manifests)
	out, err := kustomize.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s (make test builds it)", out)
	options := &envtest.WebhookInstallOptions{Paths: []string{manifests}, LocalServingHost: "127.0.0.1", MaxTime: longWait}
	g.Expect(options.Install(e.Config)).To(Succeed())
	g.Expect(options.ValidatingWebhooks).NotTo(BeEmpty())
	// The API server applies and removes a configuration with a short delay.
	probe := func() error {
		o := webhooks.Probe.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is a copy
		return e.Client.Create(context.Background(), o, client.DryRunAll)
	}
	t.Cleanup(func() {
		g := NewWithT(t)
		for _, c := range options.ValidatingWebhooks {
			g.Expect(e.Client.Delete(context.Background(), c)).To(Succeed())
		}
		g.Expect(options.Cleanup()).To(Succeed())
		g.Eventually(probe, longWait, 20*time.Millisecond).Should(Succeed())
	})
	g.Eventually(probe, longWait, 20*time.Millisecond).Should(MatchError(ContainSubstring("failed calling webhook")))
	return options
}

// StartWebhooks installs the webhooks and serves those that setup adds, until the end of the test.
func (e *Env) StartWebhooks(t *testing.T, webhooks Webhooks, setup func(ctrl.Manager) error) {
	t.Helper()
	g := NewWithT(t)
	installed := e.InstallWebhooks(t, webhooks)
	serving := webhook.NewServer(webhook.Options{
		Host: installed.LocalServingHost, Port: installed.LocalServingPort, CertDir: installed.LocalServingCertDir,
	})
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme: e.Scheme, Logger: e.Log, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{UsePriorityQueue: new(false)}, WebhookServer: serving,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(setup(mgr)).To(Succeed())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error { return serving.StartedChecker()(nil) }, longWait, 20*time.Millisecond).Should(Succeed())
}
