// Package server wires the listeners of the boot server: DHCP, DHCPv6, TFTP and HTTP.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp6"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/tftp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
)

// Config is where the boot server listens and what it serves.
type Config struct {
	// Networks are those whose servers boot. There is at least one.
	Networks []bootconfig.Network
	// DHCPAddress and ProxyAddress are the addresses for DHCP: port 67, and port 4011 for PXE clients that ask a proxy a second time. Neither is used if the
	// mode of every network is off. With an empty ProxyAddress the server does not listen for proxy requests.
	DHCPAddress, ProxyAddress string
	// DHCP6Address and DHCP6ProxyAddress are the same for DHCPv6, with port 547 instead of 67.
	DHCP6Address, DHCP6ProxyAddress string
	// TFTPAddress is the address for boot loaders: port 69. Empty serves none.
	TFTPAddress string
	// HTTPAddress is the address for everything else.
	HTTPAddress string
	// HTTPSAddress, if not empty, serves everything over TLS too. Bootstrap data and reports then use HTTPS only. CertFile and KeyFile have the certificate,
	// and are read again when they change. HTTPSBaseURL is where servers find it, without a slash at its end. The certificate must be valid for its name.
	HTTPSAddress, CertFile, KeyFile, HTTPSBaseURL string
	// NextCertFile is the certificate that will replace that in CertFile. Agents trust both keys. The file may be missing.
	NextCertFile string
	// LoaderDirs are the folders with the boot loaders, each with its manifest. A loader in a later folder replaces the one of the same name in an earlier
	// folder.
	LoaderDirs []string
	Agent      bootconfig.Agent
	// MediaClients are the networks whose clients may fetch boot media. Without any, all may.
	MediaClients []netip.Prefix
	// Artifacts configures the cache of kernels and initrds.
	Artifacts artifact.Options
}

// FromFile converts a configuration file. Listeners use all addresses, because DHCP requests of servers without an address are broadcasts. If the networks have
// only one address and it is a loopback address, as in a test setup, listeners use that one.
func FromFile(c bootconfig.Config) Config {
	host := ""
	if first := c.Networks[0].Address; first.IsLoopback() &&
		!slices.ContainsFunc(c.Networks, func(n bootconfig.Network) bool { return n.Address != first }) {
		host = first.String()
	}
	at := func(port uint16) string {
		if port == 0 {
			return ""
		}
		return net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	config := Config{
		Networks: c.Networks, DHCPAddress: at(c.DHCPPort), ProxyAddress: at(c.DHCPProxyPort), TFTPAddress: at(c.TFTPPort), HTTPAddress: at(c.HTTP.Port),
		DHCP6Address: at(c.DHCPPort6), DHCP6ProxyAddress: at(c.DHCPProxyPort),
		LoaderDirs: c.Loaders, Agent: c.Agent, MediaClients: c.MediaClients,
		Artifacts: artifact.Options{Dir: c.Artifacts.Dir, MaxBytes: c.Artifacts.MaxBytes, Outbound: c.Artifacts.Outbound},
	}
	if tls := c.HTTP.TLS; tls != nil {
		config.HTTPSAddress, config.CertFile, config.KeyFile, config.HTTPSBaseURL = at(tls.Port), tls.CertFile, tls.KeyFile, tls.URL
		config.NextCertFile = tls.NextCertFile
	}
	return config
}

// Server is the boot server. It needs no leader election: several may run.
type Server struct {
	Config Config
	Booter pxe.Booter
	// Agents answers the agents. Nil answers none.
	Agents pxe.Agents
	// Media answers for the boot media. Nil serves none.
	Media pxe.Media
	Log   logr.Logger
	// DHCPMetrics and DHCP6Metrics count requests by their result. Nil counts nothing.
	DHCPMetrics  *dhcp.Metrics
	DHCP6Metrics *dhcp6.Metrics
	// BootSlots limits how many servers of a network boot at once: see NewBootSlots. Nil sets no limit.
	BootSlots *pxe.BootSlots

	problem atomic.Pointer[error] // why it is not ready; nil before it started

	mu    sync.RWMutex
	cache *artifact.Cache // nil while it does not run
}

// NeedLeaderElection is false: boot servers answer from their caches, and write with optimistic locks.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends, or until a listener fails.
func (s *Server) Start(ctx context.Context) error {
	options := s.Config.Artifacts
	options.Log = s.Log.WithName("artifacts")
	cache, err := artifact.New(options)
	if err != nil {
		return fmt.Errorf("open the cache of boot files: %w", err)
	}
	defer cache.Close()
	s.setCache(cache)
	defer s.setCache(nil) // before it is closed
	loaders, problem := loader.Load(s.Config.LoaderDirs...)
	if problem != nil {
		// The other loaders are served: a fleet that does not need the missing one keeps booting.
		s.Log.Error(problem, "Some boot loaders are not served")
	}
	for _, file := range loaders.All() {
		s.Log.Info("Serving a boot loader", "name", file.Name, "folder", file.Dir, "source", file.Source, "sha256", file.SHA256)
	}
	group, ctx := errgroup.WithContext(ctx)
	if err := s.start(ctx, group, cache, loaders); err != nil {
		return errors.Join(err, s.stop(group))
	}
	s.problem.Store(&problem)
	return group.Wait()
}

// Prefetch begins to fetch a kernel or an initrd for a namespace, and does not wait: until the file is here, the error is artifact.ErrNotYet.
func (s *Server) Prefetch(namespace string, file artifact.Artifact) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.cache == nil {
		return artifact.ErrNotYet
	}
	opened, err := s.cache.Open(namespace, file)
	if err != nil {
		return err
	}
	return opened.Close()
}

func (s *Server) setCache(cache *artifact.Cache) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cache = cache
}

// Ready returns nil if all listeners run and every boot loader matches its manifest. It is a check of /readyz.
func (s *Server) Ready(*http.Request) error {
	if problem := s.problem.Load(); problem != nil {
		return *problem
	}
	return errors.New("the boot server does not listen yet")
}

var errStopped = errors.New("stopped")

// stop ends the listeners that were started.
func (s *Server) stop(group *errgroup.Group) error {
	group.Go(func() error { return errStopped })
	if err := group.Wait(); !errors.Is(err, errStopped) {
		return err
	}
	return nil
}

func (s *Server) start(ctx context.Context, group *errgroup.Group, cache *artifact.Cache, loaders *loader.Set) error {
	listen := func(name, network, address string, serve func(context.Context, net.PacketConn) error) error {
		conn, err := (&net.ListenConfig{}).ListenPacket(ctx, network, address)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", name, err)
		}
		s.Log.Info("Listening", "protocol", name, "address", conn.LocalAddr().String())
		group.Go(func() error { return serve(ctx, conn) })
		return nil
	}
	answers := &dhcp.Server{Networks: s.Config.Networks, Booter: s.Booter, Log: s.Log.WithName("dhcp"), Metrics: s.DHCPMetrics}
	if slices.ContainsFunc(s.Config.Networks, func(n bootconfig.Network) bool { return n.Address.Is4() && n.Mode != bootconfig.Off }) {
		if err := listen("DHCP", "udp4", s.Config.DHCPAddress, answers.Serve); err != nil {
			return err
		}
		if s.Config.ProxyAddress != "" {
			if err := listen("proxy DHCP", "udp4", s.Config.ProxyAddress, answers.ServeProxy); err != nil {
				return err
			}
		}
	}
	if err := s.startDHCP6(listen); err != nil {
		return err
	}
	if s.Config.TFTPAddress != "" {
		// Without an address the socket receives IPv4 and IPv6.
		if err := listen("TFTP", "udp", s.Config.TFTPAddress, s.tftp(loaders).Serve); err != nil {
			return err
		}
	}
	return s.startHTTP(ctx, group, &pxe.Handler{
		Booter: s.Booter, Artifacts: cache, Loaders: loaders, Log: s.Log.WithName("http"), BaseURL: s.baseURL, SecureURL: s.secureURL(),
		BootSlots: s.BootSlots, Network: s.networkOf, Agents: s.Agents, AgentFiles: &pxe.AgentFiles{Dir: s.Config.Agent.Dir, CommandLine: s.Config.Agent.CommandLine}, Pins: s.pins(),
		Media: s.Media, MediaClients: s.Config.MediaClients, MediaURL: s.mediumURL,
	})
}

// baseURL returns the HTTP URL for a server that reached the boot server at a local address.
func (s *Server) baseURL(local netip.Addr) string {
	return bootconfig.BaseURL(s.Config.Networks, local)
}

// mediumURL returns the HTTP URL for the operating system on a boot medium.
func (s *Server) mediumURL(local netip.Addr, configured []netip.Addr) string {
	return bootconfig.MediumURL(s.Config.Networks, local, configured)
}

// networkOf returns the name of the network of a server at the address from that reached the boot server at the address local.
func (s *Server) networkOf(local, from netip.Addr) string {
	return bootconfig.NetworkOf(s.Config.Networks, local, from).Name
}

// NewBootSlots returns turns that let as many servers of each network boot at once as its MaxBoots says.
func NewBootSlots(networks []bootconfig.Network, booter pxe.Booter) *pxe.BootSlots {
	most := map[string]int{}
	for _, n := range networks {
		most[n.Name] = n.MaxBoots
	}
	return pxe.NewBootSlots(most, booter)
}

// tftp serves the boot loaders, and GRUB's first file.
func (s *Server) tftp(loaders *loader.Set) *tftp.Server {
	return &tftp.Server{
		Log: s.Log.WithName("tftp"),
		Open: func(name string, local netip.Addr) ([]byte, bool) {
			if "/"+name == pxe.GRUBFirst {
				content, err := pxe.GRUBConfig(s.baseURL(local))
				return content, err == nil
			}
			if file := loaders.Get(name); file != nil {
				return file.Content, true
			}
			return nil, false
		},
		Fetched: func(mac net.HardwareAddr, from netip.Addr, file string) {
			s.Booter.ObserveStage(mac, pxe.StageLoader, from, "TFTP "+file)
		},
	}
}
