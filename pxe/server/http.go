package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/quota"
)

// Bounds on connections. The server closes a connection above them at once: a few hostile clients must not use up the connections of all servers. Many
// servers may be behind one address, that of a router that translates addresses. An IPv6 client can use all addresses of its /64, which may also have a rack: 64
// servers then have 32 connections each, and one client has at most a quarter of all.
const (
	maxConnections = 8192
	maxPerAddress  = 256
	maxPerPrefix   = 2048
)

// startHTTP serves HTTP, and HTTPS if it is configured.
func (s *Server) startHTTP(ctx context.Context, group *errgroup.Group, handler *pxe.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Config.HTTPAddress)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	s.Log.Info("Listening", "protocol", "HTTP", "address", listener.Addr().String())
	mux, limits := handler.Mux(), newConnections(maxConnections, maxPerAddress, maxPerPrefix)
	serveHTTP(ctx, group, s.newHTTPServer(mux, limits), func(web *http.Server) error { return web.Serve(listener) })
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return s.startHTTPS(ctx, group, s.newHTTPServer(mux, limits))
}

// newHTTPServer returns a server with timeouts for requests. The handler bounds the time of an answer.
func (s *Server) newHTTPServer(handler http.Handler, limits *connections) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: limits.changed, DisableGeneralOptionsHandler: true,
		ErrorLog: slog.NewLogLogger(logr.ToSlogHandler(s.Log.WithName("http")), slog.LevelInfo),
	}
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, group *errgroup.Group, web *http.Server, serve func(*http.Server) error) {
	group.Go(func() error {
		if err := serve(web); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := web.Shutdown(grace); err != nil {
			return web.Close() // clients that still load files ask another boot server
		}
		return nil
	})
}

// connections bounds the connections in all, from one address and from one IPv6 /64. It observes them through ConnState: a wrapped connection is not a
// *net.TCPConn, and files would go through the memory of this process (no sendfile).
type connections struct {
	max int

	mu        sync.Mutex
	clients   quota.Clients
	addresses map[net.Conn]netip.Addr
}

func newConnections(total, perAddress, perPrefix int) *connections {
	return &connections{max: total, clients: quota.Clients{PerAddress: perAddress, PerPrefix: perPrefix}, addresses: map[net.Conn]netip.Addr{}}
}

// changed is the ConnState function of an http.Server.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil {
			return
		}
		address := remote.Addr().Unmap().WithZone("")
		if len(c.addresses) >= c.max || !c.clients.Enter(address) {
			_ = conn.Close() // the server notices it
			return
		}
		c.addresses[conn] = address
	case http.StateClosed, http.StateHijacked:
		if address, ok := c.addresses[conn]; ok {
			delete(c.addresses, conn)
			c.clients.Leave(address)
		}
	case http.StateActive, http.StateIdle:
	}
}
