package pxe

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// AgentFiles are the kernel and the ramdisk of the agent, for each architecture: DIR/ARCH/kernel, or DIR/ARCH/kernel.gz and DIR/ARCH/kernel.squashfs, and
// DIR/ARCH/ramdisk.
type AgentFiles struct {
	// Dir is the folder.
	Dir string
	// CommandLine are the kernel parameters of the site. Empty for none.
	CommandLine string

	mu sync.Mutex
	// unzipped are kernels that were decompressed, by architecture. They stay in memory: 38 MB for arm64, if a server has asked for it.
	unzipped map[string]unzippedFile
}

// unzippedFile is the content of a gzip file, and what the file was when its content was read.
type unzippedFile struct {
	file    os.FileInfo
	content []byte
}

// isOf is true if the content is that of the file as it is now: files may be replaced while the boot server runs. os.SameFile finds another file with the
// same size and time, which files of reproducible builds have.
func (u unzippedFile) isOf(now os.FileInfo) bool {
	return u.file != nil && u.file.Size() == now.Size() && u.file.ModTime().Equal(now.ModTime()) && os.SameFile(u.file, now)
}

// The files of an agent by their index in a URL.
const (
	// agentKernel is the kernel as it is stored.
	agentKernel = iota
	agentRamdisk
	// agentKernelUnzipped is the kernel for a boot loader that cannot decompress it. GRUB verifies the signature of the bytes that it receives.
	agentKernelUnzipped
	// agentKernelOfMedium is the kernel on a boot medium.
	agentKernelOfMedium
)

// agentKernelFile is the name of the kernel's file. Debian's kernel for x86 decompresses itself. That for arm64 does not, and is stored with gzip.
var agentKernelFile = map[string]string{"amd64": "kernel", "arm64": "kernel" + gzipSuffix}

const gzipSuffix = ".gz"

// squashedKernel are the files in which the kernel is the file kernel of a squashfs file system, by architecture. GRUB reads it on a boot medium, and verifies the
// signature of what it has decompressed. Another architecture needs none.
var squashedKernel = map[string]string{"arm64": "kernel.squashfs"}

// Open opens a file of an architecture by its index.
func (f *AgentFiles) Open(architecture string, index int) (io.ReadSeekCloser, error) {
	kernel, known := agentKernelFile[architecture]
	if !known {
		return nil, ErrRefused
	}
	folder := filepath.Join(f.Dir, architecture)
	switch {
	case index == agentRamdisk:
		return os.Open(filepath.Join(folder, "ramdisk")) //nolint:gosec // made of known words
	case index == agentKernelOfMedium:
		return os.Open(filepath.Join(folder, cmp.Or(squashedKernel[architecture], kernel))) //nolint:gosec // made of known words
	case index == agentKernelUnzipped && strings.HasSuffix(kernel, gzipSuffix):
		return f.unzip(architecture, filepath.Join(folder, kernel))
	case index == agentKernel, index == agentKernelUnzipped:
		return os.Open(filepath.Join(folder, kernel)) //nolint:gosec // made of known words
	default:
		return nil, ErrRefused
	}
}

// unzip returns the content of a file. GRUB asks for its size first, and for parts of it.
func (f *AgentFiles) unzip(architecture, name string) (io.ReadSeekCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	file, err := os.Open(name) //nolint:gosec // made of known words
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	now, err := file.Stat() // before the read: a file that is changed during it is read again
	if err != nil {
		return nil, err
	}
	if !f.unzipped[architecture].isOf(now) {
		content, err := readGzip(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if f.unzipped == nil {
			f.unzipped = map[string]unzippedFile{}
		}
		f.unzipped[architecture] = unzippedFile{file: now, content: content}
	}
	return struct {
		io.ReadSeeker
		io.Closer
	}{bytes.NewReader(f.unzipped[architecture].content), io.NopCloser(nil)}, nil
}

func readGzip(file io.Reader) ([]byte, error) {
	content, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(content)
}

// Check returns an error if the files of an architecture are missing.
func (f *AgentFiles) Check(architecture string) error {
	for _, index := range []int{agentKernel, agentKernelOfMedium, agentRamdisk} {
		opened, err := f.Open(architecture, index)
		if err != nil {
			return fmt.Errorf("the boot server has no agent for %s: agent.dir of its configuration file must be the folder that `make agent` writes: %w", architecture, err)
		}
		_ = opened.Close()
	}
	return nil
}

// serialPort is the serial port that the agent uses on an architecture, and which consoles have the same driver. The BMC redirects one of them (Serial over LAN).
var serialPort = map[string]struct {
	name string
	same *regexp.Regexp
}{
	"amd64": {"ttyS0", regexp.MustCompile("^console=(ttyS[0-9]|uart)")},
	"arm64": {"ttyAMA0", regexp.MustCompile("^console=(ttyAMA|pl011)")},
}

// parameters are the kernel parameters of the agent that have nothing to do with the host: its kernel and its log use the screen and the first serial port, and a minute
// after a panic the server restarts. Of the ports of one driver Linux uses the one that is named first (admin-guide/serial-console.rst), so one of the site takes the place
// of ours.
func (f *AgentFiles) parameters(architecture string) []string {
	port, words := serialPort[architecture], append([]string{"console=tty0", "panic=60"}, strings.Fields(f.CommandLine)...)
	if port.same != nil && !slices.ContainsFunc(words, port.same.MatchString) {
		words = append(words, "console="+port.name+",115200n8")
	}
	return words
}

// commandLine returns the kernel command line of the agent, whose boot server has the URL base and certificates with the given pins.
func (f *AgentFiles) commandLine(s *AgentScript, base string, pins []string) (string, error) {
	words := append(f.parameters(s.Architecture), agent.ParamServer+"="+base, agent.ParamHost+"="+s.Host, agent.ParamToken+"="+s.Token)
	if len(pins) > 0 {
		words = append(words, agent.ParamPins+"="+strings.Join(pins, ","))
	}
	if s.Network != nil {
		network, err := json.Marshal(s.Network)
		if err != nil {
			return "", err
		}
		words = append(words, agent.ParamNetwork+"="+base64.RawURLEncoding.EncodeToString(network))
		if s.StaticFirst {
			words = append(words, agent.ParamStatic+"="+agent.StaticFirst)
		}
	}
	line := strings.Join(words, " ")
	if len(line) > maxCommandLine {
		return "", fmt.Errorf("%w: it has %d characters and %d fit: shorten spec.network of the host, or agent.commandLine of the boot server, which has %d characters",
			ErrCommandLine, len(line), maxCommandLine, len(f.CommandLine))
	}
	return line, nil
}
