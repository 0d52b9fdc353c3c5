package main

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	logsv1 "k8s.io/component-base/logs/api/v1"
	capiflags "sigs.k8s.io/cluster-api/util/flags"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	bmcmetrics "github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

const (
	componentControllers = "controllers"
	componentBoot        = "boot"
	// componentBootstrap is a provider of its own, in a process of its own: its account may create Secrets in all namespaces.
	componentBootstrap = "bootstrap"
	// componentImages downloads and converts images, in a process of its own without access to the API server: it parses files that tenants choose.
	componentImages = "images"
)

// options are the values of the flags, and values derived from them.
type options struct {
	showVersion    bool
	components     []string
	namespace      string
	podNamespace   string
	apiServer      netip.Addr // the Service of the API server, invalid outside of a cluster
	watchFilter    string
	leader         leaderElection
	healthAddress  string
	profiler       string
	syncPeriod     time.Duration
	qps            float32
	burst          int
	concurrency    concurrency
	webhooks       webhooks
	bmcConcurrency int
	bmcRate        float64
	manager        capiflags.ManagerOptions
	logs           *logsv1.LoggingConfiguration
	settings       lifecycle.Settings
	profiles       bool
	sensorKinds    []string
	bootConfig     []string
	bootMediaURLs  []string
	imagesSocket   string
	printDHCP      string

	boot      bootconfig.Config      // from bootConfig
	bootFile  string                 // the path of bootConfig that boot was read from
	mediaURLs host.MediaURLs         // from bootMediaURLs
	tls       []func(*tls.Config)    // from manager
	metrics   *metricsserver.Options // from manager
}

// leaderElection configures the election of the manager that reconciles.
type leaderElection struct {
	enabled                                   bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

// concurrency is the number of objects of each kind that are reconciled concurrently.
type concurrency struct{ host, machine, cluster, template, remediation, node, clusterCache, config int }

// webhooks configures the webhook server and its certificate.
type webhooks struct {
	host, certDir, certName, keyName string
	port                             int
}

func newOptions() *options {
	return &options{logs: logsv1.NewLoggingConfiguration(), settings: lifecycle.DefaultSettings()}
}

func (o *options) has(component string) bool { return slices.Contains(o.components, component) }

// maxVerbosity is the maximum log level: from 8 on client-go logs the bodies of responses.
const maxVerbosity = 7

// complete validates the flags and returns an error with the name of the invalid flag.
func (o *options) complete() error {
	if o.podNamespace = os.Getenv("POD_NAMESPACE"); o.podNamespace == "" {
		o.podNamespace = "capbm-system"
		if o.has(componentBootstrap) {
			o.podNamespace = "capbm-bootstrap-system"
		}
	}
	o.apiServer, _ = netip.ParseAddr(os.Getenv("KUBERNETES_SERVICE_HOST")) // invalid outside of a cluster
	tooVerbose := func(m logsv1.VModuleItem) bool { return m.Verbosity > maxVerbosity }
	if o.logs.Verbosity > maxVerbosity || slices.ContainsFunc(o.logs.VModule, tooVerbose) {
		return fmt.Errorf("-v, --vmodule: from %d on the Kubernetes client logs what it reads, including Secrets: the maximum is %d", maxVerbosity+1, maxVerbosity)
	}
	if err := errors.Join(o.leader.check(), o.concurrency.check(), o.webhooks.check(), o.completeServing()); err != nil {
		return err
	}
	if problems := validation.IsValidLabelValue(o.watchFilter); len(problems) > 0 {
		return fmt.Errorf("--watch-filter: %q is not a label value: %s", o.watchFilter, strings.Join(problems, "; "))
	}
	if err := o.checkComponents(); err != nil {
		return err
	}
	if o.settings.BootConcurrency < 0 {
		return fmt.Errorf("--boot-concurrency: %d: must be a positive number, or 0 for no limit", o.settings.BootConcurrency)
	}
	if err := o.checkHealth(); err != nil {
		return err
	}
	if !cleaning.IsMinimum(o.settings.MinimumCleaningPolicy) {
		return fmt.Errorf("--minimum-cleaning-policy: %q is neither None nor Metadata nor Clear nor Purge", o.settings.MinimumCleaningPolicy)
	}
	if o.settings.MethodTimeout <= 0 {
		return fmt.Errorf("--boot-method-timeout: %s: must be more than 0", o.settings.MethodTimeout)
	}
	if err := o.completeMediaURLs(); err != nil {
		return fmt.Errorf("--boot-media-url: %w", err)
	}
	return o.completeConfig()
}

// minHealthInterval is the least interval at which the health is read.
const minHealthInterval = 10 * time.Second

// checkHealth checks the flags of the health.
func (o *options) checkHealth() error {
	if interval := o.settings.HealthInterval; interval != 0 && interval < minHealthInterval {
		return fmt.Errorf("--health-interval: %s: must be at least %s, or 0 to read the health with the inventory only", interval, minHealthInterval)
	}
	for _, kind := range o.sensorKinds {
		if !slices.Contains(bmcmetrics.SensorKinds, kind) {
			return fmt.Errorf("--sensor-metrics: %q is unknown: use some of %s", kind, strings.Join(bmcmetrics.SensorKinds, ", "))
		}
	}
	return nil
}

// completeMediaURLs parses the URLs of the boot media.
func (o *options) completeMediaURLs() error {
	for _, text := range o.bootMediaURLs {
		if text == "none" { // CAPBM_BOOT_MEDIA_URL is not set
			continue
		}
		entry, err := host.ParseMediaURL(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(o.mediaURLs, func(m host.MediaURL) bool { return m.Network == entry.Network }) {
			return fmt.Errorf("%q: there is another URL for the same BMCs", text)
		}
		o.mediaURLs = append(o.mediaURLs, entry)
	}
	return nil
}

func (o *options) checkComponents() error {
	for _, component := range o.components {
		if component != componentControllers && component != componentBoot && component != componentBootstrap && component != componentImages {
			return fmt.Errorf("--components: %q is neither %s nor %s nor %s nor %s", component, componentControllers, componentBoot, componentBootstrap, componentImages)
		}
	}
	if o.has(componentImages) && len(o.components) > 1 {
		return fmt.Errorf("--components: %s runs in a process of its own, because it parses files that tenants choose: remove the others", componentImages)
	}
	if o.has(componentBootstrap) && len(o.components) > 1 {
		return fmt.Errorf("--components: %s runs in a process of its own, because its account may create Secrets in all namespaces: remove the others", componentBootstrap)
	}
	return nil
}

// completeConfig reads the configuration file. The controllers do not require one.
func (o *options) completeConfig() error {
	boot := o.has(componentBoot) || o.printDHCP != ""
	if len(o.bootConfig) == 0 && (boot || o.has(componentImages)) {
		return fmt.Errorf("--boot-config: set it to the boot server's configuration file, or remove %s and %s from --components", componentBoot, componentImages)
	}
	if len(o.bootConfig) > 0 {
		if err := o.readBootConfig(); err != nil {
			return fmt.Errorf("--boot-config: %w", err)
		}
	}
	if o.imagesSocket != "" && !filepath.IsAbs(o.imagesSocket) {
		return fmt.Errorf("--images-socket: %q: give the absolute path of the Unix socket", o.imagesSocket)
	}
	o.boot.Images.Socket = cmp.Or(o.boot.Images.Socket, o.imagesSocket)
	if boot {
		if err := o.boot.CheckNetworks(); err != nil {
			return fmt.Errorf("--boot-config: %s: %w", o.bootFile, err)
		}
	}
	if o.apiServer.IsValid() {
		o.boot.Deny(netip.PrefixFrom(o.apiServer, o.apiServer.BitLen()))
	}
	return nil
}

// readBootConfig reads the first configuration file that exists. A file that exists and cannot be used is an error: another file may name other networks.
// So is a folder with other files, such as a ConfigMap with another key.
func (o *options) readBootConfig() error {
	var missing []error
	for _, path := range o.bootConfig {
		config, err := bootconfig.Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			if other := o.otherFile(path); other != "" {
				return fmt.Errorf("%w: rename %s, or the key of the ConfigMap, to %s", err, other, filepath.Base(path))
			}
			missing = append(missing, err)
			continue
		}
		o.boot, o.bootFile = config, path
		return err
	}
	return errors.Join(missing...)
}

// otherFile returns the name of a file in the folder of a file that does not exist. The names in a mounted ConfigMap that begin with two dots are Kubernetes' own.
func (o *options) otherFile(path string) string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return "" // there is no folder
	}
	for _, entry := range entries {
		if !entry.IsDir() && !strings.HasPrefix(entry.Name(), "..") && !slices.Contains(o.bootConfig, filepath.Join(filepath.Dir(path), entry.Name())) {
			return entry.Name()
		}
	}
	return ""
}
