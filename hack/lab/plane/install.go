package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// The versions that the lab installs.
const (
	capiVersion     = "v1.14.2"
	providerVersion = "v0.1.0"
)

// NextVersion is a later version of this provider in the repository, for a suite that upgrades.
const NextVersion = "v0.1.1"

var clusterctlEnv = []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "CAPBM_BOOT_ADDRESS=192.0.2.1", "CAPBM_DHCP_MODE=proxy"}

// Repository is a folder that clusterctl installs providers from.
type Repository struct {
	// Config is clusterctl's configuration file with the path of the folder. It names the components of a single Pod: the lab runs this provider as one
	// process.
	Config string
	// SplitConfig is the same for the default components, where the controllers and the boot server have separate accounts.
	SplitConfig string
}

// labTemplates are the flavours that only the lab has, by the folder that each is built from.
var labTemplates = map[string]string{
	"lab": "hack/lab/template", "lab-config": "hack/lab/configtemplate", "lab-image": "hack/lab/imagetemplate", "lab-demo": "hack/lab/demotemplate",
	"lab-node": "hack/lab/nodetemplate", "lab-control-plane": "hack/lab/controlplanetemplate",
}

// NewRepository makes a repository in dir: of the components that kustomize builds from Cluster API's module, and of this project's release in the version
// that the lab installs and in the next one.
func NewRepository(ctx context.Context, root, bin, dir string) (*Repository, error) {
	module, err := proc.Run(ctx, nil, "go", "-C", root, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	capi := filepath.Clean(module[:len(module)-1])
	var config strings.Builder
	config.WriteString("providers:\n")
	for _, p := range []struct{ name, kind, label, source, components string }{
		{"cluster-api", "CoreProvider", "cluster-api", "core", "core-components.yaml"},
		{"kubeadm", "BootstrapProvider", "bootstrap-kubeadm", "bootstrap/kubeadm", "bootstrap-components.yaml"},
		{"kubeadm", "ControlPlaneProvider", "control-plane-kubeadm", "controlplane/kubeadm", "control-plane-components.yaml"},
	} {
		folder := filepath.Join(dir, p.label, capiVersion)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
		path := filepath.Join(folder, p.components)
		if err := build(ctx, bin, filepath.Join(capi, p.source, "config", "default"), path); err != nil {
			return nil, err
		}
		if err := copyFile(filepath.Join(capi, "metadata.yaml"), filepath.Join(folder, "metadata.yaml")); err != nil {
			return nil, err
		}
		fmt.Fprintf(&config, "- {name: %s, type: %s, url: %q}\n", p.name, p.kind, path)
	}
	for _, version := range []string{providerVersion, NextVersion} {
		if err := release(ctx, root, bin, dir, version); err != nil {
			return nil, err
		}
	}
	r := &Repository{Config: filepath.Join(dir, "clusterctl.yaml"), SplitConfig: filepath.Join(dir, "clusterctl-split.yaml")}
	for path, components := range map[string]string{r.Config: "single-pod-components.yaml", r.SplitConfig: "infrastructure-components.yaml"} {
		content := fmt.Appendf(nil, "%s- {name: %s, type: InfrastructureProvider, url: %q}\n- {name: %[2]s, type: BootstrapProvider, url: %[4]q}\n", &config, provider.Name,
			filepath.Join(dir, provider.Infrastructure, providerVersion, components),
			filepath.Join(dir, provider.Bootstrap, providerVersion, "bootstrap-components.yaml"))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// release writes what `make release` writes to a folder, and the flavours of the lab.
func release(ctx context.Context, root, bin, dir, version string) error {
	if _, err := proc.Run(ctx, nil, filepath.Join(root, "hack", "release.sh"), dir, version, "capbm.example/manager:"+version); err != nil {
		return err
	}
	for flavor, source := range labTemplates {
		if err := build(ctx, bin, filepath.Join(root, source), filepath.Join(dir, provider.Infrastructure, version, "cluster-template-"+flavor+".yaml")); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // of a module
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600) //nolint:gosec // in the lab's own folder
}

func build(ctx context.Context, bin, source, target string) error {
	_, err := proc.Run(ctx, nil, filepath.Join(bin, "kubectl"), "kustomize", "--load-restrictor", "LoadRestrictionsNone", source, "-o", target)
	return err
}

// certManager has CRDs in place of cert-manager's: nothing here makes certificates, and clusterctl only checks that the CRDs exist.
const certManager = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: %[2]s, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// install installs the providers with clusterctl, and deletes their Deployments: the lab runs the managers itself.
func (p *Plane) install(ctx context.Context) error {
	stubs := fmt.Sprintf(certManager, "issuer", "Issuer") + "---" + fmt.Sprintf(certManager, "certificate", "Certificate")
	if err := p.Apply(ctx, stubs); err != nil {
		return err
	}
	if _, err := p.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd/issuers.cert-manager.io", "crd/certificates.cert-manager.io"); err != nil {
		return err
	}
	// clusterctl installs its default bootstrap provider, kubeadm, only if none is named.
	if _, err := p.Clusterctl(ctx, "init", "--core", "cluster-api:"+capiVersion, "--bootstrap", "kubeadm:"+capiVersion, "--bootstrap", provider.Name+":"+providerVersion,
		"--control-plane", "kubeadm:"+capiVersion, "--infrastructure", provider.Name+":"+providerVersion); err != nil {
		return err
	}
	for _, m := range append(slices.Clone(managers), infrastructureProvider, bootstrapProvider) {
		if err := p.Client.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(m.namespace)); err != nil {
			return err
		}
	}
	return nil
}

// dropWebhooks deletes the webhooks of a namespace, which no process serves.
func (p *Plane) dropWebhooks(ctx context.Context, namespace string) error {
	var validating admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := errors.Join(p.Client.List(ctx, &validating), p.Client.List(ctx, &mutating)); err != nil {
		return err
	}
	in := func(c admissionv1.WebhookClientConfig) bool {
		return c.Service != nil && c.Service.Namespace == namespace
	}
	var unserved []client.Object
	for i := range validating.Items {
		if slices.ContainsFunc(validating.Items[i].Webhooks, func(w admissionv1.ValidatingWebhook) bool { return in(w.ClientConfig) }) {
			unserved = append(unserved, &validating.Items[i])
		}
	}
	for i := range mutating.Items {
		if slices.ContainsFunc(mutating.Items[i].Webhooks, func(w admissionv1.MutatingWebhook) bool { return in(w.ClientConfig) }) {
			unserved = append(unserved, &mutating.Items[i])
		}
	}
	for _, configuration := range unserved {
		if err := p.Client.Delete(ctx, configuration); err != nil {
			return err
		}
	}
	return nil
}

// serving is the port and the certificate of a manager's webhooks.
type serving struct {
	port        uint16
	dir         string
	certificate []byte
}

// serveWebhooks makes a certificate for a manager's webhooks, and makes the API server call them at a port of this machine. A manager that is started again
// keeps both. After clusterctl has installed another version the webhook configurations are written again.
func (p *Plane) serveWebhooks(ctx context.Context, m manager) (serving, error) {
	s, again := p.serving[m.program]
	if !again {
		var err error
		if s, err = p.newServing(m); err != nil {
			return s, err
		}
		p.serving[m.program] = s
	}
	base := fmt.Sprintf("https://127.0.0.1:%d", s.port)
	if err := p.redirectConversion(ctx, m.namespace, base, s.certificate); err != nil {
		return s, err
	}
	return s, p.redirectAdmission(ctx, m.namespace, base, s.certificate)
}

func (p *Plane) newServing(m manager) (serving, error) {
	port, err := pxetest.FreePort(loopback)
	if err != nil {
		return serving{}, err
	}
	crt, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{loopback.AsSlice()}, nil)
	if err != nil {
		return serving{}, err
	}
	dir := filepath.Join(p.opts.Dir, m.program+"-certs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return serving{}, err
	}
	for name, content := range map[string][]byte{"tls.crt": crt, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return serving{}, err
		}
	}
	return serving{port, dir, crt}, nil
}

func (p *Plane) redirectAdmission(ctx context.Context, namespace, base string, ca []byte) error {
	redirect := func(c *admissionv1.WebhookClientConfig) {
		if c.Service != nil && c.Service.Namespace == namespace {
			c.URL, c.CABundle, c.Service = new(base+ptr.Deref(c.Service.Path, "")), ca, nil
		}
	}
	var validating admissionv1.ValidatingWebhookConfigurationList
	if err := p.Client.List(ctx, &validating); err != nil {
		return err
	}
	for i := range validating.Items {
		for j := range validating.Items[i].Webhooks {
			redirect(&validating.Items[i].Webhooks[j].ClientConfig)
		}
		if err := p.Client.Update(ctx, &validating.Items[i]); err != nil {
			return err
		}
	}
	var mutating admissionv1.MutatingWebhookConfigurationList
	if err := p.Client.List(ctx, &mutating); err != nil {
		return err
	}
	for i := range mutating.Items {
		for j := range mutating.Items[i].Webhooks {
			redirect(&mutating.Items[i].Webhooks[j].ClientConfig)
		}
		if err := p.Client.Update(ctx, &mutating.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plane) redirectConversion(ctx context.Context, namespace, base string, ca []byte) error {
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := p.Client.List(ctx, &crds); err != nil {
		return err
	}
	for i := range crds.Items {
		conversion := crds.Items[i].Spec.Conversion
		if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
			continue
		}
		c := conversion.Webhook.ClientConfig
		if c.Service == nil || c.Service.Namespace != namespace {
			continue
		}
		c.URL, c.CABundle, c.Service = new(base+ptr.Deref(c.Service.Path, "")), ca, nil
		if err := p.Client.Update(ctx, &crds.Items[i]); err != nil {
			return err
		}
	}
	return nil
}
