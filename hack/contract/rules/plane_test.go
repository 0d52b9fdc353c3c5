package rules

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// providerNamespace is where this provider is installed.
const providerNamespace = "capbm-system"

// The service accounts of this provider.
const (
	controllersUser = "system:serviceaccount:" + providerNamespace + ":capbm-manager"
	bootUser        = "system:serviceaccount:" + providerNamespace + ":capbm-boot"
)

// auditPolicy makes the API server write down what this provider asks of it. Of lists of Secrets it writes the answers too: these must
// hold no more than metadata.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived] # a watch is written when its answer starts
rules:
- level: RequestResponse
  users: [%[1]q, %[2]q, %[3]q]
  verbs: [list]
  resources: [{group: "", resources: [secrets]}]
- level: Metadata
  users: [%[1]q, %[2]q, %[3]q]
- level: None
`

// watchList is the variable that decides whether caches of client-go fill by a watch, the current default, or by a list and then a watch,
// which they go back to with an API server that cannot do the other. The roles must suffice for both.
const watchList = "KUBE_FEATURE_WatchListClient"

// start starts the plane with this provider in two processes, as config/default installs it: the controllers, which have no rights of a
// boot server, and a boot server, which has no others.
func (s *suite) start(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	s.audit = filepath.Join(s.lab.Dir, "audit.log")
	policy := filepath.Join(s.lab.Dir, "audit-policy.yaml")
	g.Expect(os.WriteFile(policy, fmt.Appendf(nil, auditPolicy, controllersUser, bootUser, bootstrapUser), 0o600)).To(Succeed())
	s.metrics = freeAddress(t)
	s.manager = filepath.Join(s.lab.Dir, "manager")
	var err error
	s.plane, err = plane.Start(ctx, plane.Options{
		Dir: filepath.Join(s.lab.Dir, "plane"), Bin: s.lab.Bin, Manager: s.manager,
		Repository: &plane.Repository{Config: s.lab.Repository.SplitConfig}, Log: t.Logf,
		APIServerArgs: []string{"audit-policy-file=" + policy, "audit-log-path=" + s.audit},
		ManagerArgs: append(s.lab.Rack.ManagerArgs(), "--components=controllers", "--leader-elect=true",
			"--diagnostics-address="+s.metrics, "--insecure-diagnostics=false"),
	})
	t.Cleanup(func() { NewWithT(t).Expect(s.plane.Stop()).To(Succeed()) })
	g.Expect(err).NotTo(HaveOccurred())

	s.startControllers = func(args ...string) error { return s.plane.StartProvider(ctx, s.manager, args...) }
	s.render = freeAddress(t)
	s.startBootstrap = func(args ...string) error {
		return s.plane.StartBootstrap(ctx, s.manager, append([]string{"--leader-elect=true", "--diagnostics-address=" + s.render, "--insecure-diagnostics=false"}, args...)...)
	}
	s.plane.StopBootstrap()
	g.Expect(s.startBootstrap()).To(Succeed())
	s.startBoot(ctx, t)
}

// startBoot starts a boot server with the role of one and no other.
func (s *suite) startBoot(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	// Bootstrap data is read by another role, in the namespaces of clusters only: as config/rbac/boot_data_role.yaml says.
	_, err := s.plane.Kubectl(ctx, "create", "rolebinding", "capbm-boot-data", "-n", site.Namespace,
		"--clusterrole="+providerNamespace+"-boot-data", "--serviceaccount="+providerNamespace+":capbm-boot")
	g.Expect(err).NotTo(HaveOccurred())
	health := freeAddress(t)
	s.boot = freeAddress(t)
	args := append(s.lab.Rack.ManagerArgs(), "--components=boot", "--kubeconfig="+s.kubeconfigOf(ctx, t, providerNamespace, "capbm-boot"),
		"--health-addr="+health, "--diagnostics-address="+s.boot)
	process, err := proc.Start(ctx, s.lab.Dir, "boot", []string{"POD_NAMESPACE=" + providerNamespace, watchList + "=false"}, s.manager, args...)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(process.Stop)
	g.Expect(process.Wait(ctx, time.Minute, proc.Healthy("http://"+health+"/readyz"))).To(Succeed())
}

// tokenOf makes a token of a service account.
func (s *suite) tokenOf(ctx context.Context, t *testing.T, namespace, account string) string {
	t.Helper()
	token, err := s.plane.Kubectl(ctx, "-n", namespace, "create", "token", account)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return strings.TrimSpace(token)
}

// kubeconfigOf makes a kubeconfig of a service account.
func (s *suite) kubeconfigOf(ctx context.Context, t *testing.T, namespace, account string) string {
	t.Helper()
	g := NewWithT(t)
	config, err := clientcmd.LoadFromFile(s.plane.Kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.tokenOf(ctx, t, namespace, account)}
	}
	path := filepath.Join(s.lab.Dir, account+".kubeconfig")
	g.Expect(clientcmd.WriteToFile(*config, path)).To(Succeed())
	return path
}

func freeAddress(t *testing.T) string {
	t.Helper()
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	port, err := pxetest.FreePort(loopback)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return netip.AddrPortFrom(loopback, port).String()
}

// scrape asks for metrics as a service account, and returns the status of the answer.
func scrape(ctx context.Context, address, token string) (int, error) {
	web := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // self-signed
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := web.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// decode reads the documents of a YAML file.
func decode(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return out
		}
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}

// repository returns the folder of the clusterctl repository that this provider was installed from.
func (s *suite) repository() string {
	return filepath.Join(filepath.Dir(s.lab.Repository.Config), provider.Infrastructure, "v0.1.0")
}

func (s *suite) readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// merge is a JSON merge patch.
func merge(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

// commands counts the commands that the BMCs of the cluster's servers were given.
func (s *suite) commands() map[string]int {
	out := map[string]int{}
	for _, server := range s.lab.Rack.Servers() {
		out[server.Name] = len(server.Commands())
	}
	return out
}

// secret returns a Secret of the cluster's namespace.
func (s *suite) secret(t *testing.T, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	s.get(t, site.Namespace, name, secret)
	return secret
}
