package redfish_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

func newMachine(t *testing.T, delay time.Duration) (*bmctest.Machine, bmc.Endpoint) {
	t.Helper()
	machine := bmctest.NewMachine(bmctest.Options{
		Name: "s1", MAC: "52:54:00:00:00:01", UUID: "4C4C4544-0000-1111-2222-333344445555", Username: "admin", Password: "secret", PowerDelay: delay,
	})
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.Close(); machine.Close() })
	return machine, endpointOf(t, server, redfish.SchemeInsecure)
}

func endpointOf(t *testing.T, server *httptest.Server, scheme string) bmc.Endpoint {
	t.Helper()
	u, err := url.Parse(server.URL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	u.Scheme = scheme
	return bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}
}

func open(t *testing.T, endpoint bmc.Endpoint) bmc.Client {
	t.Helper()
	client, err := (&redfish.Driver{}).Open(t.Context(), endpoint)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(client.Close(context.Background())).To(Succeed()) })
	return client
}

func TestPower(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, endpoint := newMachine(t, 0)
	client := open(t, endpoint)
	expect := func(want bmc.PowerState) {
		t.Helper()
		g.Expect(client.PowerState(ctx)).To(Equal(want))
	}
	expect(bmc.PowerOff)
	g.Expect(client.ForceOff(ctx)).To(Succeed(), "it is off already")
	g.Expect(machine.CommandNames()).To(BeEmpty(), "nothing is commanded that is already so")
	g.Expect(client.SetNetworkBoot(ctx, bmc.BootUEFI)).To(Succeed())
	g.Expect(client.PowerOn(ctx)).To(Succeed())
	expect(bmc.PowerOn)
	g.Expect(client.PowerOn(ctx)).To(Succeed())
	g.Expect(client.Cycle(ctx)).To(Succeed())
	expect(bmc.PowerOn)
	g.Expect(client.ShutDown(ctx)).To(Succeed())
	expect(bmc.PowerOn) // there is no operating system that would hear it
	g.Expect(client.ForceOff(ctx)).To(Succeed())
	expect(bmc.PowerOff)
	g.Expect(client.Cycle(ctx)).To(Succeed())
	expect(bmc.PowerOn)
	g.Expect(machine.CommandNames()).To(Equal([]string{"Boot=Pxe", "On", "PowerCycle", "GracefulShutdown", "ForceOff", "On"}))
}

// TestPowerTakesTime: the state that is read back is the server's, not the command's.
func TestPowerTakesTime(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	_, endpoint := newMachine(t, 50*time.Millisecond)
	client := open(t, endpoint)
	g.Expect(client.PowerOn(ctx)).To(Succeed())
	g.Expect(client.PowerState(ctx)).To(Equal(bmc.PowerOff))
	g.Eventually(func() (bmc.PowerState, error) { return client.PowerState(ctx) }).Should(Equal(bmc.PowerOn))
}

func TestInspect(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, 0)
	inventory, err := open(t, endpoint).Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory).To(Equal(bmc.Inventory{
		Manufacturer: "Emulated", Model: "bmctest", SerialNumber: "SN-s1", SystemUUID: "4c4c4544-0000-1111-2222-333344445555",
		FirmwareVersion: "1.0", BMCFirmwareVersion: "1.0", CPUModel: "Emulated CPU", CPUSockets: 1, CPUThreads: 16, MemoryMiB: 64 << 10,
		Disks: []bmc.Disk{{Name: "1", SizeBytes: 480 << 30}},
		NICs:  []bmc.NIC{{Name: "1", MACAddress: "52:54:00:00:00:01", LinkUp: true}},
	}))
}

func TestSessionsAreClosed(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t, 0)
	endpoint.URL.RawQuery = "auth=session"
	client, err := (&redfish.Driver{}).Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(machine.Sessions()).To(Equal(1))
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	g.Expect(client.Close(t.Context())).To(Succeed())
	g.Expect(machine.Sessions()).To(BeZero())

	endpoint.URL.Path = "/redfish/v1/Systems/7"
	_, err = (&redfish.Driver{}).Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
	g.Expect(machine.Sessions()).To(BeZero(), "also when Open fails")
}

func TestErrors(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t, 0)
	kind := func(e bmc.Endpoint) bmc.Kind {
		_, err := (&redfish.Driver{}).Open(t.Context(), e)
		g.Expect(err).To(HaveOccurred())
		return bmc.KindOf(err)
	}
	wrong := endpoint
	wrong.Password = "guess"
	g.Expect(kind(wrong)).To(Equal(bmc.Unauthorized))
	machine.SetDown(true)
	g.Expect(kind(endpoint)).To(Equal(bmc.Unreachable))
	nobody := endpoint
	nobody.URL = &url.URL{Scheme: redfish.SchemeInsecure, Host: "127.0.0.1:1"}
	g.Expect(kind(nobody)).To(Equal(bmc.Unreachable))
}

func TestTLS(t *testing.T) {
	g := NewWithT(t)
	machine, _ := newMachine(t, 0)
	server := httptest.NewTLSServer(machine)
	t.Cleanup(server.Close)
	endpoint := endpointOf(t, server, redfish.Scheme)

	_, err := (&redfish.Driver{}).Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate), "an unknown certificate is refused by default: %v", err)

	trusted := endpoint
	trusted.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	open(t, trusted)
	skipped := endpoint
	skipped.InsecureSkipVerify = true
	open(t, skipped)

	garbage := endpoint
	garbage.CA = []byte("no certificate")
	_, err = (&redfish.Driver{}).Open(t.Context(), garbage)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate))
}

// TestSystems: without a path, the one real system is found among decoys; several are an error that lists them.
func TestSystems(t *testing.T) {
	machine, _ := newMachine(t, 0)
	serve := func(members string) bmc.Endpoint {
		mux := http.NewServeMux()
		mux.Handle("/", machine)
		mux.HandleFunc("/redfish/v1/Systems", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"@odata.id":"/redfish/v1/Systems","Members":[` + members + `]}`))
		})
		mux.HandleFunc("/redfish/v1/Systems/2", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"@odata.id":"/redfish/v1/Systems/2","PowerState":"On"}`))
		})
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return endpointOf(t, server, redfish.SchemeInsecure)
	}
	g := NewWithT(t)
	one := `{"@odata.id":"/redfish/v1/Systems/1"}`
	g.Expect(open(t, serve(one+`,{"@odata.id":"/redfish/v1/Systems/decoy"}`)).PowerState(t.Context())).To(Equal(bmc.PowerOff))
	_, err := (&redfish.Driver{}).Open(t.Context(), serve(one+`,{"@odata.id":"/redfish/v1/Systems/2"}`))
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
	g.Expect(err).To(MatchError(And(ContainSubstring("/redfish/v1/Systems/1"), ContainSubstring("/redfish/v1/Systems/2"))))
	_, err = (&redfish.Driver{}).Open(t.Context(), serve(""))
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
}
