package pxe

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// ScriptPath is where a server's script is.
func ScriptPath(mac net.HardwareAddr) string { return "/ipxe/" + dashed(mac) }

// LoaderPath is where a boot loader is for UEFI HTTP boot.
func LoaderPath(mac net.HardwareAddr, file string) string {
	return "/loader/" + dashed(mac) + "/" + file
}

// SeedPath is where a host's seed is. host is "namespace/name".
func SeedPath(host, token string) string { return "/seed/" + host + "/" + token }

// ReportPath is where a host reports in.
func ReportPath(host, token string) string { return "/report/" + host + "/" + token }

func filePath(mac net.HardwareAddr, index int) string {
	return "/boot/" + dashed(mac) + "/" + strconv.Itoa(index)
}

func dashed(mac net.HardwareAddr) string { return strings.ReplaceAll(mac.String(), ":", "-") }

// Handler serves everything that goes over HTTP.
type Handler struct {
	Booter Booter
	// Artifacts holds the kernels and initrds.
	Artifacts *artifact.Cache
	// LoaderDir is the folder with the boot loaders.
	LoaderDir string
	// BaseURL is the URL that servers reach this handler at, without a slash at its end.
	BaseURL string
	Log     logr.Logger
}

// Mux returns the routes.
func (h *Handler) Mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ipxe/{mac}", h.script)
	mux.HandleFunc("GET /boot/{mac}/{index}", h.file)
	mux.HandleFunc("GET /loader/{mac}/{file}", h.loader)
	mux.HandleFunc("GET /seed/{namespace}/{name}/{token}/{file}", h.seed)
	mux.HandleFunc("POST /report/{namespace}/{name}/{token}", h.report)
	return http.MaxBytesHandler(mux, 64<<10)
}

func clientOf(r *http.Request) netip.Addr {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap()
}

// refuse ends a request with an error. The requester learns no more than that he is refused.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	// The path may hold a token: only its first part is logged.
	kind, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	log := h.Log.WithValues("client", clientOf(r), "request", kind)
	if errors.Is(err, ErrRefused) {
		log.Info("Refused", "why", err.Error())
		http.Error(w, "refused", http.StatusForbidden)
		return
	}
	log.Error(err, "Answer HTTP")
	http.Error(w, "not now", http.StatusServiceUnavailable)
}

func macOf(w http.ResponseWriter, r *http.Request) (net.HardwareAddr, bool) {
	mac, err := net.ParseMAC(r.PathValue("mac"))
	if err != nil || len(mac) != 6 {
		http.NotFound(w, r)
		return nil, false
	}
	return mac, true
}

// script serves what iPXE asks for: boot the network, boot the disk, or ask again.
func (h *Handler) script(w http.ResponseWriter, r *http.Request) {
	mac, ok := macOf(w, r)
	if !ok {
		return
	}
	content, err := h.makeScript(r.Context(), mac, clientOf(r))
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(content)
}

func (h *Handler) makeScript(ctx context.Context, mac net.HardwareAddr, from netip.Addr) ([]byte, error) {
	answer, err := h.Booter.Lookup(ctx, mac)
	switch {
	case err != nil:
		return nil, err
	case answer.Boot == Disk:
		return ipxe.Disk(mac.String(), answer.Legacy)
	case answer.Boot != Network:
		return nil, errors.Join(ErrRefused, errors.New("there is nothing to boot for "+mac.String()))
	}
	// The script is given out when all that it names is here, so that no boot breaks off halfway.
	if err := h.prepare(answer.Files); errors.Is(err, artifact.ErrNotYet) { //nolint:contextcheck // the fetch outlives the request
		return ipxe.Again("The boot files are being fetched", 1, h.BaseURL+ScriptPath(mac))
	} else if err != nil {
		h.Booter.Failed(mac, err)
		return ipxe.Again("The boot files cannot be had: "+err.Error(), 5, h.BaseURL+ScriptPath(mac))
	}
	script, err := h.Booter.Script(ctx, mac, from)
	if err != nil {
		return nil, err
	}
	urls := make([]string, len(script.Files))
	for i := range script.Files {
		urls[i] = h.BaseURL + filePath(mac, i)
	}
	return ipxe.Network(ipxe.Script{
		Title: script.Title, Kernel: urls[0], Initrds: urls[1:], Self: h.BaseURL + ScriptPath(mac),
		CommandLine: strings.TrimSpace(script.CommandLine + " " + seed.CommandLine(h.BaseURL+script.SeedPath)),
	})
}

// prepare is nil when all files are in the cache.
func (h *Handler) prepare(files []artifact.Artifact) error {
	var waiting error
	for _, a := range files {
		file, err := h.Artifacts.Open(a)
		switch {
		case errors.Is(err, artifact.ErrNotYet):
			waiting = err
		case err != nil:
			return err
		default:
			_ = file.Close()
		}
	}
	return waiting
}

// file serves a kernel or an initrd of what the server boots now.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	mac, ok := macOf(w, r)
	if !ok {
		return
	}
	answer, err := h.Booter.Lookup(r.Context(), mac)
	index, numErr := strconv.Atoi(r.PathValue("index"))
	if err != nil || numErr != nil || answer.Boot != Network || index < 0 || index >= len(answer.Files) {
		h.refuse(w, r, errors.Join(ErrRefused, err, numErr))
		return
	}
	file, err := h.Artifacts.Open(answer.Files[index]) //nolint:contextcheck // the fetch outlives the request
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	defer func() { _ = file.Close() }()
	if index == 0 && r.Method == http.MethodGet {
		h.Booter.Saw(mac, StageKernel, clientOf(r), r.UserAgent())
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, file)
}

// loader serves a boot loader to UEFI HTTP boot.
func (h *Handler) loader(w http.ResponseWriter, r *http.Request) {
	mac, ok := macOf(w, r)
	if !ok {
		return
	}
	if r.Method == http.MethodGet {
		h.Booter.Saw(mac, StageLoader, clientOf(r), r.UserAgent())
	}
	http.ServeFile(w, r, path.Join(h.LoaderDir, path.Base(r.PathValue("file"))))
}

func (h *Handler) seed(w http.ResponseWriter, r *http.Request) {
	data, err := h.Booter.Seed(r.Context(), hostOf(r), r.PathValue("token"), clientOf(r))
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	content, ok, err := seed.File(data, r.PathValue("file"), h.BaseURL)
	switch {
	case err != nil:
		h.refuse(w, r, err)
	case !ok:
		http.NotFound(w, r)
	default:
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write(content)
	}
}

func (h *Handler) report(w http.ResponseWriter, r *http.Request) {
	// What the system says is of no use; that it says it is.
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err := h.Booter.Report(r.Context(), hostOf(r), r.PathValue("token"), clientOf(r)); err != nil {
		h.refuse(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func hostOf(r *http.Request) string { return r.PathValue("namespace") + "/" + r.PathValue("name") }
