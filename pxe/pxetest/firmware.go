// Package pxetest emulates the client of a network boot: the firmware of a server, iPXE, and the first steps of its operating
// system. It speaks the real protocols over UDP and TCP, loads the files that it is instructed to load, and runs none of them. It also judges what is on a
// disk as firmware does, and reads the bootstrap data there as an operating system does.
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

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16/fat16test"
)

// Firmware is a server's firmware. It sends DHCP through a relay agent, as servers in racks do: that needs no privileged port.
type Firmware struct {
	MAC net.HardwareAddr
	// Arch is the firmware's architecture. The zero value is a BIOS.
	Arch iana.Arch
	// DHCPServer is the address that the relay agent forwards to, and Relay the agent's own address.
	DHCPServer netip.AddrPort
	Relay      netip.Addr
	// TFTPPort is the port of TFTP. Defaults to 69.
	TFTPPort uint16
	// Timeout is how long it waits for an answer, and Attempts how often it asks. Default to 1 s and 10.
	Timeout  time.Duration
	Attempts int
	// Persist is how long an HTTP request, from that for the script on, is repeated while there is no answer, or the answer is "not now". It
	// applies to the operating system too. Zero asks once.
	Persist time.Duration
	// Stage, if not nil, is called at the end of each stage.
	Stage func(stage string)
}

// System is what the firmware booted.
type System struct {
	// Address is the address that DHCP gave.
	Address netip.Addr
	// CommandLine is the kernel command line.
	CommandLine string
	// Files are the SHA-256 checksums of the kernel and the initrds.
	Files []string
	// Disk is true if the script boots the disk. No other field is set then.
	Disk bool
	// Agent are the parameters of the agent if that is what was booted. It has no seed.
	Agent *Agent
	// Volumes are the FAT16 file systems of the disk that the system was booted from, by their labels. Nil for a system that was booted over the network.
	Volumes map[string]*fat16test.Volume
	// MetaData (its plain values), UserData, VendorData and NetworkConfig are the seed.
	MetaData      map[string]string
	UserData      []byte
	VendorData    []byte
	NetworkConfig []byte
	// Ignition is the config of a system that starts with Ignition. It has no other files.
	Ignition []byte

	client *http.Client
}

// ErrNothingToBoot means that the firmware got no boot file.
var ErrNothingToBoot = errors.New("no boot file offered")

func (f *Firmware) stage(name string) {
	if f.Stage != nil {
		f.Stage(name)
	}
}

// Boot boots over the network. It returns after the seed was read, when the operating system would start its work, or when the agent would.
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
	s := &System{Address: address, client: clientFrom(address, f.Persist)}
	if err := f.runScript(ctx, s, ack.BootFileName); err != nil || s.Disk {
		return s, err
	}
	f.stage("kernel")
	if s.Agent = agentOf(s.CommandLine); s.Agent != nil {
		return s, nil
	}
	if err := s.readSeed(ctx); err != nil {
		return nil, fmt.Errorf("read the seed: %w", err)
	}
	f.stage("seed")
	return s, nil
}

// clientFrom returns an HTTP client with a source address, like that of a server's operating system.
func clientFrom(address netip.Addr, persist time.Duration) *http.Client {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: address.AsSlice()}, Timeout: 10 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	return &http.Client{Timeout: 5 * time.Minute, Transport: &persistent{transport, persist}}
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

// readSeed does what cloud-init's NoCloud source does, or Ignition.
func (s *System) readSeed(ctx context.Context) error {
	for word := range strings.FieldsSeq(s.CommandLine) {
		if url, ok := strings.CutPrefix(word, "ignition.config.url="); ok {
			var err error
			s.Ignition, err = get(ctx, s.client, url)
			return err
		}
	}
	base, err := s.SeedURL()
	if err != nil {
		return err
	}
	meta, err := get(ctx, s.client, base+"meta-data")
	if err != nil {
		return err
	}
	if err := s.setMetaData(meta); err != nil {
		return err
	}
	if s.UserData, err = get(ctx, s.client, base+"user-data"); err != nil {
		return err
	}
	if s.VendorData, err = get(ctx, s.client, base+"vendor-data"); err != nil {
		return err
	}
	s.NetworkConfig, err = get(ctx, s.client, base+"network-config")
	return err
}

// setMetaData keeps the plain values of the metadata, which is YAML or JSON.
func (s *System) setMetaData(content []byte) error {
	var values map[string]any
	if err := yaml.Unmarshal(content, &values); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	s.MetaData = map[string]string{}
	for key, value := range values {
		if text, ok := value.(string); ok {
			s.MetaData[key] = text
		}
	}
	return nil
}

// SeedURL returns the location of the seed from the kernel command line.
func (s *System) SeedURL() (string, error) {
	for word := range strings.FieldsSeq(s.CommandLine) {
		if rest, ok := strings.CutPrefix(word, "ds=nocloud;"); ok {
			for option := range strings.SplitSeq(rest, ";") {
				if url, ok := strings.CutPrefix(option, "s="); ok {
					return url, nil
				}
			}
		}
	}
	return "", errors.New("the command line names no seed")
}

// Report does what cloud-init's phone_home does with the vendor-data.
func (s *System) Report(ctx context.Context) error {
	home, err := s.ReportURL()
	if err != nil {
		return fmt.Errorf("vendor-data: %w", err)
	}
	return s.Post(ctx, home, url.Values{"hostname": {s.MetaData["hostname"]}, "instance_id": {s.MetaData["instance-id"]}})
}

// Post posts a form from the system's address, as the scripts of a seed do.
func (s *System) Post(ctx context.Context, address string, form url.Values) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		err = fmt.Errorf("report: %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}

// Get fetches a URL from the system's address. The caller closes the body.
func (s *System) Get(ctx context.Context, address string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	return s.client.Do(request)
}

// ReportURL returns the URL to report to: the vendor-data is a cloud-config, or an archive with one.
func (s *System) ReportURL() (string, error) {
	config := s.VendorData
	if bytes.HasPrefix(config, []byte("#cloud-config-archive\n")) {
		var parts []struct{ Type, Content string }
		if err := yaml.Unmarshal(config, &parts); err != nil {
			return "", err
		}
		for _, part := range parts {
			if part.Type == "text/cloud-config" {
				config = []byte(part.Content)
			}
		}
	}
	var vendor struct {
		PhoneHome struct{ URL string } `json:"phone_home"`
	}
	err := yaml.Unmarshal(config, &vendor)
	return vendor.PhoneHome.URL, err
}

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
