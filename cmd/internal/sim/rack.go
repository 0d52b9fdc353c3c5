package sim

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

const (
	protocolRedfish = "Redfish"
	protocolIPMI    = "IPMI"
)

// server is one emulated server.
type server struct {
	name, protocol, url, mac, uuid string
	machine                        *bmctest.Machine
}

// rack contains the emulated servers and their listeners.
type rack struct {
	opts    *options
	servers []*server
	byName  map[string]*server
	ca      []byte // PEM; empty without TLS

	web     *http.Server // for all Redfish servers
	control *http.Server
	sockets []net.PacketConn
	cancel  context.CancelFunc
	serving sync.WaitGroup
	broken  chan error // the error that ends the rack
}

func newRack(o *options, logs slog.Handler) *rack {
	log := slog.NewLogLogger(logs, slog.LevelWarn)
	return &rack{
		opts: o, byName: map[string]*server{}, broken: make(chan error, 1),
		// A connection costs more than a server, so idle ones are closed soon.
		web: &http.Server{
			Handler: http.HandlerFunc(serveRedfish), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, ErrorLog: log,
		},
		control: &http.Server{ReadHeaderTimeout: 10 * time.Second, ErrorLog: log},
	}
}

// start makes the servers, which listen until ctx ends or close is called.
func (r *rack) start(ctx context.Context) error {
	ctx, r.cancel = context.WithCancel(ctx)
	var config *tls.Config
	if r.opts.tlsCA != "" {
		var err error
		if config, r.ca, err = newTLS(r.opts.hostOf(r.opts.redfishFirst), r.opts.redfishFirst.Addr()); err != nil {
			return err
		}
		if err := os.WriteFile(r.opts.tlsCA, r.ca, 0o644); err != nil { //nolint:gosec // a certificate is public
			return fmt.Errorf("--tls-ca: %w", err)
		}
	}
	// Handlers get the context of their listener, and with it their server.
	r.web.BaseContext = func(l net.Listener) context.Context {
		if own, ok := l.(*listener); ok {
			return context.WithValue(ctx, machineKey{}, own.machine)
		}
		return ctx
	}
	for i := range r.opts.redfish {
		if err := r.addRedfish(ctx, i, config); err != nil {
			return err
		}
	}
	for i := range r.opts.ipmi {
		if err := r.addIPMI(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// close stops all servers, and waits until they have stopped.
func (r *rack) close() {
	if r.cancel != nil {
		r.cancel() // ends also requests that are never answered
	}
	_, _ = r.web.Close(), r.control.Close() // listeners that are closed twice
	for _, s := range r.sockets {
		_ = s.Close() // as above
	}
	r.serving.Wait()
	for _, s := range r.servers {
		s.machine.Close()
	}
}

// serve runs a server in the background. Its error ends the rack.
func (r *rack) serve(what string, serve func() error) {
	r.serving.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case r.broken <- fmt.Errorf("%s: %w", what, err):
			default: // the first error is enough
			}
		}
	})
}

// machineKey is the key of a connection's server in its context.
type machineKey struct{}

// listener is the listener of one Redfish server.
type listener struct {
	net.Listener

	machine *bmctest.Machine
}

func serveRedfish(w http.ResponseWriter, req *http.Request) {
	if machine, ok := req.Context().Value(machineKey{}).(*bmctest.Machine); ok {
		machine.ServeHTTP(w, req)
	}
	if req.Context().Err() != nil {
		panic(http.ErrAbortHandler) // a request that was not answered before the end must fail
	}
}

func (r *rack) addRedfish(ctx context.Context, i int, config *tls.Config) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", nth(r.opts.redfishFirst, i).String())
	if err != nil {
		return listenError("--listen", err)
	}
	at := l.Addr().(*net.TCPAddr).AddrPort() //nolint:forcetypeassert // of a TCP listener
	u := url.URL{Scheme: "redfish+http", Host: r.opts.hostPort(at)}
	if config != nil {
		u.Scheme, l = "redfish", tls.NewListener(l, config)
	}
	s := r.add(protocolRedfish, i, u)
	r.serve(s.name, func() error { return r.web.Serve(&listener{Listener: l, machine: s.machine}) })
	return nil
}

func (r *rack) addIPMI(ctx context.Context, i int) error {
	conn, err := (&net.ListenConfig{}).ListenPacket(ctx, "udp", nth(r.opts.ipmiFirst, i).String())
	if err != nil {
		return listenError("--ipmi-listen", err)
	}
	r.sockets = append(r.sockets, conn)
	at := conn.LocalAddr().(*net.UDPAddr).AddrPort() //nolint:forcetypeassert // of a UDP socket
	s := r.add(protocolIPMI, i, url.URL{Scheme: "ipmi", Host: r.opts.hostPort(at)})
	r.serve(s.name, func() error { return s.machine.ServeIPMI(conn) }) //nolint:contextcheck // it ends with its socket
	return nil
}

// add makes a server. Its properties are derived from its name, so they are the same after a restart.
func (r *rack) add(protocol string, i int, u url.URL) *server {
	kind := map[string]string{protocolRedfish: "redfish", protocolIPMI: "ipmi"}[protocol]
	family := sha256.Sum256([]byte(r.opts.prefix + "-" + kind))
	n := i + 1
	s := &server{name: fmt.Sprintf("%s-%s-%d", r.opts.prefix, kind, n), protocol: protocol, url: u.String()}
	// A unicast address of local administration (IEEE 802, 8.2).
	s.mac = fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", family[0]&^3|2, family[1], family[2], n>>16&0xff, n>>8&0xff, n&0xff)
	id := sha256.Sum256([]byte(s.name))
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // the format of a random one (RFC 9562, version 4), whose byte order IPMI clients can detect
	s.uuid = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16])
	s.machine = bmctest.NewMachine(bmctest.Options{
		Name: s.name, MAC: s.mac, UUID: s.uuid, Username: r.opts.username, Password: r.opts.password,
		PowerDelay: r.opts.powerDelay, On: r.opts.on, Run: s.boots(r.opts.bootDelay),
	})
	for fault, times := range r.opts.faults {
		if !s.has(fault) {
			continue
		}
		_ = s.machine.Misbehave(fault, times) // the flag was checked
	}
	r.servers = append(r.servers, s)
	r.byName[s.name] = s
	return s
}

// boots simulates firmware that reads the start of the image in the virtual drive if it boots from it, and an operating system that accepts shutdown
// requests after the boot delay.
func (s *server) boots(after time.Duration) func(context.Context, bmc.BootTarget, func()) {
	return func(ctx context.Context, target bmc.BootTarget, booted func()) {
		timer := time.NewTimer(after)
		defer timer.Stop()
		if image := s.machine.Image(); target == bmc.BootCD && image != "" {
			readImage(ctx, image)
		}
		select {
		case <-timer.C:
			booted()
		case <-ctx.Done():
		}
	}
}

// readImage reads the start of an image: the system area and the first volume descriptors (ECMA-119, 6.2.1). An image that cannot be read boots nothing, like
// that of a real server.
func readImage(ctx context.Context, image string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, image, http.NoBody)
	if err != nil {
		return
	}
	request.Header.Set("Range", "bytes=0-65535")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.CopyN(io.Discard, response.Body, 64<<10)
}

// nth is the address of the nth server. Port 0 is any free port.
func nth(first netip.AddrPort, n int) netip.AddrPort {
	if first.Port() == 0 {
		return first
	}
	return netip.AddrPortFrom(first.Addr(), first.Port()+uint16(n)) //nolint:gosec // addressOf has checked the range
}

// hostOf is the host in the URLs of servers.
func (o *options) hostOf(at netip.AddrPort) string {
	if o.advertise != "" {
		return o.advertise
	}
	return at.Addr().Unmap().String()
}

func (o *options) hostPort(at netip.AddrPort) string {
	return net.JoinHostPort(o.hostOf(at), strconv.Itoa(int(at.Port())))
}

// listenError adds the remedy.
func listenError(flag string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: use another port with %s", err, flag)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this machine does not have the address: use one of its addresses with %s", err, flag)
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return fmt.Errorf("%w: each server needs one: raise the limit with ulimit -n, or simulate fewer servers", err)
	default:
		return fmt.Errorf("%s: %w", flag, err)
	}
}
