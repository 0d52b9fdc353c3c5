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
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/quota"
)

// Bounds on connections. One more than these is closed at once: a few hostile clients must not take the places of all servers. Many
// servers may be behind one address, a router's that translates them. An IPv6 client has all addresses of its /64, in which may be a rack: 64 servers
// have 32 connections each there, and one client a quarter of all.
const (
	mostConnections = 8192
	mostPerAddress  = 256
	mostPerPrefix   = 2048
)

// startHTTP serves over HTTP, and over HTTPS where that is asked for.
func (s *Server) startHTTP(ctx context.Context, group *errgroup.Group, handler *pxe.Handler) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Config.HTTPAddress)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	s.Log.Info("Listening", "protocol", "HTTP", "address", listener.Addr().String())
	mux, limits := handler.Mux(), newConnections(mostConnections, mostPerAddress, mostPerPrefix)
	serveHTTP(ctx, group, s.newHTTPServer(mux, limits), func(web *http.Server) error { return web.Serve(listener) })
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return s.startHTTPS(ctx, group, s.newHTTPServer(mux, limits))
}

// newHTTPServer returns a server that waits for nobody for long. How long an answer may take, the handler knows.
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
			return web.Close() // who still loads asks again elsewhere
		}
		return nil
	})
}

// connections bounds the connections, in all, from one address and from one IPv6 /64. It watches them from outside: a connection in a wrapper is no
// *net.TCPConn any more, and files would go through the memory of this process (no sendfile).
type connections struct {
	most int

	mu    sync.Mutex
	from  quota.Clients
	known map[net.Conn]netip.Addr
}

func newConnections(most, perAddress, perPrefix int) *connections {
	return &connections{most: most, from: quota.Clients{PerAddress: perAddress, PerPrefix: perPrefix}, known: map[net.Conn]netip.Addr{}}
}

// changed is an http.Server's ConnState.
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
		if len(c.known) >= c.most || !c.from.Enter(address) {
			_ = conn.Close() // the server finds it closed
			return
		}
		c.known[conn] = address
	case http.StateClosed, http.StateHijacked:
		if address, ok := c.known[conn]; ok {
			delete(c.known, conn)
			c.from.Leave(address)
		}
	case http.StateActive, http.StateIdle:
	}
}
