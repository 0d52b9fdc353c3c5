package pxe

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
)

// ScriptPath is where a server's script is.
func ScriptPath(mac net.HardwareAddr) string { return "/ipxe/" + dashed(mac) }

// GRUBPath is where GRUB finds the same script in its own words.
func GRUBPath(mac net.HardwareAddr) string { return grubFolder + dashed(mac) }

// GRUBFirst is where GRUB looks first, over TFTP and over HTTP: Debian's is built so. It does not say which server asks.
const GRUBFirst = grubFolder + "grub.cfg"

const grubFolder = "/grub/"

// LoaderPath is where a boot loader is for UEFI HTTP boot. Without a MAC address it is that which another DHCP server names, which
// cannot tell its clients apart.
func LoaderPath(mac net.HardwareAddr, file string) string {
	if len(mac) == 0 {
		return "/loader/" + file
	}
	return "/loader/" + dashed(mac) + "/" + file
}

// SeedPath is where a host's seed is. host is "namespace/name".
func SeedPath(host, token string) string { return "/seed/" + host + "/" + token }

// ReportPath is where a host reports in, with the outcome as the last part of the path.
func ReportPath(host, token string, outcome Outcome) string {
	return "/report/" + host + "/" + token + "/" + string(outcome)
}

func filePath(mac net.HardwareAddr, index int) string {
	return "/boot/" + dashed(mac) + "/" + strconv.Itoa(index)
}

func dashed(mac net.HardwareAddr) string { return strings.ReplaceAll(mac.String(), ":", "-") }

// Handler serves everything that goes over HTTP.
type Handler struct {
	Booter Booter
	// Artifacts holds the kernels and initrds.
	Artifacts *artifact.Cache
	// Loaders are the boot loaders.
	Loaders *loader.Set
	// BaseURL returns the URL, without a slash at its end, that a server finds this handler at which reached it at a local address.
	BaseURL func(local netip.Addr) string
	// SecureURL, where not nil, is the same over HTTPS. Bootstrap data and reports go this way only then.
	SecureURL func(local netip.Addr) string
	// BootSlots, where not nil, says who has to wait for others of its network before it gets its script.
	BootSlots *BootSlots
	// Network returns the name of the network of a server at an address that reached this handler at a local one. Turns need it.
	Network func(local, from netip.Addr) string
	// Patience is how long a client may keep a request waiting: with its body, or with taking the next part of an answer. Defaults to
	// a minute.
	Patience time.Duration
	Log      logr.Logger
}

// Mux returns the routes.
func (h *Handler) Mux() http.Handler {
	mux, guard := http.NewServeMux(), newGuard(h.Log)
	mux.HandleFunc("GET /ipxe/{mac}", guard.secret("script", withoutHead(func(w http.ResponseWriter, r *http.Request) { h.script(w, r, ipxeDialect{}) })))
	// GRUB asks for the size first, by a HEAD, which binds the script as its GET would.
	mux.HandleFunc("GET /grub/{mac}", guard.secret("script", func(w http.ResponseWriter, r *http.Request) { h.script(w, r, grubDialect{}) }))
	mux.HandleFunc("GET "+GRUBFirst, guard.open("loader", h.grubFirst))
	mux.HandleFunc("GET /boot/{mac}/{index}", guard.open("file", h.file))
	mux.HandleFunc("GET /loader/{mac}/{file}", guard.open("loader", h.loader))
	mux.HandleFunc("GET /loader/{file}", guard.open("loader", h.anyLoader))
	mux.HandleFunc("GET /seed/{namespace}/{name}/{token}/{file}", guard.secret("seed", withoutHead(h.overTLS(h.seed))))
	mux.HandleFunc("POST /report/{namespace}/{name}/{token}/{outcome}", guard.secret("report", h.overTLS(h.report)))
	mux.HandleFunc("/", guard.open("other", func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errNothing) }))
	return h.bound(mux)
}

// overTLS refuses over plain HTTP what goes over HTTPS.
func (h *Handler) overTLS(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.SecureURL != nil && r.TLS == nil {
			refuse(w, r, errPlain)
			return
		}
		next(w, r)
	}
}

// clientOf returns the address that a request came from, in one form for each: an IPv4 address is not mapped to IPv6, and a zone, which
// means something on one machine only, is left out. What headers say of other addresses is never looked at: anybody can write them.
func clientOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// base returns the URL under which the requester knows this handler.
func (h *Handler) base(r *http.Request) string {
	if r.TLS != nil && h.SecureURL != nil {
		return h.SecureURL(localOf(r))
	}
	return h.BaseURL(localOf(r))
}

// seedBase returns the URL under which the requester's system finds its bootstrap data.
func (h *Handler) seedBase(r *http.Request) string {
	if h.SecureURL != nil {
		return h.SecureURL(localOf(r))
	}
	return h.BaseURL(localOf(r))
}

// localOf returns the address of this machine that was asked.
func localOf(r *http.Request) netip.Addr {
	address, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return netip.Addr{}
	}
	local, err := netip.ParseAddrPort(address.String())
	if err != nil {
		return netip.Addr{}
	}
	return local.Addr().Unmap()
}

// macOf returns the MAC address in the path.
func macOf(r *http.Request) (net.HardwareAddr, error) {
	mac, err := net.ParseMAC(r.PathValue("mac"))
	if err != nil || len(mac) != 6 {
		return nil, fmt.Errorf("%w: no MAC address of an Ethernet interface", ErrRefused)
	}
	return mac, nil
}
