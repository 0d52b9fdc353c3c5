package main

import (
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	capiflags "sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// Where health and diagnostics are served by default: a boot server is in the network of the servers, which have no use for either. A
// Deployment names the address of its Pod.
const (
	loopbackHealth      = "127.0.0.1:9440"
	loopbackDiagnostics = "127.0.0.1:8443"
)

// flags returns the flags. docs/manager.md lists them.
func (o *options) flags() *pflag.FlagSet {
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	set.StringSliceVar(&o.components, "components", []string{componentControllers, componentBoot},
		"What this process runs: controllers (leader-elected, and with them the webhooks), boot (any number may run), or both.")
	set.StringVar(&o.namespace, "namespace", "", "Namespace to watch. All namespaces by default.")
	set.StringVar(&o.watchFilter, "watch-filter", "", "Value of the label cluster.x-k8s.io/watch-filter of the objects to reconcile. All by default.")
	set.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "How often every object is looked at even if nothing happened.")
	set.Float32Var(&o.qps, "kube-api-qps", 500, "Requests a second to the API server.")
	set.IntVar(&o.burst, "kube-api-burst", 1000, "Requests to the API server in a burst.")
	o.leader.addFlags(set)
	o.concurrency.addFlags(set)
	o.webhooks.addFlags(set)
	set.StringVar(&o.healthAddress, "health-addr", loopbackHealth, "Address of /healthz and /readyz. 0 serves none.")
	set.StringVar(&o.profiler, "profiler-address", "", "Address of the profiler (pprof), like localhost:6060: whoever reaches it needs no permission. Off by default.")
	o.addHostFlags(set)
	set.StringVar(&o.bootConfig, "boot-config", "", "The configuration file (docs/network-boot.md): of the boot component, which needs it, and of where BMCs may be.")
	set.StringVar(&o.printDHCP, "print-dhcp-config", "",
		"Print what a DHCP server of your own must say to point at this boot server, for "+strings.Join(dhcp.Software(), ", ")+", and end.")
	capiflags.AddManagerOptions(set, &o.manager)
	diagnostics := set.Lookup("diagnostics-address")
	diagnostics.DefValue, o.manager.DiagnosticsAddress = loopbackDiagnostics, loopbackDiagnostics
	logsv1.AddFlags(o.logs, set)
	set.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName)) // controller-runtime's
	return set
}

// addHostFlags adds the flags of what is done to hosts.
func (o *options) addHostFlags(set *pflag.FlagSet) {
	set.IntVar(&o.bmcConcurrency, "bmc-concurrency", 64, "BMCs that are spoken to at once.")
	set.Float64Var(&o.bmcRate, "bmc-rate", 20, "Requests a second that a BMC gets at most.")
	set.DurationVar(&o.settings.PollInterval, "power-poll-interval", o.settings.PollInterval, "How old the power state of a host at rest may be.")
	set.DurationVar(&o.settings.InspectInterval, "inspect-interval", o.settings.InspectInterval, "How old the inventory of a host that may be asked for it may be.")
	set.DurationVar(&o.settings.ActiveInterval, "power-active-interval", o.settings.ActiveInterval, "How old the power state may be while something is done with a host.")
	set.DurationVar(&o.settings.ShutDownTimeout, "shutdown-timeout", o.settings.ShutDownTimeout, "How long an operating system may take to shut down before its server is switched off.")
	set.DurationVar(&o.settings.BootTimeout, "boot-timeout", o.settings.BootTimeout, "How long a boot attempt may take.")
	set.IntVar(&o.settings.BootConcurrency, "boot-concurrency", o.settings.BootConcurrency,
		"Hosts of one failure domain that may boot at once, from the begin of an attempt to the report. 0 is no limit.")
	set.Int32Var(&o.settings.BootAttempts, "boot-attempts", o.settings.BootAttempts, "How often a boot is tried.")
}

func (l *leaderElection) addFlags(set *pflag.FlagSet) {
	set.BoolVar(&l.enabled, "leader-elect", true, "Run the controllers only while this process holds the lease.")
	set.DurationVar(&l.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "How long others wait for a holder that does not renew the lease.")
	set.DurationVar(&l.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "How long the holder tries to renew the lease before it ends.")
	set.DurationVar(&l.retryPeriod, "leader-elect-retry-period", 2*time.Second, "How often the lease is asked for or renewed.")
}

// renewJitter is by how much client-go lengthens a retry period at most.
const renewJitter = 1.2

// check refuses what client-go refuses, by the names of the flags.
func (l *leaderElection) check() error {
	switch {
	case l.retryPeriod <= 0:
		return errors.New("--leader-elect-retry-period: must be more than 0")
	case float64(l.renewDeadline) <= renewJitter*float64(l.retryPeriod):
		return fmt.Errorf("--leader-elect-renew-deadline: %s leaves no second try: give more than %.1f times --leader-elect-retry-period (%s)", l.renewDeadline, renewJitter, l.retryPeriod)
	case l.leaseDuration <= l.renewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration: %s lets two hold the lease: give more than --leader-elect-renew-deadline (%s)", l.leaseDuration, l.renewDeadline)
	default:
		return nil
	}
}

// leaseName is the name of the lease. Managers that look after different objects must not wait for each other.
func (o *options) leaseName() string {
	const name = "capbm-controllers"
	if o.namespace == "" && o.watchFilter == "" {
		return name
	}
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s/%s", o.namespace, o.watchFilter) // never fails
	return fmt.Sprintf("%s-%08x", name, sum.Sum32())
}

// each calls f with every flag of concurrency and its default. A claim is a few requests one after the other: with as few machines at once as hosts, those
// that wait for theirs would wait for the boots of those that have one.
func (c *concurrency) each(f func(value *int, name string, byDefault int, what string)) {
	f(&c.host, "baremetalhost-concurrency", 10, "BareMetalHosts that are worked on at once.")
	f(&c.machine, "baremetalmachine-concurrency", 30, "BareMetalMachines that are worked on at once.")
	f(&c.cluster, "baremetalcluster-concurrency", 10, "BareMetalClusters that are worked on at once.")
	f(&c.template, "baremetalmachinetemplate-concurrency", 10, "BareMetalMachineTemplates that are worked on at once.")
	f(&c.remediation, "baremetalremediation-concurrency", 10, "BareMetalRemediations that are worked on at once.")
	f(&c.node, "node-concurrency", 10, "BareMetalMachines whose Nodes are looked for at once.")
	f(&c.clusterCache, "clustercache-concurrency", 10, "Workload clusters whose connections are made or checked at once.")
}

func (c *concurrency) addFlags(set *pflag.FlagSet) {
	c.each(func(value *int, name string, byDefault int, what string) { set.IntVar(value, name, byDefault, what) })
}

func (c *concurrency) check() error {
	var problems []error
	c.each(func(value *int, name string, _ int, _ string) {
		if *value < 1 {
			problems = append(problems, fmt.Errorf("--%s: %d: give at least 1", name, *value))
		}
	})
	return errors.Join(problems...)
}

func (w *webhooks) addFlags(set *pflag.FlagSet) {
	set.IntVar(&w.port, "webhook-port", 9442, "Port of the webhooks, which the controllers component serves. 0 serves none.")
	set.StringVar(&w.host, "webhook-host", "", "IP address that webhooks are served at: the one that the API server calls. All by default.")
	set.StringVar(&w.certDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "Folder with the certificate of the webhooks. It is read again when it changes.")
	set.StringVar(&w.certName, "webhook-cert-name", "tls.crt", "File with the certificate, in the folder.")
	set.StringVar(&w.keyName, "webhook-key-name", "tls.key", "File with the key, in the folder.")
}

func (w *webhooks) check() error {
	if w.port < 0 || w.port > 65535 {
		return fmt.Errorf("--webhook-port: %d is no port", w.port)
	}
	if _, err := netip.ParseAddr(w.host); w.host != "" && err != nil {
		return fmt.Errorf("--webhook-host: %q is no IP address", w.host)
	}
	return nil
}

// checkFiles tells before anything listens that there is no certificate.
func (w *webhooks) checkFiles() error {
	for _, name := range []string{w.certName, w.keyName} {
		if _, err := os.Stat(filepath.Join(w.certDir, name)); err != nil {
			return fmt.Errorf("--webhook-cert-dir: %w: name the folder with the certificate of the webhooks, or serve none with --webhook-port=0", err)
		}
	}
	return nil
}

// completeServing reads the options of TLS, which hold for the metrics and the webhooks.
func (o *options) completeServing() error {
	var err error
	if o.tls, o.metrics, err = capiflags.GetManagerOptions(o.manager); err != nil {
		return fmt.Errorf("--tls-min-version, --tls-cipher-suites, --tls-curve-preferences: %w", err)
	}
	if _, ok := o.metrics.ExtraHandlers[verbosityPath]; ok {
		o.metrics.ExtraHandlers[verbosityPath] = routes.StringFlagPutHandler(setVerbosity)
	}
	return nil
}

// verbosityPath is where Cluster API's diagnostics endpoint lets the log level be changed at run time.
const verbosityPath = "/debug/flags/v"

// setVerbosity changes the log level at run time. It takes what the flag -v takes.
func setVerbosity(level string) (string, error) {
	if n, err := strconv.ParseUint(level, 10, 32); err != nil || n > maxVerbosity {
		return "", fmt.Errorf("%.20q: give a number from 0 to %d: from %d on the Kubernetes client logs what it reads, Secrets among it", level, maxVerbosity, maxVerbosity+1)
	}
	return logs.GlogSetter(level)
}
