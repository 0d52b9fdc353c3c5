package pxe

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/grub"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
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

// bootImages are the parts of a medium that firmware boots. They are shared by all media of an architecture.
type bootImages struct {
	bios   *iso.BIOSImage // nil for none
	esp    []byte
	digest string
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
	if err := m.prepare(medium.answer()); err != nil {
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
		file, err := m.openFile(medium.answer(), index)
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
		return []int{agentKernelOfMedium, agentRamdisk}
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
	if err != nil && !errors.Is(err, ErrRefused) {
		err = fmt.Errorf("%w: %w", ErrNotYet, err) // the inventory has recorded why
	}
	if err != nil {
		return nil, err
	}
	line, err := m.mediaCommandLine(script, base)
	if err != nil {
		return nil, err
	}
	v := grub.MediumValues{Title: script.Title, Mark: "/" + mediaMark + markOf(request.Token), CommandLine: line}
	v.Squashed = medium.Agent && squashedKernel[medium.Architecture] != ""
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
	return m.AgentFiles.commandLine(script.Agent, base, pins)
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
			return nil, fmt.Errorf("the boot server has no boot loader %s: add it to a folder in loaders of its configuration file; "+
				"hack/loaders.sh makes such a folder", name)
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
