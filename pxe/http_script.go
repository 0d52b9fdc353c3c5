package pxe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/grub"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

// dialect renders scripts for one kind of boot loader.
type dialect interface {
	// path is the path of the script.
	path(mac net.HardwareAddr) string
	// network renders a script that boots the kernel of the values, or the user's template.
	network(v ipxe.Values, template string) ([]byte, error)
	// disk renders a script that boots the installed system.
	disk(mac net.HardwareAddr, legacy bool) ([]byte, error)
	// again renders a script that asks again at url after some seconds.
	again(why string, seconds int, url string) ([]byte, error)
	// agentKernel is the index of the agent's kernel, as the boot loader can load it.
	agentKernel() int
}

type ipxeDialect struct{}

func (ipxeDialect) path(mac net.HardwareAddr) string { return ScriptPath(mac) }

func (ipxeDialect) network(v ipxe.Values, template string) ([]byte, error) {
	if template != "" {
		return ipxe.Template(template, v)
	}
	return ipxe.Network(v)
}

func (ipxeDialect) disk(mac net.HardwareAddr, legacy bool) ([]byte, error) {
	return ipxe.Disk(mac.String(), legacy)
}

func (ipxeDialect) again(why string, seconds int, url string) ([]byte, error) {
	return ipxe.Again(why, seconds, url)
}

// iPXE for arm64 decompresses it: its option IMAGE_GZIP is on there since February 2022.
func (ipxeDialect) agentKernel() int { return agentKernel }

type grubDialect struct{}

func (grubDialect) path(mac net.HardwareAddr) string { return GRUBPath(mac) }

func (grubDialect) network(v ipxe.Values, template string) ([]byte, error) {
	if template != "" {
		return nil, errors.New("a server with Secure Boot runs GRUB, which cannot run an iPXE script: " +
			"give boot.kernel and boot.commandLine instead of boot.ipxeTemplate, or claim a host whose spec.bootMode is not UEFISecureBoot")
	}
	return padded(grub.Network(v))
}

func (grubDialect) disk(mac net.HardwareAddr, _ bool) ([]byte, error) {
	return padded(grub.Disk(mac.String()))
}

func (grubDialect) again(why string, seconds int, _ string) ([]byte, error) {
	return padded(grub.Again(why, seconds))
}

// With Secure Boot GRUB verifies what it receives before it decompresses it.
func (grubDialect) agentKernel() int { return agentKernelUnzipped }

// grubSize divides the sizes of GRUB's scripts.
const grubSize = 8 << 10

// padded gives all scripts for GRUB the same size. GRUB asks for the size first, and by the time that it asks for the script the script may have changed.
func padded(script []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	missing := (grubSize - len(script)%grubSize) % grubSize
	return append(script, bytes.Repeat([]byte("\n"), missing)...), nil
}

// script serves the script for a boot loader: boot the network, boot the disk, or ask again.
func (h *Handler) script(w http.ResponseWriter, r *http.Request, d dialect) {
	mac, err := macOf(r)
	var content []byte
	if err == nil {
		content, err = h.renderScript(r.Context(), mac, clientOf(r), h.locationOf(r), d)
	}
	if content == nil {
		refuse(w, r, err)
		return
	}
	recordError(r, err)
	writeText(w, content)
}

// location has the URLs at which a server finds files and bootstrap data, and the network that it asks from.
type location struct{ base, seed, network string }

func (h *Handler) locationOf(r *http.Request) location {
	at := location{base: h.base(r), seed: h.seedBase(r)}
	if h.BootSlots != nil {
		at.network = h.Network(localOf(r), clientOf(r))
	}
	return at
}

// renderScript returns a script, or the reason why there is none. With a script that asks again it may return an error too.
func (h *Handler) renderScript(ctx context.Context, mac net.HardwareAddr, from netip.Addr, at location, d dialect) ([]byte, error) {
	self := at.base + d.path(mac)
	answer, err := h.Booter.Lookup(ctx, mac)
	switch {
	case err != nil:
		return retryUnlessRefused(err, d, self)
	case answer.ScriptFor.IsValid() && answer.ScriptFor != from:
		// A second client ends the attempt, even if the first has continued its boot since: the first may have been a stranger.
		if _, err := h.Booter.Script(ctx, mac, from); err != nil {
			return retryUnlessRefused(err, d, self)
		}
		return d.again("The boot is being prepared", 1, self) // the answer of Lookup was stale
	case answer.Boot == Disk:
		return d.disk(mac, answer.BIOS)
	case answer.Boot == NotYet:
		return d.again("The boot is being prepared", 5, self)
	case answer.Boot != Network:
		return nil, errors.Join(ErrRefused, errors.New("there is nothing to boot for "+mac.String()))
	}
	// The script is served once all its files are here, so that no boot stops halfway.
	if err := h.prepare(answer); errors.Is(err, artifact.ErrNotYet) {
		return d.again("The boot files are being fetched", 1, self)
	} else if err != nil {
		// The client was not checked yet: only the host's conditions show the reason.
		h.Booter.ObserveFailure(mac, err)
		return d.again("The boot files are not available (the conditions of the host say why)", 5, self)
	}
	// The queue knows servers by their MAC addresses only. A client that would be refused must not take the server's position: at the front of the
	// queue it would get the slot and lose it at once, and the server would start again at the end. Nor does it cost the API server a read.
	if err := h.Booter.Admit(ctx, mac, from); err != nil {
		return retryOrRefuse(err, d, self)
	}
	// A server that waits is given nothing yet, and nothing is bound to its address.
	if position, ok := h.BootSlots.acquire(ctx, at.network, mac); !ok {
		h.Booter.ObserveWaiting(mac, from, position.Number)
		return d.again("Waiting for a boot slot: "+position.String(), int(retryInterval/time.Second), self)
	}
	content, given, err := h.serveScript(ctx, mac, from, at, d)
	if !given {
		h.BootSlots.release(at.network, mac) // it loads nothing
	}
	return content, err
}

// serveScript returns the script of a server with a boot slot. If given is false, the result is that of renderScript.
func (h *Handler) serveScript(ctx context.Context, mac net.HardwareAddr, from netip.Addr, at location, d dialect) (content []byte, given bool, err error) {
	self := at.base + d.path(mac)
	unusable := func() ([]byte, bool, error) {
		content, err := d.again("The boot source is not usable (the conditions of the host say why)", 10, self)
		return content, false, err
	}
	script, err := h.Booter.Script(ctx, mac, from)
	if err != nil {
		content, err = retryOrRefuse(err, d, self)
		return content, false, err
	}
	values, err := h.valuesOf(mac, script, at, d)
	if err != nil {
		h.Booter.ObserveFailure(mac, err)
		return unusable()
	}
	if content, err = d.network(values, script.Template); err != nil {
		h.Booter.ObserveFailure(mac, fmt.Errorf("%w: %w", ErrBootSource, err))
		return unusable()
	}
	return content, true, nil
}

// retryOrRefuse answers a client that the Booter does not serve. If it is too early, the client is asked to retry; otherwise the answer is that of retryUnlessRefused.
func retryOrRefuse(err error, d dialect, self string) ([]byte, error) {
	if errors.Is(err, ErrNotYet) {
		return d.again("The boot is not ready yet (the conditions of the host say why)", 5, self)
	}
	return retryUnlessRefused(err, d, self)
}

// retryUnlessRefused makes the client ask again, unless it was refused. A boot loader takes any other answer as the end of its boot, and a minute without the API server
// must not cost an attempt. The error is returned with the script.
func retryUnlessRefused(err error, d dialect, self string) ([]byte, error) {
	if errors.Is(err, ErrRefused) {
		return nil, err
	}
	script, again := d.again("The boot server cannot answer now", 5, self)
	return script, errors.Join(err, again)
}

func (h *Handler) valuesOf(mac net.HardwareAddr, script Script, at location, d dialect) (ipxe.Values, error) {
	if script.Agent != nil {
		return h.agentValues(mac, script, at, d)
	}
	commandLine, err := commandLine(script, at.seed)
	if err != nil {
		return ipxe.Values{}, err
	}
	v := ipxe.Values{
		Title: script.Title, MAC: mac.String(), Hostname: script.Hostname, SeedURL: at.seed + script.SeedPath + "/", SelfURL: at.base + d.path(mac),
		CommandLine: commandLine,
	}
	for i := range script.Files {
		url := at.base + filePath(mac, i)
		if i == 0 {
			v.Kernel = url
		} else {
			v.Initrds = append(v.Initrds, url)
		}
	}
	return v, nil
}

// agentValues are the values of a script that boots the agent.
func (h *Handler) agentValues(mac net.HardwareAddr, script Script, at location, d dialect) (ipxe.Values, error) {
	pins, err := h.pins()
	if err != nil {
		return ipxe.Values{}, err
	}
	line, err := h.AgentFiles.commandLine(script.Agent, at.seed, pins)
	return ipxe.Values{
		Title: script.Title, MAC: mac.String(), Hostname: script.Hostname, SeedURL: at.seed, SelfURL: at.base + d.path(mac), CommandLine: line,
		Kernel: at.base + filePath(mac, d.agentKernel()), Initrds: []string{at.base + filePath(mac, agentRamdisk)},
	}, err
}

// pins returns the pins of HTTPS, nil without HTTPS.
func (h *Handler) pins() ([]string, error) {
	if h.Pins == nil {
		return nil, nil
	}
	return h.Pins()
}

// grubFirst serves GRUBFirst, which GRUB fetches over HTTP after UEFI HTTP boot.
func (h *Handler) grubFirst(w http.ResponseWriter, r *http.Request) {
	content, err := GRUBConfig(h.base(r))
	if err != nil {
		refuse(w, r, err)
		return
	}
	writeText(w, content)
}

// GRUBConfig returns the content of GRUBFirst for a handler with the URL base.
func GRUBConfig(base string) ([]byte, error) { return grub.First(base + grubFolder) }

func writeText(w http.ResponseWriter, content []byte) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// GRUB cannot read a chunked answer.
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write(content)
}

// prepare returns nil once all files are in the cache.
func (h *Handler) prepare(answer Answer) error {
	if answer.Agent != "" {
		return h.AgentFiles.Check(answer.Agent)
	}
	var waiting error
	for _, a := range answer.Files {
		file, err := h.Artifacts.Open(answer.Namespace, a)
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

// file serves a kernel or an initrd of the server's current boot.
func (h *Handler) file(w http.ResponseWriter, r *http.Request) {
	mac, err := macOf(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	answer, err := h.Booter.Lookup(r.Context(), mac)
	index, numErr := strconv.Atoi(r.PathValue("index"))
	if err != nil || numErr != nil || answer.Boot != Network {
		refuse(w, r, errors.Join(ErrRefused, err, numErr))
		return
	}
	file, err := h.openFile(answer, index)
	if err != nil {
		refuse(w, r, err)
		return
	}
	defer func() { _ = file.Close() }()
	if (index == 0 || answer.Agent != "" && index == agentKernelUnzipped) && r.Method == http.MethodGet {
		h.Booter.ObserveStage(mac, StageKernel, clientOf(r), r.UserAgent())
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, file)
}

// openFile opens a file of a boot by its index.
func (h *Handler) openFile(answer Answer, index int) (io.ReadSeekCloser, error) {
	switch {
	case answer.Agent != "":
		return h.AgentFiles.Open(answer.Agent, index)
	case index < 0 || index >= len(answer.Files):
		return nil, ErrRefused
	default:
		return h.Artifacts.Open(answer.Namespace, answer.Files[index])
	}
}

// loader serves a boot loader to UEFI HTTP boot, and records the stage.
func (h *Handler) loader(w http.ResponseWriter, r *http.Request) {
	mac, err := macOf(r)
	if err != nil {
		refuse(w, r, err)
		return
	}
	if r.Method == http.MethodGet && h.Loaders.Get(r.PathValue("file")) != nil {
		h.Booter.ObserveStage(mac, StageLoader, clientOf(r), r.UserAgent())
	}
	h.anyLoader(w, r)
}

// anyLoader serves a boot loader to a client whose DHCP server cannot put a MAC address into the URL.
func (h *Handler) anyLoader(w http.ResponseWriter, r *http.Request) {
	file := h.Loaders.Get(r.PathValue("file"))
	if file == nil {
		refuse(w, r, fmt.Errorf("%w: there is no such boot loader", ErrRefused))
		return
	}
	kind := "application/octet-stream"
	if path.Ext(file.Name) == ".efi" {
		kind = "application/efi" // UEFI 2.10, section 24.7.3.1: firmware accepts this type as a program
	}
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", file.Time, bytes.NewReader(file.Content))
}
