// Package peertest starts BMC emulators of other projects for the conformance suite: sushy-tools, virtualbmc and ipmi_sim. They listen on
// loopback, and each has its own folder. The tests need the programs that hack/peers.sh installs.
package peertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The credentials of every peer.
const (
	Username = "admin"
	Password = "peer-secret"
)

// Permit allows drivers to connect to the peers.
var Permit = bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// startTimeout is how long a peer may take to answer for the first time. On an idle computer the slowest takes 2 s.
const startTimeout = 60 * time.Second

// pollInterval is the interval of checks while a peer starts.
const pollInterval = 50 * time.Millisecond

// await waits until ready returns nil. It fails the test if the process ends first, or after startTimeout.
func await(tb testing.TB, p *process, ready func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-p.done:
			tb.Fatalf("%s ended before it answered: %v", p.name, p.err)
		case <-ctx.Done():
			tb.Fatalf("%s does not answer: %v", p.name, err)
		case <-ticker.C:
		}
	}
}

// installed returns the path of a program that hack/peers.sh installs with a Debian package.
func installed(tb testing.TB, path string) string {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Fatalf("%v: run hack/peers.sh", err)
	}
	return path
}

// Program returns the path of a program that hack/peers.sh installs with the BMC software, such as virt-fw-vars.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	return inVenv(tb, name)
}

// inVenv returns the path of a program in the Python environment that hack/peers.sh creates.
func inVenv(tb testing.TB, name string) string {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatal(err)
	}
	venv := filepath.Join(root, ".cache", "peers")
	if _, err := os.Stat(filepath.Join(venv, "stamp")); err != nil {
		tb.Fatalf("%v: run hack/peers.sh", err)
	}
	return filepath.Join(venv, "bin", name)
}

// moduleRoot is the folder of go.mod. Tests run in the folder of their package.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", errors.New("no folder above has a go.mod")
		}
		folder = parent
	}
	return "", err
}

// freeUDP returns a UDP port of loopback that nothing listens on.
func freeUDP(tb testing.TB) uint16 {
	tb.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	return portOf(socket.LocalAddr())
}

// freeTCP returns a TCP port of loopback that nothing listens on.
func freeTCP(tb testing.TB) uint16 {
	tb.Helper()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return portOf(listener.Addr())
}

func portOf(a net.Addr) uint16 { return netip.MustParseAddrPort(a.String()).Port() }

// answersIPMI returns a check that an IPMI BMC is at the UDP port.
func answersIPMI(port uint16) func(context.Context) error {
	// Get Channel Authentication Capabilities (IPMI 2.0, 22.13), which every BMC answers without a session.
	question := []byte{
		0x06, 0x00, 0xff, 0x07, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0x09,
		0x20, 0x18, 0xc8, 0x81, 0x00, 0x38, 0x8e, 0x04, 0xb5,
	}
	return func(ctx context.Context) error {
		socket, err := (&net.Dialer{}).DialContext(ctx, "udp4", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port).String())
		if err != nil {
			return err
		}
		defer func() { _ = socket.Close() }()
		if err := socket.SetDeadline(time.Now().Add(time.Second)); err != nil {
			return err
		}
		if _, err := socket.Write(question); err != nil {
			return err
		}
		_, err = socket.Read(make([]byte, 1024))
		if err != nil {
			return fmt.Errorf("no answer to a request for the authentication capabilities: %w", err)
		}
		return nil
	}
}

// write writes a file in the test's folder.
func write(tb testing.TB, path, content string) {
	tb.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		tb.Fatal(err)
	}
}
