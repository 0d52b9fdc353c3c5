package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// TestParseMediaURL: the values of --boot-media-url.
func TestParseMediaURL(t *testing.T) {
	for text, want := range map[string]string{ // the entry as "network url", or the start of the error
		"https://boot.example":               "invalid Prefix https://boot.example",
		"https://boot.example:6183/":         "invalid Prefix https://boot.example:6183",
		"http://[2001:db8::1]:8080/capbm/":   "invalid Prefix http://[2001:db8::1]:8080/capbm",
		"192.0.2.7/24=http://192.0.2.1":      "192.0.2.0/24 http://192.0.2.1",
		"2001:db8::/64=http://[2001:db8::1]": "2001:db8::/64 http://[2001:db8::1]",
		"192.0.2.7=http://192.0.2.1":         `"192.0.2.7" is not a network`,
		"ftp://192.0.2.1":                    `"ftp://192.0.2.1" is not an http or https URL`,
		"":                                   `"" is not an http or https URL`,
		"192.0.2.0/24=":                      `"" is not an http or https URL`,
		"http://":                            `"http:" is not an http or https URL`,
		"http://user:password@192.0.2.1":     `"http://user:xxxxx@192.0.2.1" has credentials`,
		"http://192.0.2.1/?a=b":              `"http://192.0.2.1/?a=b" has credentials, a query`,
		"http://192.0.2.1/#x":                `"http://192.0.2.1/#x" has credentials, a query or a fragment`,
		"http://192.0.2.1/%zz":               "it is not a URL",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			got, err := ParseMediaURL(text)
			if err != nil {
				g.Expect(err.Error()).To(HavePrefix(want))
				return
			}
			g.Expect(fmt.Sprint(got.Network, " ", got.URL)).To(Equal(want))
		})
	}
}

// TestMediaURLs: the URL of a BMC is that of the smallest network that has it.
func TestMediaURLs(t *testing.T) {
	g := NewWithT(t)
	var all MediaURLs
	for _, text := range []string{"192.0.2.0/24=http://wide", "http://other", "192.0.2.128/25=http://narrow", "2001:db8::/64=http://six"} {
		entry, err := ParseMediaURL(text)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, entry)
	}
	for address, want := range map[string]string{
		"redfish://192.0.2.7":              "http://wide",
		"redfish+http://192.0.2.200:8000/": "http://narrow",
		"redfish://[2001:db8::7]/x":        "http://six",
		"redfish://[::ffff:192.0.2.7]":     "http://wide",
		"redfish://198.51.100.7":           "http://other",
		"redfish://bmc.example":            "http://other",
		"%":                                "http://other",
	} {
		g.Expect(all.For(address)).To(Equal(want), address)
	}
	g.Expect(MediaURLs{}.For("redfish://192.0.2.7")).To(BeEmpty())
	g.Expect(all[:1].For("redfish://198.51.100.7")).To(BeEmpty())
}

// echoBMC is a BMC that puts the URL that it was given into its errors.
type echoBMC struct {
	*scriptedBMC

	kind bmc.Kind
}

func (e *echoBMC) InsertMedia(_ context.Context, image string) error {
	return &bmc.Error{Kind: e.kind, Op: "Insert the image", Err: errors.New(`the BMC answered: cannot fetch "` + image + `"`)}
}

// TestMediaTokenIsMasked: the token of a medium is in no error, warning or operation, whatever a BMC answers.
func TestMediaTokenIsMasked(t *testing.T) {
	const token = "AbC-d_ef0123456789"
	offerMedia := func(r *Reconciler) {
		r.MediaURLs = MediaURLs{{URL: "http://192.0.2.1"}}
		r.MediaToken = func(context.Context, *v1alpha1.BareMetalBoot) (string, error) { return token, nil }
	}
	for _, kind := range []bmc.Kind{bmc.Failed, bmc.Unsupported, bmc.Unreachable} {
		for _, next := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, next), func(t *testing.T) {
				g := NewWithT(t)
				r, j := newTestReconciler(t, offerMedia)
				j.method, j.hasNextMethod = v1alpha1.MethodVirtualMedia, next
				c := &echoBMC{&scriptedBMC{}, kind}
				err := r.performer.jobs.executor.boot.setNetworkBoot(t.Context(), j, c)
				g.Expect(err).To(HaveOccurred())
				g.Expect(err.Error()).To(And(ContainSubstring("/media/dc/h/..."), Not(ContainSubstring(token))))
				g.Expect(bmc.KindOf(err)).To(Equal(kind), "the mask keeps the kind")
				for cause := err; cause != nil; cause = errors.Unwrap(cause) { // the pool of connections keeps the innermost one
					g.Expect(cause.Error()).NotTo(ContainSubstring(token))
				}
				g.Expect(controllers.BMCProblem(err, 1, r.Clock.Now()).Message).NotTo(ContainSubstring(token))
				got := r.observations.get(j.key)
				g.Expect(got.bmc.MediaInserted).To(BeTrue(), "the BMC may have inserted it")
				g.Expect(errors.As(err, new(*finalError))).To(Equal(next && kind != bmc.Unreachable))
				if next && kind != bmc.Unreachable {
					g.Expect(got.bmc.MethodRefused.Boot).To(Equal(int32(1)))
					g.Expect(got.bmc.MethodRefused.Message).NotTo(ContainSubstring(token))
				} else {
					g.Expect(got.bmc.MethodRefused).To(BeNil())
				}
			})
		}
	}
	g := NewWithT(t)
	r, j := newTestReconciler(t, offerMedia)
	j.method = v1alpha1.MethodUefiHTTP
	c := &scriptedBMC{set: func(o bmc.BootOverride, _ bmc.BootMethod) (bmc.BootResult, error) {
		return bmc.BootResult{Doubt: "the BMC accepted the URL " + o.URI + " and reports none"}, nil
	}}
	g.Expect(r.performer.jobs.executor.boot.setNetworkBoot(t.Context(), j, c)).To(Succeed())
	g.Expect(r.observations.get(j.key).override.Warning).To(And(ContainSubstring("/media/dc/h/..."), Not(ContainSubstring(token))))
}

// TestPropertyMask: a token is masked wherever its URL is, also where slashes are escaped, and other text stays.
func TestPropertyMask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`[A-Za-z0-9_-]{20,43}`).Draw(t, "token")
		path := pxe.MediaPath("dc/host-1", token)
		slash := rapid.SampledFrom([]string{"/", `\/`, "%2F", "%2f"}).Draw(t, "slash")
		escaped := strings.ReplaceAll(path, "/", slash)
		before, after := rapid.StringMatching(`[ a-z:"]{0,9}`).Draw(t, "before"), rapid.StringMatching(`["' ][a-z ]{0,9}`).Draw(t, "after")
		cut := rapid.IntRange(0, len(slash+"boot.iso")).Draw(t, "cut")
		text := before + "http://192.0.2.1" + escaped[:len(escaped)-cut] + after
		masked := maskMedia(text)
		NewWithT(t).Expect(masked).NotTo(ContainSubstring(token))
		NewWithT(t).Expect(masked).To(And(HavePrefix(before), HaveSuffix(after)))
	})
	NewWithT(t).Expect(maskMedia("no media/at all")).To(Equal("no media/at all"))
}

// TestOfferedMethods: which methods a BMC offers.
func TestOfferedMethods(t *testing.T) {
	g := NewWithT(t)
	g.Expect(offeredMethods(nil)).To(BeNil(), "unknown")
	g.Expect(offeredMethods([]string{"PowerOn"})).To(And(BeEmpty(), Not(BeNil())))
	g.Expect(offeredMethods([]string{"BootPXE"})).To(Equal([]v1alpha1.BootMethod{v1alpha1.MethodPXE}))
	g.Expect(offeredMethods([]string{"BootHTTP"})).To(Equal([]v1alpha1.BootMethod{v1alpha1.MethodPXE, v1alpha1.MethodUefiHTTP}))
	g.Expect(offeredMethods([]string{"BootCD"})).To(BeEmpty(), "a CD drive that takes no image")
	g.Expect(offeredMethods([]string{"BootCD", "VirtualMedia", "BootPXE"})).To(Equal([]v1alpha1.BootMethod{v1alpha1.MethodPXE, v1alpha1.MethodVirtualMedia}))
}

// TestMissingForBoot: the network as a boot device is not missing where it is not needed.
func TestMissingForBoot(t *testing.T) {
	g := NewWithT(t)
	can := []string{"PowerOn", "ForceOff", "VirtualMedia", "BootCD"}
	missing := func(url string, mode v1alpha1.BootMode, methods ...v1alpha1.BootMethod) []string {
		return missingForBoot(can, &v1alpha1.BareMetalHostSpec{BootMode: mode, BootMethods: methods}, url)
	}
	g.Expect(missing("http://a", v1alpha1.BootModeUEFI)).To(BeEmpty())
	g.Expect(missing("", v1alpha1.BootModeUEFI)).To(ConsistOf("BootPXE"))
	g.Expect(missing("http://a", v1alpha1.BootModeBIOS)).To(BeEmpty(), "a BIOS boots from a CD")
	g.Expect(missingForBoot([]string{"PowerOn", "ForceOff", "BootHTTP"}, &v1alpha1.BareMetalHostSpec{BootMode: v1alpha1.BootModeBIOS}, "http://a")).To(ConsistOf("BootPXE"))
	g.Expect(missing("http://a", v1alpha1.BootModeUEFI, v1alpha1.MethodPXE)).To(ConsistOf("BootPXE"))
	g.Expect(missing("http://a", v1alpha1.BootModeUEFI, v1alpha1.MethodPXE, v1alpha1.MethodVirtualMedia)).To(BeEmpty())
	g.Expect(missing("", v1alpha1.BootModeUEFI, v1alpha1.MethodVirtualMedia)).To(BeEmpty(), "the lifecycle says what the method lacks")
}
