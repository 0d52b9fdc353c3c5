package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// plane is kube-apiserver and etcd with the CRDs, and the manager.
type plane struct {
	env     *envtest.Environment
	client  client.Client
	manager *proc.Process
	// dir is a folder for what is needed while it runs, and certs the one in it with the serving certificate of the webhooks.
	dir, certs string
	// kubeconfig is the administrator's.
	kubeconfig []byte
}

func start(ctx context.Context, p provider) (*plane, error) {
	out := &plane{env: &envtest.Environment{BinaryAssetsDirectory: ".cache/bin", ControlPlaneStartTimeout: 2 * time.Minute}}
	var err error
	if out.dir, err = os.MkdirTemp("", "bootstrapproviders"); err != nil {
		return out, err
	}
	webhooks, err := path(ctx, p.webhooks)
	if err != nil {
		return out, err
	}
	out.certs = filepath.Join(out.dir, "k8s-webhook-server", "serving-certs") // where controller-runtime looks below TMPDIR
	out.env.WebhookInstallOptions = envtest.WebhookInstallOptions{
		Paths: []string{webhooks}, LocalServingHost: "127.0.0.1", LocalServingPort: 9443,
	}
	config, err := out.env.Start()
	if err != nil {
		return out, err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(out.certs), 0o700), os.Symlink(out.env.WebhookInstallOptions.LocalServingCertDir, out.certs)); err != nil {
		return out, err
	}
	scheme := runtime.NewScheme()
	utilruntime.Must(errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)))
	if out.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return out, err
	}
	admin, err := out.env.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return out, err
	}
	if out.kubeconfig, err = admin.KubeConfig(); err != nil {
		return out, err
	}
	if err := out.installCRDs(ctx, p); err != nil {
		return out, err
	}
	return out, out.startManager(ctx, p)
}

func (p *plane) stop() error {
	if p.manager != nil {
		p.manager.Stop()
	}
	return errors.Join(p.env.Stop(), os.RemoveAll(p.dir))
}

// startManager starts the provider's manager with the administrator's rights.
func (p *plane) startManager(ctx context.Context, of provider) error {
	kubeconfig := filepath.Join(p.dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, p.kubeconfig, 0o600); err != nil {
		return err
	}
	var args []string
	for _, arg := range of.args {
		args = append(args, strings.ReplaceAll(arg, "CERTS", p.certs))
	}
	env := []string{"KUBECONFIG=" + kubeconfig}
	for _, e := range of.env {
		env = append(env, strings.ReplaceAll(e, "TMPDIR=CERTS", "TMPDIR="+p.dir))
	}
	var err error
	p.manager, err = proc.Start(ctx, p.dir, "manager", env, of.manager, args...)
	return err
}

// servingCertificate returns the certificate of the API server, and its key.
func (p *plane) servingCertificate() (certificate, key []byte, err error) {
	folder := p.env.ControlPlane.GetAPIServer().CertDir
	if certificate, err = os.ReadFile(filepath.Join(folder, "apiserver.crt")); err != nil { //nolint:gosec // envtest's own folder
		return nil, nil, err
	}
	key, err = os.ReadFile(filepath.Join(folder, "apiserver.key")) //nolint:gosec // envtest's own folder
	return certificate, key, err
}

// installCRDs installs Cluster API's CRDs and the provider's without their conversion webhooks: of Cluster API's only the version that the provider reads, and
// of the provider's only the version in which it stores objects.
func (p *plane) installCRDs(ctx context.Context, of provider) error {
	core, err := path(ctx, "capi:sigs.k8s.io/cluster-api/core/config/crd/bases")
	if err != nil {
		return err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	read := func(folder, version string) error {
		files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no CRDs in %s: %w", folder, err)
		}
		for _, file := range files {
			crd, ok, err := readCRD(file, version)
			if err != nil {
				return err
			}
			if ok {
				all = append(all, crd)
			}
		}
		return nil
	}
	if err := read(core, of.core); err != nil {
		return err
	}
	for _, name := range of.crds {
		folder, err := path(ctx, name)
		if err != nil {
			return err
		}
		if err := read(folder, ""); err != nil {
			return err
		}
	}
	_, err = envtest.InstallCRDs(p.env.Config, envtest.CRDInstallOptions{CRDs: all, MaxTime: time.Minute})
	return err
}

// readCRD reads a CRD that stores objects in a version, and serves its others unconverted; with an empty version it has only the version in which it stores
// objects. It returns false for a CRD without the version, and for other objects.
func readCRD(file, version string) (*apiextensionsv1.CustomResourceDefinition, bool, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a file of a module
	if err != nil {
		return nil, false, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return nil, false, fmt.Errorf("%s: %w", file, err)
	}
	if crd.Kind != "CustomResourceDefinition" {
		return nil, false, nil
	}
	crd.Spec.Conversion = nil
	var versions []apiextensionsv1.CustomResourceDefinitionVersion
	var stored string
	for _, v := range crd.Spec.Versions {
		if version != "" {
			v.Storage = v.Name == version
		}
		if v.Storage {
			stored = v.Name
		}
		if v.Storage || version != "" && v.Served {
			versions = append(versions, v)
		}
	}
	if stored == "" {
		return nil, false, nil
	}
	crd.Spec.Versions = versions
	// The versions of a provider's kinds, for those who look them up by Cluster API's contract.
	crd.Labels = map[string]string{"cluster.x-k8s.io/v1beta1": stored, "cluster.x-k8s.io/v1beta2": stored}
	return &crd, true, nil
}

// path returns a path. MODULE:PACKAGE/PATH is one in a module that the go.mod in hack/MODULE pins.
func path(ctx context.Context, name string) (string, error) {
	module, inModule, ok := strings.Cut(name, ":")
	if !ok {
		return name, nil
	}
	segments := strings.SplitN(inModule, "/", 4)
	of := strings.Join(segments[:3], "/")
	if strings.HasPrefix(inModule, "sigs.k8s.io/") {
		of = strings.Join(segments[:2], "/")
	}
	command := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", of) //nolint:gosec // names of this file
	command.Dir = filepath.Join("hack", module)
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s in %s: %w", of, command.Dir, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), strings.TrimPrefix(inModule, of)), nil
}
