package ipmi_test

import (
	"net"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestLoginFromAnotherPort: a BMC that answers nothing to one port of the client, as virtualbmc does for a port that had a session, gets a login from another.
func TestLoginFromAnotherPort(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, options())
	client, err := hasty.Open(t.Context(), deafToFirst(t, endpoint))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	g.Expect(client.Close(t.Context())).To(Succeed())
}

// deafToFirst relays the packets between a client and a BMC, without those of the first port of the client. It returns the endpoint of the relay.
func deafToFirst(t *testing.T, endpoint bmc.Endpoint) bmc.Endpoint {
	t.Helper()
	g := NewWithT(t)
	clients, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	g.Expect(err).NotTo(HaveOccurred())
	machine, err := net.Dial("udp", endpoint.URL.Host) //nolint:noctx // UDP connects at once
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(clients.Close()).To(Succeed()); g.Expect(machine.Close()).To(Succeed()) })
	var second atomic.Pointer[net.UDPAddr]
	go func() {
		buffer, first := make([]byte, 1500), 0
		for {
			n, from, err := clients.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			if first == 0 {
				first = from.Port
			}
			if from.Port != first {
				second.Store(from)
				_, _ = machine.Write(buffer[:n])
			}
		}
	}()
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, err := machine.Read(buffer)
			if err != nil {
				return
			}
			_, _ = clients.WriteToUDP(buffer[:n], second.Load())
		}
	}()
	relayed := *endpoint.URL
	relayed.Host = clients.LocalAddr().String()
	endpoint.URL = &relayed
	return endpoint
}
