package pxe

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
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
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/grub"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
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
}

// MediaPart is a part of a medium.
type MediaPart string

// The parts of a medium, by which a medium that the BMC cannot fetch is told apart from one that the server does not boot.
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
	// ErrTemplate is returned for a boot source that only iPXE can boot.
	errTemplate = fmt.Errorf("%w: spec.boot.ipxeTemplate is a script for iPXE, and a boot medium has no iPXE: boot the host with the method PXE, or set spec.boot.kernel without a template", ErrBootSource)
)

// mediaLoaders are the boot loaders of a medium, for an architecture.
type mediaLoaders struct {
	// shim and grub are the names of the boot loaders, and their names in the EFI system partition: UEFI 2.10, section 3.5.1.1, and what shim loads.
	shim, grub, shimName, grubName string
	// bios is the boot loader for a BIOS; empty for none.
	bios string
}

var loadersOfMedia = map[string]mediaLoaders{
	"amd64": {shim: "shimx64.efi", grub: "gcdx64.efi", shimName: "BOOTX64.EFI", grubName: "grubx64.efi", bios: "eltorito.img"},
	"arm64": {shim: "shimaa64.efi", grub: "gcdaa64.efi", shimName: "BOOTAA64.EFI", grubName: "grubaa64.efi"},
}

// The paths in a medium. The signed GRUB of a CD reads its configuration at mediaConfig.
const (
	mediaConfig = "boot/grub/grub.cfg"
	mediaESP    = "boot/uefi.img"
	mediaKernel = "boot/kernel"
	mediaInitrd = "boot/initrd"
	mediaMark   = "boot/mark/"
)

// maxMediaLayouts is how many layouts are in memory, of about 16 KiB each. Another one is made again, with the same bytes.
const maxMediaLayouts = 2048

// mediaServer serves the boot media. Nothing is stored for a host: only a few KiB differ from boot to boot, and they are made again when needed.
type mediaServer struct {
	*Handler

	layouts *lru.Cache // from a mediaKey to a *mediaLayout

	mu   sync.Mutex
	boot map[string]*bootImages // by architecture
}

// mediaKey identifies the medium of a boot attempt: the token is unique. The same attempt may be served under several URLs.
type mediaKey struct{ host, token, base string }

// bootImages are the parts of a medium that firmware boots. They are shared by all media of an architecture.
type bootImages struct {
	bios   *iso.BIOSImage // nil for none
	esp    []byte
	digest string
}

func newMediaServer(h *Handler) *mediaServer {
	return &mediaServer{Handler: h, layouts: lru.New(maxMediaLayouts), boot: map[string]*bootImages{}}
}

// mediaType is the registered type of images that UEFI boots (UEFI 2.10, section 24.7.3.1). BMCs ignore the type.
const mediaType = "application/vnd.efi-iso"

// serve answers a GET or a HEAD. It is no chunked answer and no redirect: BMCs follow neither.
func (m *mediaServer) serve(w http.ResponseWriter, r *http.Request) {
	host, ok := hostOf(r)
	from := clientOf(r)
	switch {
	case !ok:
		refuse(w, r, errNoName)
		return
	case len(m.MediaClients) > 0 && !slices.ContainsFunc(m.MediaClients, func(p netip.Prefix) bool { return p.Contains(from) }):
		refuse(w, r, errMediaClient)
		return
	}
	request := MediaRequest{Host: host, Token: r.PathValue("token"), From: from, Client: r.UserAgent()}
	medium, err := m.Media.Media(r.Context(), request)
	if err != nil {
		refuse(w, r, err)
		return
	}
	opened, err := m.open(r, request, medium)
	if err != nil {
		if !errors.Is(err, ErrRefused) && !errors.Is(err, ErrNotYet) && !errors.Is(err, artifact.ErrNotYet) {
			m.Booter.ObserveFailure(medium.MAC, err)
		}
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
	http.ServeContent(w, r, "", medium.Time, &mediaReader{image: opened.image})
	medium.Observe(opened.part(w, r))
}

// openedMedium is a medium whose files are open.
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
		// Firmware and BMCs look for boot loaders in the first sectors before they boot.
		file.Start, file.Size = file.Start+64*iso.SectorSize, max(0, file.Size-64*iso.SectorSize)
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
		if known, err = m.layout(r, request, medium, key.base); err != nil { //nolint:contextcheck // the fetch outlives the request
			return nil, err
		}
		m.layouts.Add(key, known)
	}
	l := known.(*mediaLayout) //nolint:forcetypeassert // nothing else is added
	opened = &openedMedium{tag: l.tag}
	contents := map[string]io.ReaderAt{}
	for i, index := range medium.contents() {
		f := &mediaFile{size: l.image.File(mediaFilePath(i)).Size, open: func() (io.ReadSeekCloser, error) { return m.openFile(medium.answer(), index) }}
		opened.files, contents[mediaFilePath(i)] = append(opened.files, f), f
		if medium.Agent {
			continue // its files are always here, so that only the one that is read is opened
		}
		if err := f.ensure(); err != nil {
			opened.close()
			return nil, err
		}
	}
	opened.image = l.image.With(contents)
	return opened, nil
}

// mediaLayout is the layout of a medium.
type mediaLayout struct {
	image *iso.Image // without the contents of the kernel and the initrds
	tag   string
}

// layout lays out a medium.
func (m *mediaServer) layout(r *http.Request, request MediaRequest, medium Medium, base string) (*mediaLayout, error) {
	boot, err := m.bootImages(medium.Architecture)
	if err != nil {
		return nil, err
	}
	if err := m.prepare(medium.answer()); err != nil { //nolint:contextcheck // the fetch outlives the request
		return nil, err
	}
	config, err := m.config(r, request, medium, base)
	if err != nil {
		return nil, err
	}
	mark := markOf(request.Token)
	files := []iso.File{{Path: mediaConfig, Content: iso.Bytes(config)}, {Path: mediaMark + mark, Content: iso.Bytes([]byte(mark))}}
	identity := sha256.New()
	_, _ = fmt.Fprintf(identity, "%s %x\n", boot.digest, sha256.Sum256(config)) // never fails
	for i, index := range medium.contents() {
		file, err := m.openFile(medium.answer(), index) //nolint:contextcheck // the fetch outlives the request
		if err != nil {
			return nil, err
		}
		size, err := file.Seek(0, io.SeekEnd)
		_ = file.Close()
		if err != nil {
			return nil, err
		}
		files = append(files, iso.File{Path: mediaFilePath(i), Content: sizeOnly(size)})
		_, _ = fmt.Fprintf(identity, "%d\n", size)
		if !medium.Agent {
			_, _ = fmt.Fprintf(identity, "%s\n", medium.Files[index].Checksum)
		}
	}
	// The boot loaders are behind the kernel: a BMC that copies the medium from its start to its end reads them after it, and a server that boots before it.
	files = append(files, iso.File{Path: mediaESP, Content: iso.Bytes(boot.esp)})
	l := &mediaLayout{tag: `"` + hex.EncodeToString(identity.Sum(nil)[:16]) + `"`}
	l.image, err = iso.New(iso.Options{Label: "CAPBM_" + strings.ToUpper(mark), Time: medium.Time, BIOS: boot.bios, UEFI: mediaESP}, files)
	return l, err
}

// sizeOnly is the content of a file of which a layout knows the size only.
type sizeOnly int64

func (s sizeOnly) Size() int64 { return int64(s) }

func (sizeOnly) ReadAt([]byte, int64) (int, error) {
	return 0, errors.New("a layout has no contents")
}

// answer returns the files of a medium as those of a network boot.
func (m Medium) answer() Answer {
	answer := Answer{Files: m.Files, Namespace: m.Namespace}
	if m.Agent {
		answer.Agent = m.Architecture
	}
	return answer
}

// contents returns the indexes of the kernel and the initrds of a medium.
func (m Medium) contents() []int {
	if m.Agent {
		return []int{agentKernelUnzipped, agentRamdisk}
	}
	out := make([]int, len(m.Files))
	for i := range out {
		out[i] = i
	}
	return out
}

// mediaFilePath returns the path of the kernel, whose number is 0, or of an initrd.
func mediaFilePath(number int) string {
	if number == 0 {
		return mediaKernel
	}
	return mediaInitrd + strconv.Itoa(number)
}

// markOf returns the name of the file by which GRUB finds its medium: 8 digits, as an ISO 9660 image can have them. It reveals nothing about the token.
func markOf(token string) string {
	digest := sha256.Sum256([]byte("mark " + token))
	return hex.EncodeToString(digest[:4])
}

// config returns the configuration of GRUB for an attempt.
func (m *mediaServer) config(r *http.Request, request MediaRequest, medium Medium, base string) ([]byte, error) {
	script, err := m.Media.MediaScript(r.Context(), request)
	if err != nil {
		return nil, err
	}
	line, err := m.mediaCommandLine(script, base)
	if err != nil {
		return nil, err
	}
	v := grub.MediumValues{Title: script.Title, Mark: "/" + mediaMark + markOf(request.Token), CommandLine: line}
	for i := range medium.contents() {
		if path := "/" + mediaFilePath(i); i == 0 {
			v.Kernel = path
		} else {
			v.Initrds = append(v.Initrds, path)
		}
	}
	// All configurations have the same size, so that the files behind are at the same place whatever the command line is.
	content, err := padded(grub.Medium(v))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBootSource, err)
	}
	return content, nil
}

func (m *mediaServer) mediaCommandLine(script Script, base string) (string, error) {
	switch {
	case script.Template != "" || script.Agent == nil && len(script.Files) == 0:
		return "", errTemplate
	case script.Agent == nil:
		return commandLine(script, base)
	}
	pins, err := m.pins()
	if err != nil {
		return "", err
	}
	return agentCommandLine(script.Agent, base, pins)
}

// mediaBase returns the URL at which the operating system finds the boot server.
func (m *mediaServer) mediaBase(r *http.Request, medium Medium) string {
	if m.SecureURL == nil && m.MediaURL != nil {
		return m.MediaURL(localOf(r), medium.Addresses)
	}
	return m.seedBase(r)
}

// espSerial is the serial number of all EFI system partitions.
const espSerial = 0xCA9B0001

// bootImages returns the boot images of an architecture.
func (m *mediaServer) bootImages(architecture string) (*bootImages, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.boot[architecture]; known != nil {
		return known, nil
	}
	names, ok := loadersOfMedia[architecture]
	if !ok {
		return nil, fmt.Errorf("there is no boot medium for the architecture %q", architecture)
	}
	identity := sha256.New()
	content := func(name string) ([]byte, error) {
		file := m.Loaders.Get(name)
		if file == nil {
			return nil, fmt.Errorf("the boot server has no boot loader %s: add it to the folder in loaders of its configuration file; hack/loaders.sh makes such a folder", name)
		}
		_, _ = identity.Write([]byte(file.SHA256)) // never fails
		return file.Content, nil
	}
	shim, err := content(names.shim)
	if err != nil {
		return nil, err
	}
	config, err := content(names.grub)
	if err != nil {
		return nil, err
	}
	boot := &bootImages{}
	if boot.esp, err = espOf(names, shim, config); err != nil {
		return nil, err
	}
	if names.bios != "" {
		bios, err := content(names.bios)
		if err != nil {
			return nil, err
		}
		if boot.bios, err = iso.NewBIOSImage(bios); err != nil {
			return nil, err
		}
	}
	boot.digest = base64.RawURLEncoding.EncodeToString(identity.Sum(nil))
	m.boot[architecture] = boot
	return boot, nil
}

// espOf returns the EFI system partition with shim and GRUB.
func espOf(names mediaLoaders, shim, grub []byte) ([]byte, error) {
	// One MiB more than the files need is enough for the tables; with less than 5 MiB there are too few clusters.
	size := max(5, (len(shim)+len(grub))>>20+2) << 20
	head, err := fat16.Render(fat16.Options{Label: "CAPBM-BOOT", Serial: espSerial, SectorSize: 512, Size: size}, []fat16.File{
		{Path: "EFI/BOOT/" + names.shimName, Content: shim}, {Path: "EFI/BOOT/" + names.grubName, Content: grub},
	})
	return append(head, make([]byte, size-len(head))...), err
}
