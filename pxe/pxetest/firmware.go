// Package pxetest plays the client of a network boot: the firmware of a server, iPXE, and the first steps of its operating
// system. It speaks the real protocols over UDP and TCP, follows what it is told, and runs no code that it loads.
package pxetest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/pin/tftp/v3"
	"sigs.k8s.io/yaml"
)

// Firmware is a server's firmware. It asks DHCP through a relay, as servers in racks do: that needs no privileged port.
type Firmware struct {
	MAC net.HardwareAddr
	// Arch is the firmware's architecture. The zero value is a BIOS.
	Arch iana.Arch
	// DHCPServer is where the relay forwards to, and Relay the relay's own address.
	DHCPServer netip.AddrPort
	Relay      netip.Addr
	// TFTPPort is the port of TFTP. Defaults to 69.
	TFTPPort uint16
	// Patience is how long an answer is waited for, and Tries how often it is asked for. Default to 1 s and 10.
	Patience time.Duration
	Tries    int
	// Stage, where not nil, is called when a stage is done.
	Stage func(stage string)
}

// System is what was booted.
type System struct {
	// Address is the address that DHCP gave.
	Address netip.Addr
	// CommandLine is the kernel's.
	CommandLine string
	// Files are the SHA-256 checksums of the kernel and the initrds.
	Files []string
	// Disk is true when the script said to boot from the disk. Nothing else is set then.
	Disk bool
	// MetaData, UserData and VendorData are the seed.
	MetaData   map[string]string
	UserData   []byte
	VendorData []byte

	client *http.Client
}

// ErrNothingToBoot means that nobody told the firmware what to boot.
var ErrNothingToBoot = errors.New("no boot file offered")

func (f *Firmware) stage(name string) {
	if f.Stage != nil {
		f.Stage(name)
	}
}

// Boot boots over the network: it returns when the seed was read, and the operating system would begin its work.
func (f *Firmware) Boot(ctx context.Context) (*System, error) {
	offer, err := f.dhcp(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("DHCP of the firmware: %w", err)
	}
	f.stage("DHCP")
	if err := f.loadLoader(ctx, offer); err != nil {
		return nil, fmt.Errorf("load the boot loader: %w", err)
	}
	f.stage("loader")
	ack, err := f.dhcp(ctx, true)
	if err != nil {
		return nil, fmt.Errorf("DHCP of iPXE: %w", err)
	}
	address, ok := netip.AddrFromSlice(ack.YourIPAddr.To4())
	if !ok || address.IsUnspecified() {
		return nil, errors.New("DHCP gave no address")
	}
	s := &System{Address: address, client: clientFrom(address)}
	if err := f.runScript(ctx, s, ack.BootFileName); err != nil || s.Disk {
		return s, err
	}
	f.stage("kernel")
	if err := s.readSeed(ctx); err != nil {
		return nil, fmt.Errorf("read the seed: %w", err)
	}
	f.stage("seed")
	return s, nil
}

// clientFrom returns an HTTP client that speaks from an address, as a server's operating system does.
func clientFrom(address netip.Addr) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: address.AsSlice()}, Timeout: 10 * time.Second}
	return &http.Client{Timeout: 5 * time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// loadLoader fetches the boot loader over TFTP or HTTP.
func (f *Firmware) loadLoader(ctx context.Context, offer *dhcpv4.DHCPv4) error {
	var loader bytes.Buffer
	if strings.HasPrefix(offer.BootFileName, "http://") {
		content, err := get(ctx, http.DefaultClient, offer.BootFileName)
		if err != nil {
			return err
		}
		loader.Write(content)
	} else {
		port := f.TFTPPort
		if port == 0 {
			port = 69
		}
		client, err := tftp.NewClient(net.JoinHostPort(offer.ServerIPAddr.String(), strconv.FormatUint(uint64(port), 10)))
		if err != nil {
			return err
		}
		client.RequestTSize(true)
		from, err := client.Receive(offer.BootFileName, "octet")
		if err != nil {
			return err
		}
		if _, err := from.WriteTo(&loader); err != nil {
			return err
		}
	}
	if loader.Len() == 0 {
		return errors.New("the boot loader is empty")
	}
	return nil
}

func get(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "iPXE/1.0 (emulated)")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", address, response.Status)
	}
	return content, err
}

// readSeed does what cloud-init's NoCloud source does.
func (s *System) readSeed(ctx context.Context) error {
	base, err := s.SeedURL()
	if err != nil {
		return err
	}
	meta, err := get(ctx, s.client, base+"meta-data")
	if err != nil {
		return err
	}
	if err := yaml.Unmarshal(meta, &s.MetaData); err != nil {
		return fmt.Errorf("meta-data: %w", err)
	}
	if s.UserData, err = get(ctx, s.client, base+"user-data"); err != nil {
		return err
	}
	s.VendorData, err = get(ctx, s.client, base+"vendor-data")
	return err
}

// SeedURL returns where the kernel command line says that the seed is.
func (s *System) SeedURL() (string, error) {
	for word := range strings.FieldsSeq(s.CommandLine) {
		if rest, ok := strings.CutPrefix(word, "ds=nocloud;s="); ok {
			return rest, nil
		}
	}
	return "", errors.New("the command line names no seed")
}

// Report does what cloud-init's phone_home does with the vendor-data.
func (s *System) Report(ctx context.Context) error {
	var vendor struct {
		PhoneHome struct{ URL string } `json:"phone_home"`
	}
	if err := yaml.Unmarshal(s.VendorData, &vendor); err != nil {
		return fmt.Errorf("vendor-data: %w", err)
	}
	form := url.Values{"hostname": {s.MetaData["hostname"]}, "instance_id": {s.MetaData["instance-id"]}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, vendor.PhoneHome.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err = fmt.Errorf("report in: %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
