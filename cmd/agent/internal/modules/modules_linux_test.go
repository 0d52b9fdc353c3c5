package modules

import (
	"path"
	"strings"
	"testing"
	"testing/fstest"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"pci:v00008086d000010D3sv*sd*bc*sc*i*", "pci:v00008086d000010D3sv00008086sd00000000bc02sc00i00", true},
		{"pci:v00008086d000010D3sv*sd*bc*sc*i*", "pci:v00008086d000010D4sv00008086sd00000000bc02sc00i00", false},
		{"pci:v*d*sv*sd*bc01sc08i02*", "pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02", true},
		{"acpi*:IPI0001:*", "acpi:IPI0001:", true},
		{"mdio:0000000101000001000011011101????", "mdio:00000001010000010000110111010001", true},
		{"x[0-2a]y", "x1y", true}, {"x[0-2a]y", "xay", true}, {"x[0-2a]y", "x3y", false}, {"x[0-2", "x1", false}, {"x[", "x[", false},
		{"*", "", true}, {"", "", true}, {"", "a", false}, {"a**b", "a/b", true}, {"a*b*c", "abbcbc", true},
	} {
		if got := Match(c.pattern, c.text); got != c.want {
			t.Errorf("Match(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
}

// TestPropertyMatch: without slashes, and for well-formed patterns, the result is that of path.Match.
func TestPropertyMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*", "?", "[ab]", "[a-c]", "[b]"}), 0, 8).Draw(t, "pattern"), "")
		text := rapid.StringMatching("[abcd]{0,10}").Draw(t, "text")
		want, err := path.Match(pattern, text)
		if err != nil {
			t.Fatal(err)
		}
		if got := Match(pattern, text); got != want {
			t.Fatalf("Match(%q, %q) = %t, and path.Match says %t", pattern, text, got, want)
		}
	})
}

func FuzzMatch(f *testing.F) {
	f.Add("pci:v*d*", "pci:v1d2")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		_ = Match(pattern, text)
		if !strings.ContainsAny(text, "*?[") && !Match(text, text) {
			t.Errorf("%q does not match itself", text)
		}
	})
}

func index(t *testing.T) *Index {
	t.Helper()
	x, err := ReadIndex(fstest.MapFS{
		"modules.dep": {Data: []byte("kernel/net/e1000e.ko: kernel/ptp/ptp.ko kernel/pps/pps-core.ko\nkernel/ptp/ptp.ko: kernel/pps/pps-core.ko\nkernel/pps/pps-core.ko:\n" +
			"kernel/lib/libcrc32c.ko:\nkernel/crypto/crc32c_generic.ko:\nkernel/crypto/crc32c-intel.ko:\n" +
			"ipmi/ipmi_msghandler.ko:\nipmi/ipmi_devintf.ko: ipmi/ipmi_msghandler.ko\nipmi/ipmi_si.ko: ipmi/ipmi_msghandler.ko\n")},
		"modules.alias":   {Data: []byte("# aliases\nalias pci:v00008086d*sv* e1000e\nalias crypto-crc32c crc32c_generic\nalias crypto-crc32c crc32c_intel\nalias a*:b e1000e\n")},
		"modules.softdep": {Data: []byte("softdep libcrc32c pre: crypto-crc32c\nsoftdep ipmi_msghandler post: ipmi_devintf\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestIndex(t *testing.T) {
	g := NewWithT(t)
	x := index(t)
	g.Expect(x.Find("pci:v00008086d1sv2")).To(Equal([]string{"e1000e"}))
	g.Expect(x.Find("pps-core")).To(Equal([]string{"pps_core"}))
	g.Expect(x.Find("acpi:b")).To(Equal([]string{"e1000e"}))
	g.Expect(x.Find("usb:v1")).To(BeEmpty())
	g.Expect(x.Order("e1000e")).To(Equal([]string{"pps_core", "ptp", "e1000e"}))
	g.Expect(x.Order("libcrc32c")).To(Equal([]string{"crc32c_generic", "crc32c_intel", "libcrc32c"}))
	g.Expect(x.Order("ipmi_si")).To(Equal([]string{"ipmi_msghandler", "ipmi_devintf", "ipmi_si"}), "ipmi_devintf needs the module that it follows")
	g.Expect(x.Order("ipmi_devintf")).To(Equal([]string{"ipmi_msghandler", "ipmi_devintf"}))
	g.Expect(x.File("pps_core")).To(Equal("kernel/pps/pps-core.ko"))
}

func TestIndexMissing(t *testing.T) {
	if _, err := ReadIndex(fstest.MapFS{}); err == nil {
		t.Error("a folder without an index is no error")
	}
}

func TestParameters(t *testing.T) {
	g := NewWithT(t)
	const line = "console=ttyS0 nvme-core.default_ps_max_latency_us=0 quiet nvme_core.io_timeout=60 bonding.debug mpt3sas.x=a.b=c capbm.host=dc/h x=/a/nvme.b=c\n"
	g.Expect(parameters("nvme_core", line)).To(Equal("default_ps_max_latency_us=0 io_timeout=60"))
	g.Expect(parameters("mpt3sas", line)).To(Equal("x=a.b=c"))
	g.Expect(parameters("bonding", line)).To(Equal("debug max_bonds=0"))
	g.Expect(parameters("nvme", line)).To(BeEmpty())
}

func TestAliasOf(t *testing.T) {
	g := NewWithT(t)
	g.Expect(aliasOf("add@/devices/x\x00ACTION=add\x00MODALIAS=pci:v1\x00SEQNUM=3\x00")).To(Equal("pci:v1"))
	g.Expect(aliasOf("remove@/devices/x\x00ACTION=remove\x00MODALIAS=pci:v1\x00")).To(BeEmpty())
	g.Expect(aliasOf("add@/devices/x\x00ACTION=add\x00")).To(BeEmpty())
	g.Expect(aliasOf("")).To(BeEmpty())
}
