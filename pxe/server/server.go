// Package server wires the listeners of the boot server: DHCP, TFTP and HTTP.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/tftp"
)

// Config says where the boot server listens and what it serves.
type Config struct {
	// DHCP is the mode of DHCP and what its answers are made of. Its BaseURL is that of HTTP.
	DHCP dhcp.Config
	// DHCPAddress and ProxyAddress are where DHCP is listened for: port 67, and port 4011 for PXE clients that ask a proxy once
	// more. Neither is used in the mode off, and ProxyAddress only in the mode proxy.
	DHCPAddress, ProxyAddress string
	// TFTPAddress is where boot loaders are served: port 69. Empty serves none.
	TFTPAddress string
	// HTTPAddress is where everything else is served.
	HTTPAddress string
	// LoaderDir is the folder with the boot loaders.
	LoaderDir string
	// Artifacts bound the cache of kernels and initrds.
	Artifacts artifact.Options
}

// Server is the boot server. It needs no leader: any number may run.
type Server struct {
	Config Config
	Booter pxe.Booter
	Log    logr.Logger
}

// NeedLeaderElection is false: boot servers answer from what they see, and write with optimistic locks.
func (s *Server) NeedLeaderElection() bool { return false }

// Start serves until ctx ends, or until a listener fails.
func (s *Server) Start(ctx context.Context) error {
	cache, err := artifact.New(s.Config.Artifacts)
	if err != nil {
		return fmt.Errorf("open the cache of boot files: %w", err)
	}
	defer cache.Close()
	group, ctx := errgroup.WithContext(ctx)
	if err := s.start(ctx, group, cache); err != nil {
		return errors.Join(err, s.stop(group))
	}
	return group.Wait()
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

func (s *Server) start(ctx context.Context, group *errgroup.Group, cache *artifact.Cache) error {
	listen := func(name, address string, serve func(context.Context, net.PacketConn) error) error {
		conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp4", address)
		if err != nil {
			return fmt.Errorf("listen for %s: %w", name, err)
		}
		s.Log.Info("Listening", "protocol", name, "address", conn.LocalAddr().String())
		group.Go(func() error { return serve(ctx, conn) })
		return nil
	}
	answers := &dhcp.Server{Config: s.Config.DHCP, Booter: s.Booter, Log: s.Log.WithName("dhcp")}
	if s.Config.DHCP.Mode != dhcp.Off {
		if err := listen("DHCP", s.Config.DHCPAddress, answers.Serve); err != nil {
			return err
		}
	}
	if s.Config.DHCP.Mode == dhcp.Proxy && s.Config.ProxyAddress != "" {
		if err := listen("proxy DHCP", s.Config.ProxyAddress, answers.Serve); err != nil {
			return err
		}
	}
	if s.Config.TFTPAddress != "" {
		loaders := &tftp.Server{Dir: s.Config.LoaderDir, Fetched: func(mac net.HardwareAddr, from netip.Addr, file string) {
			s.Booter.Saw(mac, pxe.StageLoader, from, "TFTP "+file)
		}}
		if err := listen("TFTP", s.Config.TFTPAddress, loaders.Serve); err != nil {
			return err
		}
	}
	return s.startHTTP(ctx, group, cache)
}

func (s *Server) startHTTP(ctx context.Context, group *errgroup.Group, cache *artifact.Cache) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Config.HTTPAddress)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	s.Log.Info("Listening", "protocol", "HTTP", "address", listener.Addr().String())
	handler := &pxe.Handler{
		Booter: s.Booter, Artifacts: cache, LoaderDir: s.Config.LoaderDir, BaseURL: s.Config.DHCP.BaseURL, Log: s.Log.WithName("http"),
	}
	web := &http.Server{
		Handler: handler.Mux(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		// Kernels and initrds of some GiB cross slow networks.
		WriteTimeout: time.Hour,
	}
	group.Go(func() error {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := web.Shutdown(grace); err != nil {
			return web.Close() // who still loads asks again elsewhere
		}
		return nil
	})
	return nil
}
