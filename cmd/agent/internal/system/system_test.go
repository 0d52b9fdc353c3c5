package system

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

const base = "console=ttyS0 capbm.server=http://10.0.0.1:8080/ capbm.host=default/host-1 capbm.token=abc"

func encode(t *testing.T, n *seed.Network) string {
	t.Helper()
	content, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString(content)
}

func bonded() *seed.Network {
	return &seed.Network{
		Interfaces: []seed.Interface{{Name: "lan0", MAC: "52:54:00:00:00:01"}, {Name: "lan1", MAC: "52:54:00:00:00:02"}},
		Bonds:      []seed.Bond{{Name: "bond0", Interfaces: []string{"lan0", "lan1"}, Mode: "active-backup"}},
		VLANs: []seed.VLAN{{Name: "bond0.7", ID: 7, Link: "bond0", Settings: seed.Settings{
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")},
			Routes:    []seed.Route{{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.0.0.1")}},
		}}},
	}
}

func TestParseParameters(t *testing.T) {
	g := NewWithT(t)
	p, err := ParseParameters(base + " capbm.pins=a,b capbm.network=" + encode(t, bonded()) + "\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(p).To(Equal(Parameters{Server: "http://10.0.0.1:8080", Host: "default/host-1", Token: "abc", Pins: []string{"a", "b"}, Network: bonded()}))
	for value, want := range map[string]bool{"first": true, "": false, "other": false} {
		p, err = ParseParameters(base + " capbm.static=" + value)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(p.StaticFirst).To(Equal(want), value)
	}
}

func TestParseParametersRefuses(t *testing.T) {
	bad := func(change func(*seed.Network)) string {
		n := bonded()
		change(n)
		return base + " capbm.network=" + encode(t, n)
	}
	for _, c := range []struct{ line, want string }{
		{"quiet", "has no capbm.server"},
		{"capbm.server=http://1 capbm.host=a/b", "has no capbm.token"},
		{base + " capbm.server=ftp://10.0.0.1", "no URL with http"},
		{base + " capbm.server=https://10.0.0.1", "no capbm.pins"},
		{base + " capbm.host=name", "not namespace/name"},
		{base + " capbm.host=a/b/c", "not namespace/name"},
		{base + " capbm.network=!", "illegal base64"},
		{base + " capbm.network=" + base64.RawURLEncoding.EncodeToString([]byte("[]")), "cannot unmarshal"},
		{bad(func(n *seed.Network) { n.Interfaces[1].Name = "lan0" }), "used twice"},
		{bad(func(n *seed.Network) { n.Interfaces[1].Name = "a-name-of-16-byte" }), "too long"},
		{bad(func(n *seed.Network) { n.Bonds[0].Interfaces[1] = "lan7" }), "lan7"},
		{bad(func(n *seed.Network) { n.VLANs[0].ID = 4095 }), "4095"},
		{bad(func(n *seed.Network) { n.VLANs[0].Link = "lan9" }), "lan9"},
		{bad(func(n *seed.Network) { n.VLANs[0].Routes[0].Via = netip.MustParseAddr("fd00::1") }), "a route of bond0.7"},
		{bad(func(n *seed.Network) { n.VLANs[0].Addresses = []netip.Prefix{{}} }), "an address of bond0.7"},
	} {
		if _, err := ParseParameters(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, and not %q", c.line, err, c.want)
		}
	}
}

func FuzzParseParameters(f *testing.F) {
	f.Add(base)
	f.Add(base + " capbm.network=e30")
	f.Fuzz(func(_ *testing.T, line string) { _, _ = ParseParameters(line) })
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no console") }

func TestLog(t *testing.T) {
	g := NewWithT(t)
	l := &Log{To: broken{}, Max: 100}
	g.Expect(l.Tail()).To(BeEmpty())
	var all strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		all.WriteString(line)
		_, err := l.Write([]byte(line))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(l.Tail())).To(BeNumerically("<=", 100))
		g.Expect(all.String()).To(HaveSuffix(l.Tail()))
		g.Expect(l.Tail()).To(HavePrefix("line "))
	}
	_, _ = l.Write([]byte(strings.Repeat("x", 500)))
	g.Expect(l.Tail()).To(Equal(strings.Repeat("x", 100)))
}

func TestLogConcurrent(_ *testing.T) {
	l := &Log{Max: 64}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				_, _ = l.Write([]byte("text\n"))
				_ = l.Tail()
			}
		})
	}
	all.Wait()
}
