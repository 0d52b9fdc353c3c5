package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	capiflags "sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// The parts that a manager may run.
const (
	componentControllers = "controllers"
	componentBoot        = "boot"
)

// options are the flags, and what follows from them.
type options struct {
	components     []string
	namespace      string
	podNamespace   string
	watchFilter    string
	leaderElect    bool
	healthAddress  string
	syncPeriod     time.Duration
	qps            float32
	burst          int
	concurrency    int
	bmcConcurrency int
	bmcRate        float64
	bmcAllow       []string
	manager        capiflags.ManagerOptions
	logs           *logsv1.LoggingConfiguration
	settings       lifecycle.Settings
	bootFlags      bootFlags

	bmcPermit  bmc.Permit    // from bmcAllow
	server     server.Config // from bootFlags
	rangeFirst netip.Addr
	rangeLast  netip.Addr
}

// bootFlags are the flags of the boot server, as they are written.
type bootFlags struct {
	address, mode, network, addresses, router string
	dns, allow                                []string
	dhcpPort, proxyPort, tftpPort, httpPort   uint16
	loaderDir, cacheDir                       string
	cacheGiB                                  int64
	leaseTime                                 time.Duration
}

func newOptions() *options {
	return &options{logs: logsv1.NewLoggingConfiguration(), settings: lifecycle.DefaultSettings()}
}

func (o *options) flags() *pflag.FlagSet {
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	set.StringSliceVar(&o.components, "components", []string{componentControllers, componentBoot},
		"What this process runs: controllers (leader-elected), boot (any number may run), or both.")
	set.StringVar(&o.namespace, "namespace", "", "Namespace to watch. All namespaces by default.")
	set.StringVar(&o.watchFilter, "watch-filter", "", "Value of the label cluster.x-k8s.io/watch-filter of the objects to reconcile. All by default.")
	set.BoolVar(&o.leaderElect, "leader-elect", true, "Run the controllers only while this process holds the lease.")
	set.StringVar(&o.healthAddress, "health-addr", ":9440", "Address of /healthz and /readyz.")
	set.DurationVar(&o.syncPeriod, "sync-period", 10*time.Minute, "How often every object is looked at even if nothing happened.")
	set.Float32Var(&o.qps, "kube-api-qps", 100, "Requests a second to the API server.")
	set.IntVar(&o.burst, "kube-api-burst", 200, "Requests to the API server in a burst.")
	set.IntVar(&o.concurrency, "concurrency", 10, "Objects of a kind that are reconciled at once.")
	set.IntVar(&o.bmcConcurrency, "bmc-concurrency", 64, "BMCs that are spoken to at once.")
	set.Float64Var(&o.bmcRate, "bmc-rate", 20, "Requests a second that a BMC gets at most.")
	set.StringSliceVar(&o.bmcAllow, "bmc-allow-network", nil,
		"Networks that BMCs may be in although their addresses are loopback or link-local. For try-outs.")
	set.DurationVar(&o.settings.PollInterval, "power-poll-interval", o.settings.PollInterval, "How old the power state of a host at rest may be.")
	set.DurationVar(&o.settings.InspectInterval, "inspect-interval", o.settings.InspectInterval, "How old the inventory of a host that may be asked for it may be.")
	set.DurationVar(&o.settings.ActiveInterval, "power-active-interval", o.settings.ActiveInterval, "How old the power state may be while something is done with a host.")
	set.DurationVar(&o.settings.ShutDownTimeout, "shutdown-timeout", o.settings.ShutDownTimeout, "How long an operating system may take to shut down before its server is switched off.")
	set.DurationVar(&o.settings.BootTimeout, "boot-timeout", o.settings.BootTimeout, "How long a boot attempt may take.")
	set.Int32Var(&o.settings.BootAttempts, "boot-attempts", o.settings.BootAttempts, "How often a boot is tried.")
	o.bootFlags.add(set)
	capiflags.AddManagerOptions(set, &o.manager)
	logsv1.AddFlags(o.logs, set)
	set.AddGoFlag(flag.CommandLine.Lookup(config.KubeconfigFlagName)) // controller-runtime's
	return set
}

func (b *bootFlags) add(set *pflag.FlagSet) {
	set.StringVar(&b.address, "boot-address", "", "IPv4 address that servers reach the boot server at. Needed by the boot component.")
	set.Uint16Var(&b.httpPort, "boot-http-port", 8480, "Port of scripts, kernels, initrds and bootstrap data.")
	set.Uint16Var(&b.tftpPort, "tftp-port", 69, "Port of boot loaders; 0 serves none. Firmware knows only 69.")
	set.StringVar(&b.mode, "dhcp-mode", string(dhcp.Proxy), "off, proxy (beside another DHCP server) or authoritative (gives addresses to the hosts of the inventory).")
	set.Uint16Var(&b.dhcpPort, "dhcp-port", 67, "Port of DHCP. Firmware knows only 67.")
	set.Uint16Var(&b.proxyPort, "dhcp-proxy-port", 4011, "Port of proxy DHCP's second answer; 0 for none. Firmware knows only 4011.")
	set.StringVar(&b.network, "dhcp-network", "", "Network of the addresses in mode authoritative, like 192.0.2.0/24.")
	set.StringVar(&b.addresses, "dhcp-range", "", "Addresses to give in mode authoritative, like 192.0.2.100-192.0.2.200.")
	set.StringVar(&b.router, "dhcp-router", "", "Router that goes with the addresses.")
	set.StringSliceVar(&b.dns, "dhcp-dns", nil, "DNS servers that go with the addresses.")
	set.DurationVar(&b.leaseTime, "dhcp-lease-time", time.Hour, "How long an address may be used without asking again.")
	set.StringVar(&b.loaderDir, "loader-dir", "/usr/lib/ipxe", "Folder with the boot loaders undionly.kpxe, snponly.efi and snponly-arm64.efi.")
	set.StringVar(&b.cacheDir, "artifact-dir", "/var/cache/capbm", "Folder for kernels and initrds. It may be emptied at any time.")
	set.Int64Var(&b.cacheGiB, "artifact-cache-gib", 20, "Size that the folder for kernels and initrds may have, in GiB.")
	set.StringSliceVar(&b.allow, "artifact-allow-network", nil,
		"Networks that kernels and initrds may come from although their addresses are loopback or link-local. For try-outs.")
}

func (o *options) has(component string) bool { return slices.Contains(o.components, component) }

// complete checks the flags, and names the one that is wrong.
func (o *options) complete() error {
	if o.podNamespace = os.Getenv("POD_NAMESPACE"); o.podNamespace == "" {
		o.podNamespace = "capbm-system"
	}
	for _, component := range o.components {
		if component != componentControllers && component != componentBoot {
			return fmt.Errorf("--components: %q is neither %s nor %s", component, componentControllers, componentBoot)
		}
	}
	if slices.Equal(o.bmcAllow, none) {
		o.bmcAllow = nil
	}
	for _, network := range o.bmcAllow {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return fmt.Errorf("--bmc-allow-network: %w", err)
		}
		o.bmcPermit = append(o.bmcPermit, prefix)
	}
	if !o.has(componentBoot) {
		return nil
	}
	return o.completeBoot()
}

func (o *options) completeBoot() error {
	o.bootFlags.normalize()
	b := o.bootFlags
	address, err := netip.ParseAddr(b.address)
	if err != nil || !address.Is4() {
		return fmt.Errorf("--boot-address: %q is not an IPv4 address: give the one that servers reach this process at, or leave boot out of --components", b.address)
	}
	at := func(port uint16) string {
		if port == 0 {
			return ""
		}
		if address.IsLoopback() {
			return netip.AddrPortFrom(address, port).String()
		}
		return fmt.Sprintf(":%d", port) // DHCP of servers without an address comes as a broadcast
	}
	config := dhcp.Config{
		Mode: dhcp.Mode(b.mode), Address: address, BaseURL: "http://" + netip.AddrPortFrom(address, b.httpPort).String(), LeaseTime: b.leaseTime,
	}
	switch config.Mode {
	case dhcp.Off, dhcp.Proxy:
	case dhcp.Authoritative:
		if err := o.completeAddresses(&config); err != nil {
			return err
		}
	default:
		return fmt.Errorf("--dhcp-mode: %q is none of off, proxy and authoritative", b.mode)
	}
	artifacts := artifact.Options{Dir: b.cacheDir, MaxBytes: b.cacheGiB << 30}
	for _, network := range b.allow {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return fmt.Errorf("--artifact-allow-network: %w", err)
		}
		artifacts.AllowNetworks = append(artifacts.AllowNetworks, prefix)
	}
	o.server = server.Config{
		DHCP: config, DHCPAddress: at(b.dhcpPort), ProxyAddress: at(b.proxyPort), TFTPAddress: at(b.tftpPort), HTTPAddress: at(b.httpPort),
		LoaderDir: b.loaderDir, Artifacts: artifacts,
	}
	return nil
}

// none stands for an empty list: clusterctl has no variables that default to nothing.
var none = []string{"none"}

// normalize empties the flags that are "none".
func (b *bootFlags) normalize() {
	for _, flag := range []*string{&b.network, &b.addresses, &b.router} {
		if *flag == "none" {
			*flag = ""
		}
	}
	if slices.Equal(b.dns, none) {
		b.dns = nil
	}
}

func (o *options) completeAddresses(config *dhcp.Config) error {
	b := o.bootFlags
	var err error
	if config.Network, err = netip.ParsePrefix(b.network); err != nil {
		return fmt.Errorf("--dhcp-network: %w", err)
	}
	first, last, _ := strings.Cut(b.addresses, "-")
	var firstErr, lastErr error
	o.rangeFirst, firstErr = netip.ParseAddr(first)
	o.rangeLast, lastErr = netip.ParseAddr(last)
	if err := errors.Join(firstErr, lastErr); err != nil {
		return fmt.Errorf("--dhcp-range: %q is not FIRST-LAST: %w", b.addresses, err)
	}
	if !config.Network.Contains(o.rangeFirst) || !config.Network.Contains(o.rangeLast) || o.rangeLast.Less(o.rangeFirst) {
		return fmt.Errorf("--dhcp-range: %s is not a range of --dhcp-network %s", b.addresses, b.network)
	}
	if b.router != "" {
		if config.Router, err = netip.ParseAddr(b.router); err != nil {
			return fmt.Errorf("--dhcp-router: %w", err)
		}
	}
	for _, server := range b.dns {
		parsed, err := netip.ParseAddr(server)
		if err != nil {
			return fmt.Errorf("--dhcp-dns: %w", err)
		}
		config.DNS = append(config.DNS, parsed)
	}
	return nil
}
