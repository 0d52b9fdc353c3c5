package main

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/simtest"
)

const mediaImage = "http://192.0.2.5/tok-0123456789abcdef/boot.iso"

func TestMedia(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1")
	server := s.Servers()[0]
	status := func(args ...string) outcome {
		t.Helper()
		return bmcctl(t, credentials, append([]string{"media", "status", server.Address}, args...)...)
	}
	got := status()
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.out).To(And(MatchRegexp(`(?m)^Power +Off$`), MatchRegexp(`(?m)^Virtual media +CD \(CD, DVD\): empty$`)))

	got = bmcctl(t, credentials, "media", "insert", server.Address, mediaImage)
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.out).To(MatchRegexp(`(?m)^Virtual media +CD \(CD, DVD\): http://192.0.2.5/\(masked\)$`))
	g.Expect(got.out).NotTo(Or(ContainSubstring("tok-"), ContainSubstring("Doubt")))
	g.Expect(s.Servers()[0].Image).To(Equal(mediaImage))
	g.Expect(status("--with-urls").out).To(ContainSubstring(mediaImage))
	for _, command := range [][]string{{"media", "status"}, {"probe"}} {
		got = bmcctl(t, credentials, append(command, server.Address, "-o", "json")...)
		g.Expect(got.code).To(Equal(exitOK), got.err)
		var found mediaState
		g.Expect(json.Unmarshal([]byte(got.out), &found)).To(Succeed()) //nolint:musttag // bmc.Media has the names of its fields
		g.Expect(found.Media).To(Equal([]bmc.Media{{Name: "CD", Types: []string{"CD", "DVD"}, Inserted: true, Image: "http://192.0.2.5/(masked)"}}))
	}

	got = bmcctl(t, credentials, "media", "eject", server.Address)
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.out).To(MatchRegexp(`(?m)^Virtual media +.*: empty$`))
	g.Expect(s.Servers()[0].Image).To(BeEmpty())

	s.Must(http.MethodPut, "/servers/*/faults/MediaRewritesURL")
	got = bmcctl(t, credentials, "media", "insert", server.Address, mediaImage)
	g.Expect(got.code).To(Equal(exitOK), "a doubt is not an error")
	g.Expect(got.out).To(MatchRegexp(`(?m)^Doubt +the BMC reports another URL than that of the image$`))
}

// TestMediaWhileOn: an image is not ejected from a running server without --force, and an insertion would eject it.
func TestMediaWhileOn(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--on")
	address := s.Servers()[0].Address
	insert := []string{"media", "insert", address, mediaImage}
	g.Expect(bmcctl(t, credentials, insert...).code).To(Equal(exitOK), "the drive is empty")
	for _, command := range [][]string{insert, {"media", "eject", address}} {
		got := bmcctl(t, credentials, command...)
		g.Expect(got.code).To(Equal(exitFailed))
		g.Expect(got.err).To(ContainSubstring("power it off, or use --force"))
		g.Expect(s.Servers()[0].Image).To(Equal(mediaImage))
	}
	g.Expect(bmcctl(t, credentials, "media", "eject", address, "--force").code).To(Equal(exitOK))
	g.Expect(s.Servers()[0].Image).To(BeEmpty())
}

func TestMediaErrors(t *testing.T) {
	g := NewWithT(t)
	s := simtest.Start(t, "--redfish", "1", "--ipmi", "1", "--fault", "MediaPlainURLs")
	got := bmcctl(t, credentials, "media", "insert", s.Servers()[0].Address, mediaImage+"?x=y")
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.err).To(And(ContainSubstring("end in .iso and contain neither ? nor ="), Not(ContainSubstring("tok-"))))
	got = bmcctl(t, credentials, "media", "status", s.Servers()[1].Address)
	g.Expect(got.code).To(Equal(exitFailed))
	g.Expect(got.err).To(ContainSubstring("the protocol has no such command"))

	const address = "redfish://192.0.2.10"
	for says, args := range map[string][]string{
		"write bmcctl media status redfish://192.0.2.10":                           {"media"},
		"use insert or eject":                                                      {"media", "mount", address},
		"write bmcctl media insert redfish://192.0.2.10 http://192.0.2.5/boot.iso": {"media", "insert", address},
		"takes one URL, but got 2":                                                 {"media", "eject", address, mediaImage},
		"IMAGE must be an http or https URL":                                       {"media", "insert", address, "nfs://192.0.2.5/boot.iso"},
		"neither text nor json":                                                    {"media", "status", address, "-o", "xml"},
		"--boot-media: open /none":                                                 {"qualify", address, "--yes", "--boot-media", "/none"},
		"is not a file with an image":                                              {"qualify", address, "--yes", "--boot-media", "."},
		"--boot-media-listen is for":                                               {"qualify", address, "--yes", "--boot-media-listen", "192.0.2.5:80"},
		"--boot-media must be an http or https URL":                                {"qualify", address, "--yes", "--boot-media", "nfs://192.0.2.5/boot.iso"},
		"--boot-media-listen: :8080 names no address":                              {"qualify", address, "--yes", "--boot-media", imageFile(t), "--boot-media-listen", ":8080"},
		"--boot-media-timeout must be positive":                                    {"qualify", address, "--yes", "--boot-media-timeout", "0s"},
		"use an address of this machine that the BMC reaches, like 192.0.2.5:8080": {
			"qualify", address, "--yes", "--boot-media", imageFile(t), "--boot-media-listen", "192.0.2.5:80",
		},
	} {
		got := bmcctl(t, credentials, args...)
		g.Expect(got.code).To(Equal(exitUsage), says)
		g.Expect(got.err).To(ContainSubstring(says))
	}
	got = bmcctl(t, nil, "media", "--help")
	g.Expect(got.code).To(Equal(exitOK))
	g.Expect(got.out).To(ContainSubstring("  bmcctl media eject"))
}

// imageFile is a file with an image.
func imageFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "boot.iso")
	NewWithT(t).Expect(os.WriteFile(name, make([]byte, 256<<10), 0o600)).To(Succeed())
	return name
}

// closedURL is the URL of an image at a port that nothing listens on.
func closedURL(*testing.T) string { return "http://127.0.0.1:9/tok-0123456789abcdef/boot.iso" }

// TestQualifyBootMedia: the server is booted from the image. The evidence is that it is read, if bmcctl serves it.
func TestQualifyBootMedia(t *testing.T) {
	for name, test := range map[string]struct {
		media func(*testing.T) string
		fault string
		line  string
	}{
		"a file":             {imageFile, "", `VirtualMedia +no +works$`},
		"a file, not booted": {imageFile, "OverrideReverts", `VirtualMedia +no +FAILED: the server boots from virtual media: the BMC did not read the image within`},
		"a URL":              {closedURL, "", `VirtualMedia +no +works, according to the BMC: .* the override was used`},
		"a file, no licence": {imageFile, "MediaUnlicensed", `VirtualMedia +no +FAILED: .*install the licence for virtual media`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			args := []string{"--redfish", "1", "--on"}
			if test.fault != "" {
				args = append(args, "--fault", test.fault)
			}
			s := simtest.Start(t, args...)
			flags := quickly(t, "--boot-media", test.media(t), "--boot-media-timeout", "1s", "--skip-wrong-password", "-v")
			got := bmcctl(t, credentials, append([]string{"qualify", s.Servers()[0].Address}, flags...)...)
			g.Expect(got.code).To(Equal(exitOK), got.out+got.err)
			g.Expect(got.out).To(MatchRegexp(`(?m)^` + test.line))
			g.Expect(got.out).To(ContainSubstring("boots it from the image of --boot-media"))
			g.Expect(s.Servers()[0].Image).To(BeEmpty())
			g.Expect(s.Servers()[0].Power).To(Equal("On"))
			text, _ := readReport(t, flags)
			g.Expect(text).To(And(ContainSubstring(`"bootMedia": "true"`), Not(ContainSubstring("127.0.0.1")), Not(ContainSubstring("tok-"))))
		})
	}
}

// TestServeMedia: the image is served with ranges and its size to those who know its path, and only reads of it count.
func TestServeMedia(t *testing.T) {
	g := NewWithT(t)
	q := &qualification{media: imageFile(t), mediaListen: "127.0.0.1:0"}
	image, stop, err := q.bootMedia(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(image.URL).To(MatchRegexp(`^http://127\.0\.0\.1:\d+/[a-z2-7]{26}/boot\.iso$`))
	get := func(method, url, bytes string) (status int, header http.Header) {
		request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Range", bytes)
		response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		return response.StatusCode, response.Header
	}
	answers := func(method, url, bytes string, status int) {
		got, _ := get(method, url, bytes)
		g.Expect(got).To(Equal(status), "%s %s", method, bytes)
	}
	code, header := get(http.MethodHead, image.URL, "")
	g.Expect(code).To(Equal(http.StatusOK))
	g.Expect(header.Get("Content-Length")).To(Equal(strconv.Itoa(256 << 10)))
	g.Expect(header.Get("Accept-Ranges")).To(Equal("bytes"))
	answers(http.MethodGet, strings.Replace(image.URL, "/boot.iso", "/other.iso", 1), "", http.StatusNotFound)
	answers(http.MethodPost, image.URL, "", http.StatusNotFound)
	answers(http.MethodGet, image.URL, "bytes=999999-", http.StatusRequestedRangeNotSatisfiable)
	g.Expect(image.Read()).To(BeZero())
	answers(http.MethodGet, image.URL, "bytes=2048-4095", http.StatusPartialContent)
	g.Eventually(image.Read).Should(Equal(int64(2048)))
	g.Expect(stop()).To(Succeed())
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.Split(image.URL, "/")[2])
	g.Expect(err).To(HaveOccurred(), "the server is gone")
}
