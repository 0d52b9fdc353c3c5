package redfish_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

const (
	oldImage  = "http://192.0.2.1/tok-0123456789abcdef/boot.iso"
	testImage = "http://192.0.2.1/tok-fedcba9876543210/boot.iso"
)

// mediaMachine starts an emulated server and opens it with a driver that waits for this time for a drive.
func mediaMachine(t *testing.T, opts bmctest.Options, timeout time.Duration) (*bmctest.Machine, client) {
	t.Helper()
	g := NewWithT(t)
	opts.Name, opts.UUID, opts.Username, opts.Password = "s1", testUUID, "admin", "secret"
	machine := bmctest.NewMachine(opts)
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); machine.Close() })
	driver := newDriver(t)
	driver.MediaTimeout = timeout
	opened, err := driver.Open(t.Context(), endpointOf(t, server, redfish.SchemeInsecure))
	g.Expect(err).NotTo(HaveOccurred())
	return machine, opened.(client)
}

// TestInsertMedia: with each deviation, the new image replaces the old one, in the drive that boots, and an eject empties it.
func TestInsertMedia(t *testing.T) {
	for name, test := range map[string]struct {
		faults map[bmctest.Fault]int
		model  string
		doubt  string
	}{
		"well":                       {},
		"stays inserted":             {faults: map[bmctest.Fault]int{bmctest.MediaStaysInserted: 3}},
		"fails while it ejects":      {faults: map[bmctest.Fault]int{bmctest.InsertFails: 9}},
		"shows the previous image":   {faults: map[bmctest.Fault]int{bmctest.MediaStaysStale: 3}},
		"not connected":              {faults: map[bmctest.Fault]int{bmctest.MediaNotConnected: -1}},
		"decoys":                     {faults: map[bmctest.Fault]int{bmctest.MediaDecoyDrives: -1}},
		"drive 1 of two":             {faults: map[bmctest.Fault]int{bmctest.MediaTwoDrives: -1}, model: "PowerEdge R670"},
		"a DVD":                      {faults: map[bmctest.Fault]int{bmctest.MediaDVDOnly: -1}},
		"the image alone":            {faults: map[bmctest.Fault]int{bmctest.MediaImageOnly: -1}},
		"the protocol":               {faults: map[bmctest.Fault]int{bmctest.MediaNeedsProtocol: -1}},
		"the protocol and the image": {faults: map[bmctest.Fault]int{bmctest.MediaNeedsProtocol: -1, bmctest.MediaImageOnly: -1}},
		"a change":                   {faults: map[bmctest.Fault]int{bmctest.MediaByPatch: -1}},
		"under systems":              {faults: map[bmctest.Fault]int{bmctest.MediaUnderSystems: -1}},
		"another URL": {
			faults: map[bmctest.Fault]int{bmctest.MediaRewritesURL: -1}, doubt: "the BMC reports another URL than that of the image",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			opts := bmctest.Options{}
			if test.model != "" {
				opts.Vendor, opts.Model = "Dell Inc.", test.model
			}
			machine, c := mediaMachine(t, opts, 5*time.Second)
			for fault, times := range test.faults {
				if times < 0 {
					misbehave(t, machine, fault, times)
				}
			}
			g.Expect(c.InsertMedia(ctx, oldImage)).To(Succeed())
			g.Expect(machine.Image()).To(Equal(oldImage))
			for fault, times := range test.faults {
				misbehave(t, machine, fault, times)
			}
			g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
			g.Expect(machine.Image()).To(Equal(testImage))
			g.Expect(machine.CommandNames()).To(Equal([]string{"Media=" + oldImage, "Media=", "Media=" + testImage}), "it ejects first, and inserts once")
			drives, err := c.Media(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bmc.MediaDoubt(drives, testImage)).To(Equal(test.doubt))

			g.Expect(c.EjectMedia(ctx)).To(Succeed())
			g.Expect(machine.Image()).To(BeEmpty())
			drives, err = c.Media(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(drives).NotTo(ContainElement(HaveField("Inserted", true)))
			g.Expect(c.EjectMedia(ctx)).To(Succeed(), "it is idempotent")
			for fault := range test.faults {
				g.Expect(machine.Misbehaviour()[fault]).To(BeNumerically("<=", 0), "the driver had to wait")
			}
		})
	}
}

// TestStaleImage: an image that the drive reports is not trusted, also if it is the wanted one, because the drive may be empty.
func TestStaleImage(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, c := mediaMachine(t, bmctest.Options{}, 300*time.Millisecond)
	g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
	misbehave(t, machine, bmctest.MediaStaysInserted, -1)
	g.Expect(c.EjectMedia(ctx)).To(MatchError(ContainSubstring("it still contains an image")))
	g.Expect(machine.Image()).To(BeEmpty())
	misbehave(t, machine, bmctest.MediaStaysInserted, 3)
	g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
	g.Expect(machine.Image()).To(Equal(testImage))
}

// TestInsertFails: the error of an insertion has its kind and the remedy, and no part of the URL's path.
func TestInsertFails(t *testing.T) {
	const secret = "tok-fedcba9876543210"
	for name, test := range map[string]struct {
		fault bmctest.Fault
		image string
		kind  bmc.Kind
		says  string
		// left is the image in the drive afterwards.
		left string
	}{
		"licence":          {bmctest.MediaUnlicensed, testImage, bmc.Unsupported, "install the licence for virtual media", ""},
		"a query":          {bmctest.MediaPlainURLs, testImage + "?a=b", bmc.Failed, "take only URLs that end in .iso and contain neither ? nor =", ""},
		"another suffix":   {bmctest.MediaPlainURLs, "http://192.0.2.1/" + secret + "/boot.img", bmc.Failed, "http://192.0.2.1/(masked)", ""},
		"https":            {bmctest.MediaNoHTTPS, "https://192.0.2.1/" + secret + "/boot.iso", bmc.Failed, "use an http URL in a trusted network", ""},
		"not reachable":    {bmctest.MediaUnreachable, testImage, bmc.Failed, "Check that the BMC reaches the address of the image", ""},
		"always busy":      {bmctest.InsertFails, testImage, bmc.Unreachable, "503 Service Unavailable", ""},
		"the eject fails":  {bmctest.EjectFails, testImage, bmc.Failed, "The virtual drive is locked", oldImage},
		"always inserted":  {bmctest.MediaStaysInserted, testImage, bmc.Failed, "it still contains an image", ""},
		"always stale":     {bmctest.MediaStaysStale, testImage, bmc.Failed, "it still reports the previous image", testImage},
		"no optical drive": {bmctest.NoMedia, testImage, bmc.Unsupported, "the BMC has no virtual optical drive", oldImage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			machine, c := mediaMachine(t, bmctest.Options{}, 300*time.Millisecond)
			g.Expect(c.InsertMedia(ctx, oldImage)).To(Succeed())
			misbehave(t, machine, test.fault, -1)
			err := c.InsertMedia(ctx, test.image)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(bmc.KindOf(err)).To(Equal(test.kind), "%v", err)
			g.Expect(err.Error()).NotTo(ContainSubstring(secret))
			misbehave(t, machine, test.fault, 0)
			g.Expect(machine.Image()).To(Equal(test.left))
			g.Expect(c.PowerState(ctx)).To(Equal(bmc.PowerOff), "the connection is usable")
			g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed(), "and the insertion can be repeated")
		})
	}
}

// TestSlowCopy: while the BMC shows by its task, or by its drive, that it copies the image, the driver waits longer than for a drive. If that takes too long, the
// next insertion waits for the same copy and does not start another one.
func TestSlowCopy(t *testing.T) {
	inserted := Equal([]string{"Media=" + testImage})
	for name, sign := range map[string]bmctest.Fault{"the task": bmctest.MediaRewritesURL, "the drive": bmctest.MediaByPatch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			machine, c := mediaMachine(t, bmctest.Options{}, 3*time.Second) // a busy machine takes 80 ms for a read
			misbehave(t, machine, sign, -1)
			misbehave(t, machine, bmctest.MediaSlowInsert, 90) // 60 reads are the time of a drive
			g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
			g.Expect(machine.Misbehaviour()[bmctest.MediaSlowInsert]).To(BeZero(), "the driver had to wait")
			g.Expect(machine.CommandNames()).To(inserted)
		})
	}
	t.Run("too slow", func(t *testing.T) {
		t.Parallel()
		g, ctx := NewWithT(t), t.Context()
		machine, c := mediaMachine(t, bmctest.Options{}, 300*time.Millisecond)
		misbehave(t, machine, bmctest.MediaSlowInsert, -1)
		err := c.InsertMedia(ctx, testImage)
		g.Expect(err).To(MatchError(And(ContainSubstring("still copies the image after 1.2s"), Not(ContainSubstring("empty")), Not(ContainSubstring("tok-")))))
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
		misbehave(t, machine, bmctest.MediaSlowInsert, 3)
		g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
		g.Expect(machine.CommandNames()).To(inserted)
		g.Expect(c.EjectMedia(ctx)).To(Succeed())
		g.Expect(machine.Image()).To(BeEmpty())
	})
	t.Run("the task fails", func(t *testing.T) {
		t.Parallel()
		g := NewWithT(t)
		machine, c := mediaMachine(t, bmctest.Options{}, 300*time.Millisecond)
		misbehave(t, machine, bmctest.MediaUnreachable, -1)
		misbehave(t, machine, bmctest.MediaSlowInsert, -1)
		err := c.InsertMedia(t.Context(), testImage)
		g.Expect(err).To(MatchError(And(ContainSubstring("its task ended as Exception: The BMC cannot read http://192.0.2.1/(masked)"), Not(ContainSubstring("tok-")))))
	})
}

// TestEjectDuringCopy: an image that the BMC still copies is ejected, so that it is not in the drive later. The drive reports it as not inserted.
func TestEjectDuringCopy(t *testing.T) {
	for name, sign := range map[string]bmctest.Fault{"by the action": "", "by a change": bmctest.MediaByPatch} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, ctx := NewWithT(t), t.Context()
			machine, c := mediaMachine(t, bmctest.Options{}, time.Second)
			if sign != "" {
				misbehave(t, machine, sign, -1)
			}
			copies := func() {
				t.Helper()
				misbehave(t, machine, bmctest.MediaSlowInsert, -1)
				g.Expect(c.InsertMedia(ctx, oldImage)).To(MatchError(ContainSubstring("still copies the image")))
				drives, err := c.Media(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(drives).To(ConsistOf(And(HaveField("Image", oldImage), HaveField("Inserted", false))))
			}
			copies()
			g.Expect(c.EjectMedia(ctx)).To(Succeed())
			misbehave(t, machine, bmctest.MediaSlowInsert, 0) // a copy that still runs would be complete
			drives, err := c.Media(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(drives).To(ConsistOf(And(HaveField("Image", ""), HaveField("Inserted", false))))
			g.Expect(machine.CommandNames()).To(Equal([]string{"Media=" + oldImage, "Media="}))
			g.Expect(c.EjectMedia(ctx)).To(Succeed(), "it is idempotent")
			g.Expect(machine.CommandNames()).To(HaveLen(2))

			copies()
			misbehave(t, machine, bmctest.MediaSlowInsert, 0)
			g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
			g.Expect(machine.CommandNames()[2:]).To(Equal([]string{"Media=" + oldImage, "Media=", "Media=" + testImage}), "another image is not inserted before")
		})
	}
}

// TestEjectStaleImage: a drive that keeps the text of Image after an eject, and refuses another eject, is empty.
func TestEjectStaleImage(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		drive  string
		asked  bool
	}{
		"not inserted":   {http.StatusBadRequest, `{"Inserted":false,"Image":"` + oldImage + `"}`, true},
		"an error":       {http.StatusInternalServerError, `{"Inserted":false,"Image":"` + oldImage + `","ConnectedVia":"URI"}`, true},
		"not connected":  {http.StatusBadRequest, `{"Inserted":false,"Image":"` + oldImage + `","ConnectedVia":"NotConnected"}`, false},
		"no image":       {http.StatusBadRequest, `{"Inserted":false,"Image":null}`, false},
		"an empty image": {http.StatusBadRequest, `{"Inserted":false,"Image":" "}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine, _ := newMachine(t)
			var asked atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case !strings.Contains(r.URL.Path, "VirtualMedia/CD"):
					machine.ServeHTTP(w, r)
				case r.Method == http.MethodGet:
					_, _ = w.Write([]byte(`{"@odata.id":"` + r.URL.Path + `","Id":"CD","MediaTypes":["CD"],` + test.drive[1:]))
				default:
					asked.Store(true)
					w.WriteHeader(test.status)
				}
			}))
			t.Cleanup(server.Close)
			g.Expect(open(t, endpointOf(t, server, redfish.SchemeInsecure)).EjectMedia(t.Context())).To(Succeed())
			g.Expect(asked.Load()).To(Equal(test.asked))
		})
	}
}

// TestMediaURLsAreMasked: no error contains a URL's path that the BMC quotes, neither a whole URL with short parts nor the path alone.
func TestMediaURLsAreMasked(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, c := mediaMachine(t, bmctest.Options{}, 300*time.Millisecond)
	misbehave(t, machine, bmctest.MediaPlainURLs, -1)
	err := c.InsertMedia(ctx, "http://192.0.2.1/part-one-of-it/tok-fedcba9876543210.img")
	g.Expect(err).To(MatchError(And(ContainSubstring("cannot read /(masked)/(masked)"), Not(ContainSubstring("tok-f")), Not(ContainSubstring("part-one")))))
	misbehave(t, machine, bmctest.InsertFails, -1)
	err = c.InsertMedia(ctx, "http://192.0.2.1/abc12/boot.iso")
	g.Expect(err).To(MatchError(And(ContainSubstring("busy with http://192.0.2.1/(masked)"), Not(ContainSubstring("abc12")))))
}

// TestEjectNotOffered: an image in a drive that offers no ejection is a failure. Unsupported would mean that there is no drive to empty.
func TestEjectNotOffered(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, _ := newMachine(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPatch || strings.HasSuffix(r.URL.Path, "EjectMedia") {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		machine.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, endpointOf(t, server, redfish.SchemeInsecure))
	g.Expect(c.EjectMedia(ctx)).To(Succeed(), "the drive is empty")
	g.Expect(c.InsertMedia(ctx, testImage)).To(Succeed())
	err := c.EjectMedia(ctx)
	g.Expect(err).To(MatchError(ContainSubstring("405 Method Not Allowed")))
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
}

// TestBootURI: the URI of UEFI HTTP boot is read back, a difference is a doubt without the URI, and a removed override leaves no URI.
func TestBootURI(t *testing.T) {
	const uri = "http://192.0.2.1/tok-fedcba9876543210/boot.efi"
	want := bmc.BootOverride{Target: bmc.BootHTTP, Mode: bmc.BootUEFI, URI: uri}
	for name, test := range map[string]struct {
		faults []bmctest.Fault
		doubt  string
	}{
		"well":             {nil, ""},
		"None":             {[]bmctest.Fault{bmctest.NoBootURIReadsNone}, ""},
		"ignored":          {[]bmctest.Fault{bmctest.IgnoresBootURI}, "the BMC accepted the boot URI and reports none"},
		"ignored, None":    {[]bmctest.Fault{bmctest.IgnoresBootURI, bmctest.NoBootURIReadsNone}, "the BMC accepted the boot URI and reports none"},
		"kept":             {[]bmctest.Fault{bmctest.KeepsBootURI}, ""},
		"kept, no new one": {[]bmctest.Fault{bmctest.KeepsBootURI, bmctest.OverrideAtSettings}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			machine, c := mediaMachine(t, bmctest.Options{}, time.Second)
			for _, fault := range test.faults {
				misbehave(t, machine, fault, -1)
			}
			result, err := c.SetBootOverride(ctx, want, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Doubt).To(Equal(test.doubt))
			if test.doubt == "" {
				g.Expect(result.ReadBack.URI).To(Equal(uri))
				g.Expect(machine.BootURI()).To(Equal(uri))
			}
			result, err = c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Doubt).To(BeEmpty())
			g.Expect(machine.BootURI()).To(BeEmpty())
			g.Expect(machine.Override().Target).To(Equal(bmc.BootNone))
		})
	}
}

// slowly delays the requests that insert or eject an image, as a BMC that fetches the image before it answers.
type slowly struct {
	next  http.RoundTripper
	delay time.Duration
}

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "VirtualMedia.") {
		select {
		case <-time.After(s.delay): // the BMC fetches the image
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	return s.next.RoundTrip(r)
}

// TestSlowInsert: a BMC that fetches the image before it answers may take as long as a drive may, which is longer than other requests.
func TestSlowInsert(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine := bmctest.NewMachine(bmctest.Options{Name: "s1", UUID: testUUID, Username: "admin", Password: "secret"})
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); machine.Close() })
	driver := newDriver(t)
	driver.RequestTimeout, driver.MediaTimeout = 500*time.Millisecond, 10*time.Second
	driver.Wrap = func(next http.RoundTripper) http.RoundTripper { return slowly{next, time.Second} }
	opened, err := driver.Open(ctx, endpointOf(t, server, redfish.SchemeInsecure))
	g.Expect(err).NotTo(HaveOccurred())
	c := opened.(client)
	g.Expect(c.InsertMedia(ctx, oldImage)).To(Succeed())
	g.Expect(machine.Image()).To(Equal(oldImage))
	g.Expect(c.EjectMedia(ctx)).To(Succeed())
	g.Expect(machine.Image()).To(BeEmpty())
}
