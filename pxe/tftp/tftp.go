// Package tftp serves boot loaders over TFTP (RFC 1350, options of RFC 2347-2349), and nothing else: all that is larger goes
// over HTTP.
package tftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/pin/tftp/v3"
)

// Server serves the files of a folder. It is read-only, and no name leads out of the folder.
type Server struct {
	// Dir is the folder with the boot loaders.
	Dir string
	// Fetched is called when a client has fetched a file. The first part of the name, up to a slash, is the server's MAC
	// address with dashes: DHCP puts it there, for TFTP does not tell who asks.
	Fetched func(mac net.HardwareAddr, from netip.Addr, file string)
}

// Serve answers requests until ctx ends. It closes conn.
func (s *Server) Serve(ctx context.Context, conn net.PacketConn) error {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return errors.Join(fmt.Errorf("open the folder with the boot loaders: %w", err), conn.Close())
	}
	defer func() { _ = root.Close() }()
	server := tftp.NewServer(func(name string, to io.ReaderFrom) error { return s.send(root, name, to) }, nil)
	server.SetTimeout(3 * time.Second)
	server.SetRetries(5)
	stop := context.AfterFunc(ctx, server.Shutdown)
	defer stop()
	err = server.Serve(conn)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// send sends a file. An error goes to the client: UEFI firmware aborts its first transfer on purpose, after it knows the size.
func (s *Server) send(root *os.Root, name string, to io.ReaderFrom) error {
	mac, path := SplitName(name)
	file, err := root.Open(path)
	if err != nil {
		return errors.New("no such boot loader")
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return errors.New("no such boot loader")
	}
	transfer, ok := to.(tftp.OutgoingTransfer)
	if ok {
		transfer.SetSize(info.Size())
	}
	if _, err := to.ReadFrom(file); err != nil {
		return err
	}
	if remote := transfer.RemoteAddr(); ok && mac != nil && s.Fetched != nil {
		from, _ := netip.AddrFromSlice(remote.IP)
		s.Fetched(mac, from.Unmap(), path)
	}
	return nil
}

// JoinName returns the name that a server asks TFTP for a boot loader with.
func JoinName(mac net.HardwareAddr, file string) string {
	return strings.ReplaceAll(mac.String(), ":", "-") + "/" + file
}

// SplitName returns the MAC address and the boot loader in a name. A name without a MAC address is that of a boot loader.
func SplitName(name string) (net.HardwareAddr, string) {
	name = strings.TrimLeft(strings.ReplaceAll(name, `\`, "/"), "/")
	first, rest, found := strings.Cut(name, "/")
	if mac, err := net.ParseMAC(first); found && err == nil && len(mac) == 6 {
		return mac, rest
	}
	return nil, name
}
