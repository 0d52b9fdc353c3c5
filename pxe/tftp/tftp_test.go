package tftp

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	client "github.com/pin/tftp/v3"
)

func TestServe(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	loader := bytes.Repeat([]byte("loader"), 1000)
	g.Expect(os.WriteFile(filepath.Join(dir, "snponly.efi"), loader, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(filepath.Dir(dir), "secret"), []byte("secret"), 0o600)).To(Succeed())
	g.Expect(os.Symlink("/etc/passwd", filepath.Join(dir, "link"))).To(Succeed())

	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	fetched := make(chan string, 1)
	server := &Server{Dir: dir, Fetched: func(mac net.HardwareAddr, from netip.Addr, file string) {
		fetched <- mac.String() + " " + from.String() + " " + file
	}}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, conn) }()

	receive := func(name string) ([]byte, error) {
		c, err := client.NewClient(conn.LocalAddr().String())
		g.Expect(err).NotTo(HaveOccurred())
		from, err := c.Receive(name, "octet")
		if err != nil {
			return nil, err
		}
		var content bytes.Buffer
		_, err = from.WriteTo(&content)
		return content.Bytes(), err
	}
	g.Expect(receive(JoinName(net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, "snponly.efi"))).To(Equal(loader))
	g.Expect(<-fetched).To(Equal("52:54:00:00:00:01 127.0.0.1 snponly.efi"))
	g.Expect(receive("/snponly.efi")).To(Equal(loader), "a loader needs no MAC address")
	for _, name := range []string{"../secret", `..\secret`, "/etc/passwd", "link", ".", "", "52-54-00-00-00-01/../../secret", "no.efi"} {
		_, err := receive(name)
		g.Expect(err).To(MatchError(ContainSubstring("no such boot loader")), name)
	}
	cancel()
	g.Expect(<-done).To(Succeed())
}

// FuzzSplitName: every name that DHCP gives out is taken apart again, and no name brings the server down.
func FuzzSplitName(f *testing.F) {
	f.Add("52-54-00-00-00-01/snponly.efi")
	f.Add(`\52-54-00-00-00-01\x`)
	f.Add("../..")
	f.Fuzz(func(t *testing.T, name string) {
		mac, file := SplitName(name)
		if mac == nil || file == "" || strings.ContainsAny(file, `\`) {
			return
		}
		if again, sameFile := SplitName(JoinName(mac, file)); again.String() != mac.String() || sameFile != file {
			t.Fatalf("%q became %s and %q, then %s and %q", name, mac, file, again, sameFile)
		}
	})
}
