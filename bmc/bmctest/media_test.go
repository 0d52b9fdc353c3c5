package bmctest_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

const (
	bootMediaCheck = "the server boots from virtual media"
	bootImage      = "http://192.0.2.1/tok-0123456789abcdef/boot.iso"
)

// bootable is a server whose firmware reads the image that it boots from, with a subject that counts the bytes.
func bootable(t *testing.T, opts bmctest.Options) (*bmctest.Machine, bmctest.Subject, *atomic.Int64) {
	t.Helper()
	read := &atomic.Int64{}
	opts.Run = func(_ context.Context, target bmc.BootTarget, booted func()) {
		if target == bmc.BootCD {
			read.Add(2048)
		}
		booted()
	}
	machine, subject := emulated(t, opts, "")
	subject.BootMedia = &bmctest.BootMedia{URL: bootImage, Read: read.Load, Size: 1 << 20, Timeout: 300 * time.Millisecond}
	return machine, subject, read
}

// TestBootMedia: the server is booted from the image in the provider's order, and the proof is that the image is read after the power-on.
func TestBootMedia(t *testing.T) {
	for name, test := range map[string]struct {
		fault      bmctest.Fault
		change     func(*bmctest.BootMedia)
		verdict    bmctest.Verdict
		says       string
		unverified string
	}{
		"well": {verdict: bmctest.Passed},
		"boots the disk": {
			fault: bmctest.OverrideReverts, verdict: bmctest.Failed,
			says: "the BMC did not read the image within 300ms after the power-on; it read 0 of 1048576 bytes before",
		},
		"reads cannot be observed": {
			change: func(m *bmctest.BootMedia) { m.Read = nil }, verdict: bmctest.Passed, unverified: "the BMC reports that the override was used; whether",
		},
		"neither can the override": {
			fault: bmctest.OverrideNeverResets, change: func(m *bmctest.BootMedia) { m.Read = nil }, verdict: bmctest.Failed, says: "does not report within 300ms",
		},
		"all was read before": {
			change:  func(m *bmctest.BootMedia) { m.Read = func() int64 { return m.Size } },
			verdict: bmctest.Passed, unverified: "the BMC read the whole image before the power-on",
		},
		"no licence": {fault: bmctest.MediaUnlicensed, verdict: bmctest.Failed, says: "install the licence"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			machine, subject, _ := bootable(t, bmctest.Options{On: true})
			if test.change != nil {
				test.change(subject.BootMedia)
			}
			if test.fault != "" {
				g.Expect(machine.Misbehave(test.fault, -1)).To(Succeed())
			}
			result := resultOf(t, subject, bootMediaCheck)
			g.Expect(result.Verdict).To(Equal(test.verdict), result.Error)
			g.Expect(result.Error).To(ContainSubstring(test.says))
			g.Expect(result.Unverified).To(HavePrefix(test.unverified))
			g.Expect(result.Error).NotTo(ContainSubstring("tok-"))
			g.Expect(machine.On()).To(BeTrue(), "as it was found")
			g.Expect(machine.Image()).To(BeEmpty())
			if name == "well" {
				g.Expect(lastOrder(machine)).To(Equal([]string{"Media=" + bootImage, "Boot=CD", "On", "ForceOff", "Media="}))
			}
		})
	}
}

// lastOrder returns the commands of the boot from the image: the last insertion and what follows it.
func lastOrder(machine *bmctest.Machine) []string {
	names := machine.CommandNames()
	last := 0
	for i, name := range names {
		if name == "Media="+bootImage {
			last = i
		}
	}
	return names[last:min(len(names), last+5)]
}

// TestBootMediaInterrupted: a server that runs from the image is switched off before the image is ejected.
func TestBootMediaInterrupted(t *testing.T) {
	g := NewWithT(t)
	machine, subject, read := bootable(t, bmctest.Options{On: true})
	subject.BootMedia.Read = func() int64 { return 0 }
	subject.BootMedia.Timeout = time.Minute
	outcome, err := interrupt(t, subject, func() bool { return read.Load() > 0 })
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(outcome.Restored).To(BeTrue())
	g.Expect(machine.Image()).To(BeEmpty())
	g.Expect(machine.On()).To(BeTrue())
	names := machine.CommandNames()
	eject := len(names) - 1 - slices.Index(reversed(names), "Media=")
	g.Expect(names[eject-1]).To(Equal("ForceOff"))
}

func reversed(names []string) []string {
	names = slices.Clone(names)
	slices.Reverse(names)
	return names
}
