package lldp_test

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/lldp"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// tlv encodes a TLV.
func tlv(kind int, value string) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(kind<<9|len(value))), value...)
}

func frame(tlvs ...[]byte) []byte {
	var out []byte
	for _, t := range tlvs {
		out = append(out, t...)
	}
	return out
}

var required = frame(tlv(1, "\x04\x00\x11\x22\x33\x44\x55"), tlv(2, "\x05Ethernet1/7"), tlv(3, "\x00\x78"))

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name  string
		frame []byte
		want  wire.InspectedNeighbor
		err   string
	}{
		{"the least", frame(required, tlv(0, "")), wire.InspectedNeighbor{ChassisID: "00:11:22:33:44:55", PortID: "Ethernet1/7"}, ""},
		{"without an end", required, wire.InspectedNeighbor{ChassisID: "00:11:22:33:44:55", PortID: "Ethernet1/7"}, ""},
		{
			"all", frame(required, tlv(4, "to node-1"), tlv(5, "leaf-1.example.com"), tlv(6, "Network OS\nversion 1"), tlv(7, "\x00\x14\x00\x04"),
				tlv(8, "\x05\x01\xc0\x00\x02\x07\x02\x00\x00\x00\x01\x00"), tlv(8, "\x05\x01\xc0\x00\x02\x08\x02\x00\x00\x00\x01\x00"), tlv(127, "\x00\x80\xc2\x01\x00\x64"),
				tlv(127, "\x00\x12\x0f\x01\x00\x64"), tlv(0, "")),
			wire.InspectedNeighbor{
				ChassisID: "00:11:22:33:44:55", PortID: "Ethernet1/7", PortDescription: "to node-1", SystemName: "leaf-1.example.com",
				SystemDescription: "Network OS version 1", ManagementAddress: "192.0.2.7", VLAN: 100,
			}, "",
		},
		{
			"other subtypes", frame(tlv(1, "\x05\x01\xc0\x00\x02\x01"), tlv(2, "\x03\x00\x11\x22\x33\x44\x66"), tlv(3, "\x00\x01"),
				tlv(8, "\x11\x02\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x01")),
			wire.InspectedNeighbor{ChassisID: "192.0.2.1", PortID: "00:11:22:33:44:66", ManagementAddress: "2001:db8::1"}, "",
		},
		{
			"damaged optional TLVs", frame(required, tlv(8, "\xff\x01"), tlv(8, ""), tlv(127, "\x00\x80\xc2\x01\x00"), tlv(127, "\x00\x80\xc2\x01\xff\xff"), tlv(5, "a\x00\xffb"), []byte{0x0c, 0xff, 'x'}),
			wire.InspectedNeighbor{ChassisID: "00:11:22:33:44:55", PortID: "Ethernet1/7", SystemName: "ab"}, "",
		},
		{"repeated IDs", frame(required, tlv(1, ""), tlv(2, "\x05other")), wire.InspectedNeighbor{ChassisID: "00:11:22:33:44:55", PortID: "Ethernet1/7"}, ""},
		{"empty", nil, wire.InspectedNeighbor{}, "no TLV of the type 1"},
		{"another order", frame(tlv(2, "\x05a"), tlv(1, "\x07b"), tlv(3, "\x00\x78")), wire.InspectedNeighbor{}, "no TLV of the type 1"},
		{"no TTL", frame(tlv(1, "\x07b"), tlv(2, "\x05a"), tlv(0, "")), wire.InspectedNeighbor{}, "no TLV of the type 3"},
		{"an empty ID", frame(tlv(1, "\x07"), tlv(2, "\x05a"), tlv(3, "\x00\x78")), wire.InspectedNeighbor{}, "no TLV of the type 1"},
		{"goes down", frame(tlv(1, "\x07b"), tlv(2, "\x05a"), tlv(3, "\x00\x00")), wire.InspectedNeighbor{}, "goes down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := lldp.Parse(c.frame)
			if c.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
		})
	}
}

func texts(n wire.InspectedNeighbor) []string {
	return []string{n.ChassisID, n.PortID, n.PortDescription, n.SystemName, n.SystemDescription, n.ManagementAddress}
}

// TestTexts: whatever a switch sends as a text is bounded and can be shown.
func TestTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		value := rapid.SliceOfN(rapid.Byte(), 0, 511).Draw(t, "text")
		n, err := lldp.Parse(frame(required, tlv(rapid.IntRange(4, 8).Draw(t, "type"), string(value))))
		g.Expect(err).NotTo(HaveOccurred())
		for _, text := range texts(n) {
			g.Expect(len(text)).To(BeNumerically("<=", 255))
			g.Expect(utf8.ValidString(text)).To(BeTrue())
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(frame(required, tlv(8, "\x05\x01\xc0\x00\x02\x07\x02\x00\x00\x00\x01\x00"), tlv(127, "\x00\x80\xc2\x01\x00\x64"), tlv(0, "")))
	// From the example of a frame in the public capture "lldp.minimal" of the Wireshark wiki, without its Ethernet header.
	minimal, err := hex.DecodeString("0207040004968f0a2b" + "0403053137" + "06020078" + "0000")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(minimal)
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := lldp.Parse(data)
		if err != nil && n != (wire.InspectedNeighbor{}) {
			t.Fatal("a neighbour and an error")
		}
		for _, text := range texts(n) {
			if len(text) > 255 || !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\n") {
				t.Fatalf("%q", text)
			}
		}
		if n.VLAN < 0 || n.VLAN > 4094 {
			t.Fatal(n.VLAN)
		}
	})
}

// network stands for the network, whose frames tests send.
type network struct {
	mu       sync.Mutex
	ports    map[string]*port
	open     map[string]error
	release  error
	released []string
}

func (w *network) Open(name string) (lldp.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.open[name]; err != nil {
		return nil, err
	}
	if w.ports == nil {
		w.ports = map[string]*port{}
	}
	w.ports[name] = &port{frames: make(chan any), closed: make(chan struct{})}
	return w.ports[name], nil
}

func (w *network) ReleaseFrames(name string) (bool, error) {
	w.released = append(w.released, name)
	return w.release == nil, w.release
}

// port gets frames and errors.
type port struct {
	frames chan any
	closed chan struct{}
}

func (p *port) Receive() ([]byte, error) {
	select {
	case f := <-p.frames:
		if err, ok := f.(error); ok {
			return nil, err
		}
		return f.([]byte), nil
	case <-p.closed:
		return nil, io.ErrClosedPipe
	}
}

func (p *port) Close() error { close(p.closed); return nil }

// TestListen: every interface listens at once, late frames count, and Close ends everything.
func TestListen(t *testing.T) {
	g := NewWithT(t)
	w := &network{open: map[string]error{"eno4": errors.New("operation not permitted")}, release: errors.New("not supported")}
	l := lldp.Listen(w, []lldp.Interface{{Name: "eno1"}, {Name: "eno2"}, {Name: "eno2"}, {Name: "eno3", Driver: "i40e"}, {Name: "eno4"}, {Name: "eno5", Driver: "ice"}, {Name: "eno6", Driver: "ice"}})
	w.ports["eno1"].frames <- errors.New("the network is down")
	w.ports["eno1"].frames <- []byte("rubbish")
	w.ports["eno1"].frames <- required
	w.ports["eno2"].frames <- required
	w.ports["eno2"].frames <- frame(tlv(1, "\x07b"), tlv(2, "\x05a"), tlv(3, "\x00\x78"))
	w.ports["eno6"].frames <- []byte("rubbish")
	w.ports["eno6"].frames <- errors.New("so that the frame before is done with")
	w.ports["eno2"].frames <- errors.New("so that the frame before is done with")
	l.Wait(t.Context(), func() []string { return []string{"eno1", "eno2"} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.Wait(ctx, func() []string { return []string{"eno3"} })

	nics := []wire.InspectedNIC{{Name: "eno1"}, {Name: "eno2"}, {Name: "eno3", LinkUp: true}, {Name: "eno4"}, {Name: "eno5", LinkUp: true}, {Name: "eno6", LinkUp: true}, {Name: "eno7", Driver: "i40e"}}
	problems := l.Apply(nics)
	g.Expect(nics[0].Neighbor).To(HaveField("PortID", "Ethernet1/7"))
	g.Expect(nics[1].Neighbor).To(HaveField("ChassisID", "b"), "the last neighbour counts")
	g.Expect(nics[2].Neighbor).To(BeNil())
	g.Expect(problems).To(ConsistOf(
		"network interface eno3: the firmware's LLDP agent cannot be switched off: not supported",
		"network interface eno4: cannot listen for LLDP: operation not permitted",
		ContainSubstring("eno5: the link is up and no LLDP frame came: the firmware of ice adapters"),
		ContainSubstring("eno6: an LLDP frame is not valid"),
	))
	g.Expect(w.released).To(Equal([]string{"eno3"}), "the setting of ice outlives a power cycle, so it is not changed")
	g.Expect(l.Close()).To(Succeed())
	g.Expect(l.Apply(nil)).To(HaveLen(3))
}

// TestBrokenInterface: an interface that always fails is given up.
func TestBrokenInterface(t *testing.T) {
	g := NewWithT(t)
	w := &network{}
	l := lldp.Listen(w, []lldp.Interface{{Name: "eno1"}})
	for range 16 {
		w.ports["eno1"].frames <- errors.New("input/output error")
	}
	g.Eventually(func() []string { return l.Apply(nil) }).Should(ConsistOf("network interface eno1: cannot receive LLDP frames: input/output error"))
	g.Expect(l.Close()).To(Succeed())
}
