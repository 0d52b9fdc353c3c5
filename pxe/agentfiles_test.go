package pxe_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// writeAgents writes the files of both agents. The kernel of arm64 is in a gzip file, which is returned.
func writeAgents(t *testing.T, folder string) (zipped []byte) {
	t.Helper()
	g := NewWithT(t)
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte("kernel of arm64"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Close()).To(Succeed())
	for name, content := range map[string]string{
		"amd64/kernel": "kernel of amd64", "amd64/ramdisk": "ramdisk of amd64", "arm64/kernel.gz": out.String(),
		"arm64/kernel.squashfs": "kernel of arm64 for GRUB", "arm64/ramdisk": "ramdisk of arm64",
	} {
		file := filepath.Join(folder, name)
		g.Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	}
	return out.Bytes()
}

// TestAgentFiles: each boot loader gets the agent in the form that it can load: iPXE decompresses the kernel of arm64, and GRUB gets the bytes that are signed.
func TestAgentFiles(t *testing.T) {
	folder := t.TempDir()
	zipped := writeAgents(t, folder)
	for _, test := range []struct{ architecture, script, line, index, kernel string }{
		{"amd64", "/ipxe/", "\nkernel --name kernel http://192.0.2.1:8480/boot/" + mac + "/0 initrd=initrd0 ", "0", "kernel of amd64"},
		{"amd64", "/grub/", "\nif linux '(http,192.0.2.1:8480)/boot/" + mac + "/2' ", "2", "kernel of amd64"},
		{"arm64", "/ipxe/", "\nkernel --name kernel http://192.0.2.1:8480/boot/" + mac + "/0 initrd=initrd0 ", "0", string(zipped)},
		{"arm64", "/grub/", "\nif linux '(http,192.0.2.1:8480)/boot/" + mac + "/2' ", "2", "kernel of arm64"},
	} {
		t.Run(test.architecture+test.script, func(t *testing.T) {
			g := NewWithT(t)
			l := newLab(t, 8)
			l.handler.AgentFiles = &pxe.AgentFiles{Dir: folder}
			l.booter.Answer.Agent = test.architecture
			l.booter.change = func(s *pxe.Script) {
				s.Agent = &pxe.AgentScript{Architecture: test.architecture, Host: "dc/h", Token: "token"}
			}
			script := l.do(http.MethodGet, test.script+mac).Body.String()
			g.Expect(script).To(And(ContainSubstring(test.line), ContainSubstring("/boot/"+mac+"/1")))
			g.Expect(l.do(http.MethodHead, "/boot/"+mac+"/"+test.index).Header().Get("Content-Length")).NotTo(BeEmpty())
			g.Expect(l.booter.Stages()).To(BeEmpty())
			for range 2 {
				g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/"+test.index).Body.String()).To(Equal(test.kernel))
			}
			g.Expect(l.booter.Stages()).To(ContainElement(pxe.StageKernel))
			part := l.do(http.MethodGet, "/boot/"+mac+"/"+test.index, "Range", "bytes=1-3")
			g.Expect(part.Body.String()).To(Equal(test.kernel[1:4]))
			g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/1").Body.String()).To(Equal("ramdisk of " + test.architecture))
			g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/4").Code).To(Equal(http.StatusForbidden))
		})
	}
}

// TestAgentFilesReplaced: a kernel that was decompressed is read again when its file was replaced, although the boot server still runs.
func TestAgentFilesReplaced(t *testing.T) {
	folder := t.TempDir()
	writeAgents(t, folder)
	name := filepath.Join(folder, "arm64", "kernel.gz")
	var files *pxe.AgentFiles
	first := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// write writes the kernel without compression: contents of one length have files of one size.
	write := func(g *WithT, name, content string, modified time.Time) {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = w.Write([]byte(content))
		g.Expect(errors.Join(err, w.Close())).To(Succeed())
		g.Expect(os.WriteFile(name, out.Bytes(), 0o600)).To(Succeed())
		g.Expect(os.Chtimes(name, modified, modified)).To(Succeed())
	}
	read := func(g *WithT) string {
		opened, err := files.Open("arm64", 2)
		g.Expect(err).NotTo(HaveOccurred())
		content, err := io.ReadAll(opened)
		g.Expect(errors.Join(err, opened.Close())).To(Succeed())
		return string(content)
	}
	for what, replace := range map[string]func(g *WithT){
		"another size": func(g *WithT) { write(g, name, "a longer kernel", first) },
		"another time": func(g *WithT) { write(g, name, "kernel2", first.Add(time.Nanosecond)) },
		"another file": func(g *WithT) {
			write(g, name+".new", "kernel3", first)
			g.Expect(os.Rename(name+".new", name)).To(Succeed())
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			write(g, name, "kernel1", first)
			files = &pxe.AgentFiles{Dir: folder}
			g.Expect(read(g)).To(Equal("kernel1"))
			old, err := files.Open("arm64", 2)
			g.Expect(err).NotTo(HaveOccurred())
			replace(g)
			g.Expect(read(g)).NotTo(Equal("kernel1"))
			g.Expect(io.ReadAll(old)).To(BeEquivalentTo("kernel1"), "what is being read stays")
			g.Expect(old.Close()).To(Succeed())
		})
	}
}

// TestAgentNetwork: the agent gets the network that the operating system gets, and the word to use it first where there may be no DHCP.
func TestAgentNetwork(t *testing.T) {
	for _, first := range []bool{false, true} {
		g := NewWithT(t)
		folder := t.TempDir()
		writeAgents(t, folder)
		l := newLab(t, 8)
		l.handler.AgentFiles = &pxe.AgentFiles{Dir: folder}
		l.booter.Answer.Agent = "amd64"
		l.booter.change = func(s *pxe.Script) {
			s.Agent = &pxe.AgentScript{Architecture: "amd64", Host: "dc/h", Token: "token", Network: seedtest.Static(), StaticFirst: first}
		}
		words := regexp.MustCompile(` capbm\.network=(\S+)( capbm\.static=first)?`).FindStringSubmatch(l.do(http.MethodGet, "/ipxe/"+mac).Body.String())
		g.Expect(words).To(HaveLen(3))
		if first {
			g.Expect(words[2]).NotTo(BeEmpty())
		} else {
			g.Expect(words[2]).To(BeEmpty())
		}
		content, err := base64.RawURLEncoding.DecodeString(words[1])
		g.Expect(err).NotTo(HaveOccurred())
		network := &seed.Network{}
		g.Expect(json.Unmarshal(content, network)).To(Succeed())
		g.Expect(network).To(Equal(seedtest.Static()))
	}
}

// TestAgentCommandLine: the kernel gets the parameters of the site, and one serial port of a driver: it would ignore the second one. TestMedium has a medium.
func TestAgentCommandLine(t *testing.T) {
	for _, c := range []struct{ architecture, site, want string }{
		{"amd64", "", "console=tty0 panic=60 console=ttyS0,115200n8 capbm.server="},
		{"arm64", "", "console=tty0 panic=60 console=ttyAMA0,115200n8 capbm.server="},
		{"amd64", "quiet panic=5", "console=tty0 panic=60 quiet panic=5 console=ttyS0,115200n8 capbm.server="},
		{"amd64", "console=ttyS1,115200n8 quiet", "console=tty0 panic=60 console=ttyS1,115200n8 quiet capbm.server="},
		{"arm64", "console=ttyS1,115200n8", "console=tty0 panic=60 console=ttyS1,115200n8 console=ttyAMA0,115200n8 capbm.server="},
		{"amd64", "console=uart8250,io,0x2f8,115200n8", "console=tty0 panic=60 console=uart8250,io,0x2f8,115200n8 capbm.server="},
		{"amd64", "console=hvc0", "console=tty0 panic=60 console=hvc0 console=ttyS0,115200n8 capbm.server="},
		{"arm64", "console=ttyAMA1", "console=tty0 panic=60 console=ttyAMA1 capbm.server="},
	} {
		g := NewWithT(t)
		folder := t.TempDir()
		writeAgents(t, folder)
		l := newLab(t, 8)
		l.handler.AgentFiles = &pxe.AgentFiles{Dir: folder, CommandLine: c.site}
		l.booter.Answer.Agent = c.architecture
		l.booter.change = func(s *pxe.Script) {
			s.Agent = &pxe.AgentScript{Architecture: c.architecture, Host: "dc/h", Token: "token"}
		}
		for _, path := range []string{"/ipxe/" + mac, "/grub/" + mac} {
			g.Expect(strings.ReplaceAll(l.do(http.MethodGet, path).Body.String(), "'", "")).To(ContainSubstring(" "+c.want), path)
		}
	}
}

// TestAgentCommandLineTooLong: a network that fits alone may not fit beside the parameters of the site.
func TestAgentCommandLineTooLong(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	writeAgents(t, folder)
	l := newLab(t, 8)
	files := &pxe.AgentFiles{Dir: folder}
	l.handler.AgentFiles, l.booter.Answer.Agent = files, "amd64"
	l.booter.change = func(s *pxe.Script) {
		network := &seed.Network{Interfaces: []seed.Interface{{Name: strings.Repeat("a", 1_200)}}}
		s.Agent = &pxe.AgentScript{Architecture: "amd64", Host: "dc/h", Token: "token", Network: network}
	}
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(ContainSubstring("capbm.network="))
	files.CommandLine = strings.Repeat("a", 256)
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).NotTo(ContainSubstring("capbm.network="))
}

// TestAgentFilesMissing: a server is not told to load what is not there, and a broken file is no kernel.
func TestAgentFilesMissing(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	writeAgents(t, folder)
	files := &pxe.AgentFiles{Dir: folder}
	g.Expect(files.Check("amd64")).To(Succeed())
	g.Expect(files.Check("arm64")).To(Succeed())
	g.Expect(files.Check("riscv64")).To(MatchError(ContainSubstring("has no agent for riscv64")))
	kernel := filepath.Join(folder, "arm64", "kernel.gz")
	g.Expect(os.Truncate(kernel, 20)).To(Succeed())
	_, err := files.Open("arm64", 2)
	g.Expect(err).To(MatchError(ContainSubstring("unexpected EOF")))
	for _, name := range []string{"kernel.gz", "kernel.squashfs", "ramdisk"} {
		writeAgents(t, folder)
		g.Expect(files.Check("arm64")).To(Succeed())
		g.Expect(os.Remove(filepath.Join(folder, "arm64", name))).To(Succeed())
		g.Expect(files.Check("arm64")).To(MatchError(ContainSubstring("has no agent for arm64")), name)
	}
}
