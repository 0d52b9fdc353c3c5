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

// ScriptPath is the path of a server's script.
func ScriptPath(mac net.HardwareAddr) string { return "/ipxe/" + withDashes(mac) }

// GRUBPath is the path of the same script for GRUB.
func GRUBPath(mac net.HardwareAddr) string { return grubFolder + withDashes(mac) }

// GRUBFirst is the file that Debian's GRUB fetches first, over TFTP and over HTTP. The request does not identify the server.
const GRUBFirst = grubFolder + "grub.cfg"

const grubFolder = "/grub/"

// LoaderPath is the path of a boot loader for UEFI HTTP boot. The path without a MAC address is for another DHCP server, which cannot put a MAC address into
// a URL.
func LoaderPath(mac net.HardwareAddr, file string) string {
	if len(mac) == 0 {
		return "/loader/" + file
	}
	return "/loader/" + withDashes(mac) + "/" + file
}

// SeedPath is the path of a host's seed. host is "namespace/name".
func SeedPath(host, token string) string { return "/seed/" + host + "/" + token }

// ReportPath is the path at which a host reports, with the outcome as its last part.
func ReportPath(host, token string, outcome Outcome) string {
	return "/report/" + host + "/" + token + "/" + string(outcome)
}

// MediaPath is the path of the boot medium of a host. host is "namespace/name". Some BMCs accept no URL with a query, or whose path does not end in .iso.
func MediaPath(host, token string) string { return "/media/" + host + "/" + token + "/boot.iso" }

func filePath(mac net.HardwareAddr, index int) string {
	return "/boot/" + withDashes(mac) + "/" + strconv.Itoa(index)
}

func withDashes(mac net.HardwareAddr) string { return strings.ReplaceAll(mac.String(), ":", "-") }

// Handler serves everything over HTTP.
type Handler struct {
	Booter Booter
	// Artifacts caches the kernels and initrds.
	Artifacts *artifact.Cache
	// Agents answers the agents. Nil answers none.
	Agents Agents
	// AgentFiles are the kernels and ramdisks of the agent. Agents needs them.
	AgentFiles *AgentFiles
	// Media answers for the boot media. Nil serves none.
	Media Media
	// MediaClients are the networks whose clients may fetch boot media. Without any, all may.
	MediaClients []netip.Prefix
	// MediaURL returns the URL of this handler for the operating system on a boot medium that was fetched from a local address, given the addresses that the
	// system is configured with. Nil is BaseURL of the local address.
	MediaURL func(local netip.Addr, configured []netip.Addr) string
	// Pins returns the digests of the public keys of SecureURL, as pxe/agent describes them. Nil without HTTPS.
	Pins func() ([]string, error)
	// Loaders are the boot loaders.
	Loaders *loader.Set
	// BaseURL returns the URL of this handler, without a slash at its end, for a server that reached it at a local address.
	BaseURL func(local netip.Addr) string
	// SecureURL, if not nil, is the same over HTTPS. Bootstrap data and reports then use HTTPS only.
	SecureURL func(local netip.Addr) string
	// BootSlots, if not nil, limits how many servers of a network load their boot files at once.
	BootSlots *BootSlots
	// Network returns the name of the network of a server at the address from that reached this handler at the address local. BootSlots needs it.
	Network func(local, from netip.Addr) string
	// ClientTimeout is the timeout for a client that sends a request body, or that receives the next part of an answer. Defaults to a minute.
	ClientTimeout time.Duration
	Log           logr.Logger
}

// Mux returns the routes.
func (h *Handler) Mux() http.Handler {
	mux, guard, data := http.NewServeMux(), newGuard(h.Log), newAnswerSlots(maxDataAnswers, maxDataAnswersPerNamespace)
	mux.HandleFunc("GET /ipxe/{mac}", guard.secret("script", withoutHead(func(w http.ResponseWriter, r *http.Request) { h.script(w, r, ipxeDialect{}) })))
	// GRUB asks for the size first, by a HEAD, which binds the script as its GET does.
	mux.HandleFunc("GET /grub/{mac}", guard.secret("script", func(w http.ResponseWriter, r *http.Request) { h.script(w, r, grubDialect{}) }))
	mux.HandleFunc("GET "+GRUBFirst, guard.open("loader", h.grubFirst))
	mux.HandleFunc("GET /boot/{mac}/{index}", guard.open("file", h.file))
	mux.HandleFunc("GET /loader/{mac}/{file}", guard.open("loader", h.loader))
	mux.HandleFunc("GET /loader/{file}", guard.open("loader", h.anyLoader))
	mux.HandleFunc("GET /seed/{namespace}/{name}/{token}/{file}", guard.secret("seed", withoutHead(h.requireTLS(h.seed(data)))))
	mux.HandleFunc("POST /report/{namespace}/{name}/{token}/{outcome}", guard.secret("report", h.requireTLS(h.report)))
	if h.Agents != nil {
		h.agentRoutes(mux, guard, data)
	}
	if h.Media != nil {
		mux.HandleFunc("GET "+MediaPath("{namespace}/{name}", "{token}"), guard.secret("media", newMediaServer(h).serve))
	}
	mux.HandleFunc("/", guard.open("other", func(w http.ResponseWriter, r *http.Request) { refuse(w, r, errNotFound) }))
	return h.withBounds(mux)
}

// requireTLS refuses plain HTTP if there is HTTPS.
func (h *Handler) requireTLS(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if h.SecureURL != nil && r.TLS == nil {
			refuse(w, r, errHTTPSRequired)
			return
		}
		next(w, r)
	}
}

// clientOf returns the source address of a request in a canonical form: an IPv4 address is not mapped to IPv6, and a zone, which has a meaning on one machine
// only, is left out. Headers with other addresses are ignored: any client can write them.
func clientOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}

// base returns the URL of this handler for the client.
func (h *Handler) base(r *http.Request) string {
	if r.TLS != nil && h.SecureURL != nil {
		return h.SecureURL(localOf(r))
	}
	return h.BaseURL(localOf(r))
}

// seedBase returns the URL at which the client's operating system finds its bootstrap data.
func (h *Handler) seedBase(r *http.Request) string {
	if h.SecureURL != nil {
		return h.SecureURL(localOf(r))
	}
	return h.BaseURL(localOf(r))
}

// localOf returns the address of this machine that received the request.
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
