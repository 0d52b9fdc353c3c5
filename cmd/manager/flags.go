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

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	bmcmetrics "github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
)

// The default addresses of health checks and diagnostics. A boot server is in the network of the servers, which must reach neither. A Deployment sets the
// address of its Pod.
const (
	loopbackHealth      = "127.0.0.1:9440"
	loopbackDiagnostics = "127.0.0.1:8443"
)

// flagGroup is a part of the flags that --help and docs/reference/manager.md show under one heading.
type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

// flagGroups returns the flags in their groups.
func (o *options) flagGroups() []flagGroup {
	var groups []flagGroup
	for _, g := range []struct {
		title string
		add   func(*pflag.FlagSet)
	}{
		{"General", o.addGeneralFlags},
		{"Leader election", o.leader.addFlags},
		{"Hosts and BMCs", o.addHostFlags},
		{"Boot server", o.addBootFlags},
		{"Webhooks", o.webhooks.addFlags},
		{"Health and diagnostics", o.addDiagnosticsFlags},
		{"Concurrency", o.concurrency.addFlags},
		{"Logs", o.addLogFlags},
	} {
		set := pflag.NewFlagSet(g.title, pflag.ContinueOnError)
		set.SortFlags = false
		g.add(set)
		groups = append(groups, flagGroup{g.title, set})
	}
	return groups
}

// flags returns all flags.
func (o *options) flags() *pflag.FlagSet {
	all := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	all.Usage = func() {} // run prints it
	for _, g := range o.flagGroups() {
		all.AddFlagSet(g.set)
	}
	return all
}

// helpColumns is the width of the lines of --help.
const helpColumns = 120

// help is the text of --help. hack/docs generates the tables of docs/reference/manager.md from it.
func help() string {
	var text strings.Builder
	text.WriteString("manager runs the bare metal infrastructure provider for Cluster API, or its bootstrap provider.\n")
	for _, g := range newOptions().flagGroups() {
		fmt.Fprintf(&text, "\n%s:\n%s", g.title, g.set.FlagUsagesWrapped(helpColumns))
	}
	return text.String()
}

func (o *options) addGeneralFlags(set *pflag.FlagSet) {
	set.StringSliceVar(&o.components, "components", []string{componentControllers, componentBoot},
		"Comma-separated components that this process runs: controllers (with their webhooks), boot (the boot server), or both; bootstrap (the bootstrap provider with its webhooks), which runs alone; or images (it downloads and converts images for the boot server), which runs alone.")
	set.StringVar(&o.namespace, "namespace", "", "Namespace whose objects are watched. Defaults to all namespaces.")
	set.StringVar(&o.watchFilter, "watch-filter", "", "The `value` of the label cluster.x-k8s.io/watch-filter of the objects to reconcile. Defaults to all objects, with and without the label.")
	set.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "Interval at which every object is reconciled even if nothing has changed.")
	set.Float32Var(&o.qps, "kube-api-qps", 500, "Maximum number of requests per second to the API server of the management cluster.")
	set.IntVar(&o.burst, "kube-api-burst", 1000, "Maximum number of requests to that API server in a burst.")
	addOperatorFlags(set)
	set.BoolVar(&o.showVersion, "version", false, "Print the version and exit.")
	set.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName)) // controller-runtime's
	describe(set, config.KubeconfigFlagName, "Kubeconfig `file` of the management cluster, for a manager that runs outside of it. Defaults to the service account of the Pod.")
}

// addOperatorFlags adds the flags that cluster-api-operator sets from spec.manager of a provider (its internal/controller/component_customizer.go), and that mean nothing here.
// Without them the process would end.
func addOperatorFlags(set *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"metrics-bind-addr": "Ignored. The metrics are served at --diagnostics-address.", "max-concurrent-reconciles": "Ignored. Each controller has a flag of its own.",
		"feature-gates": "Ignored. There are no feature gates.", "leader-election-id": "Ignored. The name of the lease follows from the component.",
	} {
		set.String(name, "", usage)
		set.Lookup(name).Hidden = true
	}
}

// describe replaces the description of a library's flag.
func describe(set *pflag.FlagSet, name, usage string) { set.Lookup(name).Usage = usage }

// addHostFlags adds the flags of the host controller.
func (o *options) addHostFlags(set *pflag.FlagSet) {
	set.IntVar(&o.bmcConcurrency, "bmc-concurrency", 64, "Maximum number of BMCs that the controllers communicate with concurrently. BMCs that did not answer last time have as many slots of their own.")
	set.Float64Var(&o.bmcRate, "bmc-rate", 20, "Maximum number of requests per second to one BMC.")
	set.DurationVar(&o.settings.PollInterval, "power-poll-interval", o.settings.PollInterval, "Maximum age of the power state of an idle host before it is read again.")
	set.DurationVar(&o.settings.ActiveInterval, "power-active-interval", o.settings.ActiveInterval, "Maximum age of the power state during an operation on a host before it is read again.")
	set.DurationVar(&o.settings.InspectInterval, "inspect-interval", o.settings.InspectInterval, "Maximum age of the inventory of an idle host before it is read again.")
	set.DurationVar(&o.settings.HealthInterval, "health-interval", lifecycle.DefaultHealthInterval,
		"Interval at which the health of an idle host is read. From 300 hosts on it is longer, so that 5 are read per second. 0 reads it with the inventory only.")
	set.StringSliceVar(&o.sensorKinds, "sensor-metrics", nil,
		"Comma-separated `kinds` of sensors that the metrics show, with a series for each sensor: "+strings.Join(bmcmetrics.SensorKinds, ", ")+". Defaults to none.")
	set.DurationVar(&o.settings.ShutDownTimeout, "shutdown-timeout", o.settings.ShutDownTimeout, "Time that an operating system has to shut down. After it the server is powered off through its BMC.")
	set.DurationVar(&o.settings.BootTimeout, "boot-timeout", o.settings.BootTimeout, "Maximum duration of a boot attempt. After it the attempt has failed. The same for the controllers and the boot servers.")
	set.DurationVar(&o.settings.MethodTimeout, "boot-method-timeout", o.settings.MethodTimeout,
		"Time after the power-on that the first request of a boot method has, if the boot has another method. After it the next attempt uses that one. Values from --boot-timeout on have no effect.")
	set.StringArrayVar(&o.bootMediaURLs, "boot-media-url", nil,
		"The `[CIDR=]URL` of the boot server as BMCs and firmware reach it, for boot media. With a network in CIDR notation it is for the BMCs in that network, and otherwise for all others. The flag can be set several times. Without it, or with none, servers boot by PXE only.")
	set.DurationVar(&o.settings.EraseTimeout, "erase-timeout", o.settings.EraseTimeout,
		"Maximum duration of an attempt to erase the disks of a server while its agent makes progress. Without progress an attempt ends after --boot-timeout.")
	set.StringVar((*string)(&o.settings.MinimumCleaningPolicy), "minimum-cleaning-policy", string(wire.PolicyNone),
		"Minimum `policy` for the disks of a released host: None, Metadata, Clear or Purge. Hosts and machines can ask for more. Hosts with the policy Manual keep it.")
	set.Int32Var(&o.settings.BootAttempts, "boot-attempts", o.settings.BootAttempts,
		"Maximum number of attempts of a boot, or the number of its boot methods if that is more. There is no further attempt once the bootstrap data was served.")
	set.IntVar(&o.settings.BootConcurrency, "boot-concurrency", o.settings.BootConcurrency,
		"Maximum number of hosts of one failure domain that boot concurrently, from the start of an attempt to the report of the operating system. 0 means no limit.")
	set.BoolVar(&o.profiles, "profiles", false,
		"Apply BareMetalProfiles: change the firmware settings of hosts. Without it no change starts, and a host whose change has started waits.")
}

func (o *options) addBootFlags(set *pflag.FlagSet) {
	set.StringArrayVar(&o.bootConfig, "boot-config", nil,
		"Configuration `file` of the boot server. If the flag is set several times, the first file that exists is read. The component boot requires one. The controllers read from it which networks BMCs may be in, and the tenants.")
	set.StringVar(&o.imagesSocket, "images-socket", "",
		"Path of the Unix `socket` of the component images, if the configuration file has no images.socket. Without either, the boot server downloads and converts images itself.")
	set.StringVar(&o.printDHCP, "print-dhcp-config", "",
		"Print the configuration for your own DHCP `server` ("+strings.Join(dhcp.Software(), ", ")+") that refers servers to this boot server, and exit. Needs --boot-config.")
}

// addDiagnosticsFlags adds the flags of what a process serves about itself. The TLS options apply to the webhooks, too.
func (o *options) addDiagnosticsFlags(set *pflag.FlagSet) {
	set.StringVar(&o.healthAddress, "health-addr", loopbackHealth, "TCP `address` of /healthz and /readyz. 0 disables them.")
	capiflags.AddManagerOptions(set, &o.manager)
	diagnostics := set.Lookup("diagnostics-address")
	diagnostics.DefValue, o.manager.DiagnosticsAddress = loopbackDiagnostics, loopbackDiagnostics
	describe(set, "diagnostics-address", "TCP `address` of the metrics, the profiler (pprof) and the log level. They are served with TLS, to accounts that have the permission in RBAC. 0 disables them.")
	describe(set, "insecure-diagnostics", "Serve the metrics without TLS and without authentication, and neither the profiler nor the log level.")
	describe(set, "tls-min-version", "Oldest TLS `version` of the diagnostics and the webhooks: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.")
	describe(set, "tls-cipher-suites", "Comma-separated `names` of cipher suites of the diagnostics and the webhooks (https://pkg.go.dev/crypto/tls#pkg-constants). Defaults to those of Go.")
	describe(set, "tls-curve-preferences", "Comma-separated `numbers` of key exchange mechanisms of the diagnostics and the webhooks (https://pkg.go.dev/crypto/tls#CurveID). Defaults to those of Go.")
	set.StringVar(&o.profiler, "profiler-address", "", "TCP `address` of a profiler (pprof) without TLS and without authentication, such as localhost:6060. Disabled by default.")
}

func (o *options) addLogFlags(set *pflag.FlagSet) {
	logsv1.AddFlags(o.logs, set)
	describe(set, "v", fmt.Sprintf("Log `level`, from 0 (decisions and errors) to %d. From %d on the Kubernetes client would log Secrets.", maxVerbosity, maxVerbosity+1))
	describe(set, "vmodule", "Comma-separated `pattern=N` settings: log level N for the source files that match a pattern. Only for the text format.")
	describe(set, "logging-format", "Log `format`: text or json.")
	describe(set, "log-flush-frequency", "Maximum time before a line of the log is written.")
	// They need LoggingAlphaOptions, a feature gate that this program has no flag for (component-base v0.36.3). Delete when they are stable.
	for _, name := range []string{"log-json-split-stream", "log-json-info-buffer-size", "log-text-split-stream", "log-text-info-buffer-size"} {
		set.Lookup(name).Hidden = true
	}
}

func (l *leaderElection) addFlags(set *pflag.FlagSet) {
	set.BoolVar(&l.enabled, "leader-elect", true, "Reconcile only while this process holds the lease. A boot server does not take part.")
	set.DurationVar(&l.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "Time after which another process takes a lease that its holder does not renew.")
	set.DurationVar(&l.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "Time that the holder tries to renew the lease before it exits.")
	set.DurationVar(&l.retryPeriod, "leader-elect-retry-period", 2*time.Second, "Interval between attempts to acquire or renew the lease.")
}

// renewJitter is the maximum factor by which client-go lengthens a retry period.
const renewJitter = 1.2

// check refuses the values that client-go refuses, with the names of the flags.
func (l *leaderElection) check() error {
	switch {
	case l.retryPeriod <= 0:
		return errors.New("--leader-elect-retry-period: must be more than 0")
	case float64(l.renewDeadline) <= renewJitter*float64(l.retryPeriod):
		return fmt.Errorf("--leader-elect-renew-deadline: %s leaves no time for a second attempt: must be more than %.1f times --leader-elect-retry-period (%s)", l.renewDeadline, renewJitter, l.retryPeriod)
	case l.leaseDuration <= l.renewDeadline:
		return fmt.Errorf("--leader-elect-lease-duration: %s allows two processes to hold the lease: must be more than --leader-elect-renew-deadline (%s)", l.leaseDuration, l.renewDeadline)
	default:
		return nil
	}
}

// leaseName returns the name of the lease. Managers of different objects have different leases, so that they do not wait for each other.
func (o *options) leaseName() string {
	name := "capbm-controllers"
	if o.has(componentBootstrap) {
		name = "capbm-bootstrap"
	}
	if o.namespace == "" && o.watchFilter == "" {
		return name
	}
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s/%s", o.namespace, o.watchFilter) // never fails
	return fmt.Sprintf("%s-%08x", name, sum.Sum32())
}

// each calls f with every flag of concurrency and its default. A worker waits for the writes of a step: with ten workers, 500 hosts that booted at once waited 20 seconds for
// their first step (docs/decisions/0017-no-bmc-call-in-a-reconcile.md).
func (c *concurrency) each(f func(value *int, name string, byDefault int, what string)) {
	f(&c.host, "baremetalhost-concurrency", 40, "Maximum number of BareMetalHosts that are reconciled concurrently.")
	f(&c.machine, "baremetalmachine-concurrency", 40, "Maximum number of BareMetalMachines that are reconciled concurrently.")
	f(&c.cluster, "baremetalcluster-concurrency", 10, "Maximum number of BareMetalClusters that are reconciled concurrently.")
	f(&c.template, "baremetalmachinetemplate-concurrency", 10, "Maximum number of BareMetalMachineTemplates that are reconciled concurrently.")
	f(&c.remediation, "baremetalremediation-concurrency", 10, "Maximum number of BareMetalRemediations that are reconciled concurrently.")
	f(&c.node, "node-concurrency", 10, "Maximum number of BareMetalMachines whose Nodes are looked up concurrently in workload clusters.")
	f(&c.config, "baremetalconfig-concurrency", 10, "Maximum number of BareMetalConfigs that the bootstrap component reconciles concurrently.")
	f(&c.clusterCache, "clustercache-concurrency", 10, "Maximum number of workload clusters whose connections are opened or checked concurrently.")
}

func (c *concurrency) addFlags(set *pflag.FlagSet) {
	c.each(func(value *int, name string, byDefault int, what string) { set.IntVar(value, name, byDefault, what) })
}

func (c *concurrency) check() error {
	var problems []error
	c.each(func(value *int, name string, _ int, _ string) {
		if *value < 1 {
			problems = append(problems, fmt.Errorf("--%s: %d: must be at least 1", name, *value))
		}
	})
	return errors.Join(problems...)
}

func (w *webhooks) addFlags(set *pflag.FlagSet) {
	set.IntVar(&w.port, "webhook-port", 9442, "TCP `port` of the webhooks, which the components controllers and bootstrap serve. 0 disables them.")
	set.StringVar(&w.host, "webhook-host", "", "IP `address` that the webhooks are served at. Defaults to all addresses.")
	set.StringVar(&w.certDir, "webhook-cert-dir", "/tmp/k8s-webhook-server/serving-certs", "The `folder` with the certificate of the webhooks. A changed certificate is reloaded.")
	set.StringVar(&w.certName, "webhook-cert-name", "tls.crt", "Name of the certificate `file` in --webhook-cert-dir.")
	set.StringVar(&w.keyName, "webhook-key-name", "tls.key", "Name of the key `file` in --webhook-cert-dir.")
}

func (w *webhooks) check() error {
	if w.port < 0 || w.port > 65535 {
		return fmt.Errorf("--webhook-port: %d is not a port number", w.port)
	}
	if _, err := netip.ParseAddr(w.host); w.host != "" && err != nil {
		return fmt.Errorf("--webhook-host: %q is not an IP address", w.host)
	}
	return nil
}

// serve returns whether the webhooks are served. It returns an error if the certificate does not exist, before the manager listens on a port.
func (w *webhooks) serve() (bool, error) {
	if w.port == 0 {
		return false, nil
	}
	for _, name := range []string{w.certName, w.keyName} {
		if _, err := os.Stat(filepath.Join(w.certDir, name)); err != nil {
			return false, fmt.Errorf("--webhook-cert-dir: %w: set it to the folder with the certificate of the webhooks, or disable them with --webhook-port=0", err)
		}
	}
	return true, nil
}

// completeServing reads the TLS options, which apply to the metrics and the webhooks.
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

// verbosityPath is the path of Cluster API's diagnostics endpoint that changes the log level at run time.
const verbosityPath = "/debug/flags/v"

// setVerbosity changes the log level at run time. It accepts the values of the flag -v.
func setVerbosity(level string) (string, error) {
	if n, err := strconv.ParseUint(level, 10, 32); err != nil || n > maxVerbosity {
		return "", fmt.Errorf("%.20q: must be a number from 0 to %d: from %d on the Kubernetes client logs what it reads, including Secrets", level, maxVerbosity, maxVerbosity+1)
	}
	return logs.GlogSetter(level)
}
