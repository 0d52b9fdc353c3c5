package emulated_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/agenttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

const (
	host, token = "dc/h", "a-token"
	version     = "v1.36.3+2"
	guid        = "0a4f8d7e-62fb-4b7e-a5a4-2a3bb7a0b0c1"
	diskSize    = 8 << 30
)

// boots is a boot server with one image.
type boots struct {
	*agenttest.Server

	url    string
	opened *image.Opened
	where  agent.DataRequest
}

func serve(t *testing.T, source agent.DataSource) *boots {
	t.Helper()
	g := NewWithT(t)
	b := &boots{Server: &agenttest.Server{Host: host, Token: token, Next: agent.Reboot}}
	b.Handle = b.handle
	b.opened = convert(t)
	b.Plan = agent.Plan{Purpose: agent.Provision, Provision: &agent.ProvisionPlan{
		Manifest: b.opened.Info.ManifestDigest, RootDevice: agent.RootDevice{Serial: "S1"}, DataSource: source, DataSize: agent.DataPartitionSize,
		PartitionGUID: guid, BootEntry: "test",
	}}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	g.Expect(err).NotTo(HaveOccurred())
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: b}}
	server.Start()
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// convert writes an image, and converts it as the boot server does.
func convert(t *testing.T) *image.Opened {
	t.Helper()
	g := NewWithT(t)
	published := filepath.Join(t.TempDir(), "image.raw")
	checksum, err := emulated.WriteImage(published, version, 3<<20+5)
	g.Expect(err).NotTo(HaveOccurred())
	again := filepath.Join(t.TempDir(), "again")
	g.Expect(emulated.WriteImage(again, version, 3<<20+5)).To(Equal(checksum))
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, published) }))
	t.Cleanup(origin.Close)
	images, err := image.New(image.Options{
		Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(images.Close)
	source := image.Source{URL: origin.URL, Checksum: checksum}
	g.Eventually(func() error {
		_, err := images.Prepare(t.Context(), "dc", source, nil)
		return err
	}, time.Minute, 10*time.Millisecond).Should(Succeed())
	opened, err := images.Open("dc", source)
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = opened.Close() })
	return opened
}

func (b *boots) handle(endpoint string, w http.ResponseWriter, r *http.Request) {
	switch endpoint {
	case agent.EndpointManifest:
		encoded, err := b.opened.Manifest()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(encoded)
	case agent.EndpointImage:
		http.ServeContent(w, r, "", time.Time{}, b.opened.Data)
	case agent.EndpointData:
		requests := b.Requests(agent.EndpointData)
		err := json.Unmarshal(requests[len(requests)-1].Body, &b.where)
		partition, dataErr := seed.Partition(seed.Data{
			InstanceID: "i-1", Hostname: "node-1", UserData: []byte("#cloud-config\n"), Format: seed.CloudConfig,
		}, b.Plan.Provision.DataSource, b.url, b.where.SectorSize)
		if err := errors.Join(err, dataErr); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set(agent.HeaderDigest, manifest.DigestOf(partition.Head))
		_, _ = w.Write(partition.Head)
	case agent.EndpointCommit:
		w.WriteHeader(http.StatusNoContent)
	}
}

// system is an agent that was booted at an address.
func (b *boots) system() *pxetest.System {
	return &pxetest.System{Address: netip.MustParseAddr("127.0.0.9"), Agent: &pxetest.Agent{Server: b.url, Host: host, Token: token}}
}

func newMachine(t *testing.T, firmware agent.Firmware) *emulated.Hardware {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	m := &emulated.Hardware{Program: filepath.Join(dir, "agent"), Disk: filepath.Join(dir, "S1"), Firmware: firmware, Log: filepath.Join(dir, "agent.log")}
	g.Expect(emulated.NewDisk(m.Disk, diskSize)).To(Succeed())
	g.Expect(emulated.Build(t.Context(), controllerstest.Root(), m.Program)).To(Succeed())
	return m
}

// TestAgent: the real agent writes an image to a file, from the address of the server. The server boots it with its bootstrap data. A second agent erases both.
func TestAgent(t *testing.T) {
	for name, c := range map[string]struct {
		source   agent.DataSource
		firmware agent.Firmware
	}{
		"NoCloud by UEFI":     {agent.NoCloud, agent.UEFI},
		"ConfigDrive by BIOS": {agent.ConfigDrive, agent.BIOS},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b, m := serve(t, c.source), newMachine(t, c.firmware)
			g.Expect(m.Bootable()).To(BeFalse())
			_, err := m.BootDisk(b.system().Address, 0)
			g.Expect(err).To(MatchError(pxetest.ErrNotBootable))

			g.Expect(m.RunAgent(t.Context(), b.system())).To(Equal(agent.Reboot))
			hello := agent.Hello{}
			plans := b.Requests(agent.EndpointPlan)
			g.Expect(json.Unmarshal(plans[0].Body, &hello)).To(Succeed())
			g.Expect(hello.Firmware).To(Equal(c.firmware))
			g.Expect(plans[0].From).To(HavePrefix("127.0.0.9:"))
			g.Expect(m.Bootable()).To(BeTrue())
			system, err := m.BootDisk(b.system().Address, 0)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
			g.Expect(system.MetaData).To(HaveKeyWithValue("hostname", "node-1"))
			g.Expect(system.VendorData).NotTo(BeEmpty())
			stamp, ok := emulated.Version(system)
			g.Expect(ok).To(BeTrue())
			g.Expect(stamp).To(Equal(version))

			b.Next = agent.PowerOff
			b.Plan = agent.Plan{Purpose: agent.Clean, Clean: &agent.CleanPlan{Policy: agent.CleanMetadata, Ranges: []agent.DiskRange{
				{Disk: b.where.Disk, Offset: b.where.Offset, Length: agent.DataPartitionSize},
			}}}
			g.Expect(m.RunAgent(t.Context(), b.system())).To(Equal(agent.PowerOff))
			g.Expect(m.Bootable()).To(BeFalse())
		})
	}
}

// TestPowerFailure: the end of the context ends the agent in mid-write. The disk is not bootable.
func TestPowerFailure(t *testing.T) {
	g := NewWithT(t)
	b, m := serve(t, agent.NoCloud), newMachine(t, agent.UEFI)
	m.Rate = 256 << 10 // 3 MiB take 12 s
	failed := errors.New("no power")
	ctx, cut := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cut(nil) })
	var requests atomic.Int32
	b.Fail = func(endpoint string) int {
		if endpoint == agent.EndpointImage && requests.Add(1) == 2 { // the first gets the partition table
			cut(failed)
		}
		return 0
	}
	_, err := m.RunAgent(ctx, b.system())
	g.Expect(err).To(MatchError(failed))
	g.Expect(m.Bootable()).To(BeFalse())
	g.Expect(b.Requests(agent.EndpointCommit)).To(BeEmpty())
}

// TestFailure: an agent that ends with an error returns the end of its log.
func TestFailure(t *testing.T) {
	g := NewWithT(t)
	b, m := serve(t, agent.NoCloud), newMachine(t, agent.UEFI)
	b.Token = "another"
	_, err := m.RunAgent(t.Context(), b.system())
	g.Expect(err).To(MatchError(ContainSubstring("the boot is over")))
	log, err := os.ReadFile(m.Log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(log)).To(ContainSubstring("the boot is over"))
}
