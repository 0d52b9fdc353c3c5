package pxe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso"
)

// MediaRequest is a request for a boot medium.
type MediaRequest struct {
	// Host is "namespace/name".
	Host string
	// Token is the one in the path.
	Token string
	// From is the address of the BMC, or of the server's firmware.
	From netip.Addr
	// Client is what the client calls itself.
	Client string
}

// Medium is the boot medium of a boot attempt.
type Medium struct {
	// MAC is the server's boot MAC address.
	MAC net.HardwareAddr
	// Time is when the attempt began.
	Time time.Time
	// Architecture is that of the server, in the notation of Kubernetes.
	Architecture string
	// Agent is true if the medium boots the agent instead of Files.
	Agent bool
	// Files are the kernel, then the initrds. They count against the cache share of Namespace.
	Files     []artifact.Artifact
	Namespace string
	// Addresses are those that the operating system is configured with. They say in which network the server is: the medium may be fetched from another one.
	Addresses []netip.Addr
	// Observe records which part of the medium the client received. It must not block.
	Observe func(MediaPart)
	// ObserveRefusal records that the client has the token and was refused the medium, and why. It must not block.
	ObserveRefusal func(why error)
}

// MediaPart is a part of a medium.
type MediaPart string

// The parts of a medium. They distinguish a medium that the BMC cannot fetch from one that the server does not boot.
const (
	// MediaSize is the size only: the answer to a HEAD.
	MediaSize MediaPart = "size"
	// MediaHeaders is a part without boot loaders and kernel.
	MediaHeaders MediaPart = "headers"
	// MediaLoader has a part of the boot loaders: the server's firmware boots from the medium, unless the BMC reads ahead.
	MediaLoader MediaPart = "loader"
	// MediaKernel has a part of the kernel. After MediaLoader it means that the boot loader runs: a BMC that copies the medium in parts reads the kernel first.
	MediaKernel MediaPart = "kernel"
	// MediaWhole is the whole medium in one answer. What boots from the copy causes no further request.
	MediaWhole MediaPart = "whole"
)

// Media connects the boot media to the inventory. Every method is safe for concurrent use, and returns ErrRefused for a request that must not be answered.
type Media interface {
	// Media returns the medium for a token. It answers from memory, because a BMC makes thousands of these requests.
	Media(ctx context.Context, r MediaRequest) (Medium, error)
	// MediaScript returns what the medium boots.
	MediaScript(ctx context.Context, r MediaRequest) (Script, error)
}

var (
	errMediaClient = fmt.Errorf("%w: the client is in none of media.allowedClients", ErrRefused)
	// errMediaFetched is recorded for a medium whose files are being fetched for the first time. A BMC may not repeat its request.
	errMediaFetched = errors.New("not now: the kernel or an initrd of spec.boot is still being fetched")
	// errTemplate is returned for a boot source that only iPXE can boot.
	errTemplate = fmt.Errorf("%w: spec.boot.ipxeTemplate is a script for iPXE, and a boot medium has no iPXE: boot the host with the method PXE, "+
		"or set spec.boot.kernel without a template", ErrBootSource)
)

// maxMediaLayouts is how many layouts are in memory, of about 16 KiB each. Another one is made again, with the same bytes.
const maxMediaLayouts = 2048

// mediaServer serves the boot media. Nothing is stored for a host: only a few KiB differ from boot to boot, and they are made again when needed.
type mediaServer struct {
	*Handler

	layouts *lru.Cache // from a mediaKey to a *mediaLayout
	idle    *idleFiles

	mu   sync.Mutex
	boot map[string]*bootImages // by architecture
}

// mediaKey identifies the medium of a boot attempt: the token is unique. The same attempt may be served under several URLs.
type mediaKey struct{ host, token, base string }

func newMediaServer(h *Handler) *mediaServer {
	return &mediaServer{Handler: h, layouts: lru.New(maxMediaLayouts), idle: newIdleFiles(), boot: map[string]*bootImages{}}
}

// mediaType is the registered type of images that UEFI boots (UEFI 2.10, section 24.7.3.1). BMCs ignore the type.
const mediaType = "application/vnd.efi-iso"

// serve answers a GET or a HEAD. It is no chunked answer and no redirect: BMCs follow neither.
func (m *mediaServer) serve(w http.ResponseWriter, r *http.Request) {
	host, ok := hostOf(r)
	from := clientOf(r)
	if !ok {
		refuse(w, r, errNoName)
		return
	}
	request := MediaRequest{Host: host, Token: r.PathValue("token"), From: from, Client: r.UserAgent()}
	medium, err := m.Media.Media(r.Context(), request)
	if err != nil {
		refuse(w, r, err)
		return
	}
	// The token is checked before the address, because only a refused client with the token is recorded: it is the BMC, and not a stranger.
	if !m.permits(from) {
		medium.ObserveRefusal(errMediaClient)
		refuse(w, r, errMediaClient)
		return
	}
	opened, err := m.open(r, request, medium)
	if err != nil {
		m.observeFailure(medium, err)
		refuse(w, r, err)
		return
	}
	defer opened.close()
	if strings.Contains(r.Header.Get("Range"), ",") {
		// RFC 9110, section 14.2: a server may ignore the header. No BMC asks for several ranges, and thousands of them would cost more than they are worth.
		r.Header.Del("Range")
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("ETag", opened.tag)
	medium.Observe(MediaSize) // a slow BMC reads for longer than the time in which the request is expected
	content := &mediaReader{image: opened.image}
	http.ServeContent(w, r, "", medium.Time, content)
	if content.err != nil {
		recordError(r, content.err)
		m.observeFailure(medium, content.err) // such as a file that is no longer in the cache: the next request fetches it
		return
	}
	medium.Observe(opened.part(w, r))
}

// permits is true for a client that may fetch media.
func (m *mediaServer) permits(from netip.Addr) bool {
	return len(m.MediaClients) == 0 || slices.ContainsFunc(m.MediaClients, func(p netip.Prefix) bool { return p.Contains(from) })
}

// observeFailure records why a medium was not served. The inventory has recorded its own refusals: those of MediaScript.
func (m *mediaServer) observeFailure(medium Medium, err error) {
	switch {
	case errors.Is(err, artifact.ErrNotYet):
		medium.ObserveRefusal(errMediaFetched)
	case !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNotYet):
		m.Booter.ObserveFailure(medium.MAC, err)
	}
}

// openedMedium is a medium whose files can be read.
type openedMedium struct {
	image *iso.Image
	tag   string
	files []*mediaFile
}

func (o *openedMedium) close() {
	for _, f := range o.files {
		f.close()
	}
}

// probeSize is how much of a boot image firmware may read to see whether it can boot: the tables and directories of the file system, which have 42 KiB, with
// some read-ahead of the BMC.
const probeSize = 128 << 10

// part returns which part of the medium the answer had.
func (o *openedMedium) part(w http.ResponseWriter, r *http.Request) MediaPart {
	answer, ok := w.(*deadlineWriter)
	contentRange := w.Header().Get("Content-Range")
	if r.Method == http.MethodHead || !ok || answer.sent == 0 || strings.HasPrefix(contentRange, "bytes */") { // the last is a 416
		return MediaSize
	}
	sent := iso.Range{Start: startOf(contentRange), Size: answer.sent}
	loaders := func(path string) bool {
		file := o.image.File(path)
		file.Start, file.Size = file.Start+probeSize, max(0, file.Size-probeSize)
		return file.Overlaps(sent)
	}
	switch {
	case sent.Size == o.image.Size():
		return MediaWhole
	case o.image.File(mediaKernel).Overlaps(sent):
		return MediaKernel
	case loaders(mediaESP), loaders(iso.BIOSPath):
		return MediaLoader
	default:
		return MediaHeaders
	}
}

// startOf returns where the range in a Content-Range header starts, 0 without one.
func startOf(contentRange string) int64 {
	text, _, _ := strings.Cut(strings.TrimPrefix(contentRange, "bytes "), "-")
	start, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return start
}

// open returns the medium. Its layout stays in memory, so that a medium does not change while it is read, and a request costs little.
func (m *mediaServer) open(r *http.Request, request MediaRequest, medium Medium) (opened *openedMedium, err error) {
	key := mediaKey{request.Host, request.Token, m.mediaBase(r, medium)}
	known, ok := m.layouts.Get(key)
	if !ok {
		if known, err = m.layout(r, request, medium, key.base); err != nil {
			return nil, err
		}
		m.layouts.Add(key, known)
	}
	l := known.(*mediaLayout) //nolint:forcetypeassert // nothing else is added
	opened = &openedMedium{tag: l.tag}
	contents := map[string]io.ReaderAt{}
	for i, index := range medium.contents() {
		f := &mediaFile{
			size: l.image.File(mediaFilePath(i)).Size, open: func() (io.ReadSeekCloser, error) { return m.openFile(medium.answer(), index) },
			idle: m.idle, key: idleKey{l, i},
		}
		opened.files, contents[mediaFilePath(i)] = append(opened.files, f), f
		if medium.Agent || m.Artifacts.Use(medium.Namespace, medium.Files[index]) {
			continue // the file is here, so that only the one that is read is opened
		}
		if err := f.fetch(); err != nil {
			opened.close()
			return nil, err
		}
	}
	opened.image = l.image.With(contents)
	return opened, nil
}
