// Package capispecs runs the specs that Cluster API has for providers (sigs.k8s.io/cluster-api/test/e2e) on the lab: its real management plane and emulated servers.
// Each spec is chosen by its Ginkgo label, and has its own namespace with its own hosts. Nothing of the framework is copied or changed.
//
// docs/development/capi-specs.md has a table of all specs: the label of each, or why it cannot run here.
package capispecs

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// Labels that select several specs: those that each change has to pass, and all of them.
const (
	ci      = "ci"
	nightly = "nightly"
)

// artifacts is the folder for what specs leave behind: the objects of their namespaces, and the logs of the lab if one fails.
var artifacts = filepath.Join(root(), ".cache", "capi-specs")

// ctx is the context of the suite. The framework takes it while Ginkgo builds the tree of specs.
var ctx, cancel = context.WithCancel(context.Background())

// suite is what the specs share.
type suite struct {
	lab    *site.Lab
	plane  *plane.Plane
	proxy  framework.ClusterProxy
	config *clusterctl.E2EConfig
	// borrower is the namespace that last had a server.
	borrower map[string]string
	gates    gates
	failed   bool
}

// shared is filled before the first spec. The functions that return the input of a spec are called after that.
var shared = &suite{borrower: map[string]string{}}

// root is the project's folder. Tests run in the folder of their package.
func root() string {
	path, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return path
}

func TestSpecs(t *testing.T) {
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "Cluster API's specs")
}

var _ = ginkgo.BeforeSuite(func() {
	// KCPAdoptionSpec sets these defaults, to 15 minutes and 10 seconds, for all specs.
	SetDefaultEventuallyTimeout(3 * time.Minute)
	SetDefaultEventuallyPollingInterval(time.Second)
	ginkgo.DeferCleanup(cancel)
	shared.failed = true // until the lab is up
	shared.startLab()
	shared.readConfig()
	shared.addFlavors()
	shared.failed = false
})

var _ = ginkgo.ReportAfterEach(func(report ginkgo.SpecReport) {
	shared.failed = shared.failed || report.Failed()
})

var _ = ginkgo.ReportAfterSuite("count", func(report ginkgo.Report) {
	specs := report.SpecReports.WithLeafNodeType(types.NodeTypeIt)
	failed := specs.WithState(types.SpecStateFailureStates)
	if len(failed) > 0 {
		fmt.Println("Failed. Each command repeats one:")
	}
	for _, spec := range failed {
		fmt.Printf("  make capi-specs LABEL=%s\n", spec.Labels()[0])
	}
	fmt.Printf("%d passed, %d failed\n", specs.CountWithState(types.SpecStatePassed), len(failed))
})

// startLab starts the lab, which ends with the suite. If a spec failed, the logs of the managers are kept with the artifacts.
func (s *suite) startLab() {
	Expect(os.MkdirAll(artifacts, 0o750)).To(Succeed())
	logf := func(format string, args ...any) { ginkgo.GinkgoWriter.Printf(format+"\n", args...) }
	var err error
	s.lab, err = site.New(ctx, root(), logf, func(server, what string) { logf("%s: %s", server, what) })
	ginkgo.DeferCleanup(func() {
		if s.failed {
			s.keepLogs()
		}
		Expect(s.lab.Close(false)).To(Succeed())
	})
	Expect(err).NotTo(HaveOccurred())
	// As in make demo: a server that is off before the provider read that it is on is not released for 20 s.
	s.lab.Rack.ShutdownTime = 5 * time.Second
	s.plane, err = s.lab.StartPlane(ctx, "management", s.lab.Rack.ManagerArgs(), func(o *plane.Options) {
		o.FeatureGates = append(o.FeatureGates, "MachineTaintPropagation=true")
	})
	ginkgo.DeferCleanup(func() { Expect(s.plane.Stop()).To(Succeed()) })
	Expect(err).NotTo(HaveOccurred())
	ginkgo.DeferCleanup(s.lab.Supply(ctx, s.plane))
	s.proxy = framework.NewClusterProxy("management", s.plane.Kubeconfig, scheme())
}

// scheme has the types of the framework and those of this provider.
func scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(bootstrapv1.AddToScheme(scheme))
	return scheme
}

// keepLogs copies the logs of the lab's programs. Its other files have keys and tokens.
func (s *suite) keepLogs() {
	for _, pattern := range []string{"*.log", "management/*.log"} {
		paths, err := filepath.Glob(filepath.Join(s.lab.Dir, pattern))
		Expect(err).NotTo(HaveOccurred())
		for _, path := range paths {
			content, err := os.ReadFile(path)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(filepath.Join(artifacts, filepath.Base(path)), content, 0o600)).To(Succeed())
		}
	}
}

// upgraded is the version of Kubernetes that specs upgrade to. It is only a stamp: the lab has the programs of one version, and the image of this one makes the kubelet
// report it.
const upgraded = site.KubernetesVersion + "+2"

// readConfig reads the intervals, and sets the variables. The framework's own reader demands that there is only one bootstrap provider.
func (s *suite) readConfig() {
	content, err := os.ReadFile(filepath.Join("data", "e2e.yaml"))
	Expect(err).NotTo(HaveOccurred())
	s.config = &clusterctl.E2EConfig{}
	Expect(yaml.UnmarshalStrict(content, s.config)).To(Succeed())
	s.config.Defaults()
	s.config.Variables = map[string]string{
		"KUBERNETES_VERSION": site.KubernetesVersion, "KUBERNETES_VERSION_UPGRADE_FROM": site.KubernetesVersion, "KUBERNETES_VERSION_UPGRADE_TO": upgraded,
	}
	image, err := s.lab.Rack.DiskImage(upgraded)
	Expect(err).NotTo(HaveOccurred())
	variables, err := s.lab.Rack.TemplateVariables()
	Expect(err).NotTo(HaveOccurred())
	variables = append(variables, "UPGRADE_IMAGE_URL="+image.URL, "UPGRADE_IMAGE_CHECKSUM="+image.Checksum)
	for _, secret := range s.lab.Rack.EtcdSecrets("any", "any") {
		if key, is := secret.Data[corev1.TLSPrivateKeyKey]; is { // not the CA
			encode := base64.StdEncoding.EncodeToString
			variables = append(variables, "ETCD_CLIENT_CERTIFICATE="+encode(secret.Data[corev1.TLSCertKey]), "ETCD_CLIENT_KEY="+encode(key))
		}
	}
	for name, value := range s.config.Variables {
		variables = append(variables, name+"="+value)
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		Expect(os.Setenv(name, value)).To(Succeed()) // the framework and clusterctl read them
	}
}
