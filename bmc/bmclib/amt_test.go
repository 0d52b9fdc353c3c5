package bmclib

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

func TestAMTConforms(t *testing.T) {
	bmctest.Test(t, bmctest.Subject{
		Open: testDriver().OpenAMT, Endpoint: (&amtServer{}).endpoint(t), Settle: settle,
		Must: []bmc.Capability{bmc.CanBootPXE, bmc.CanCycle, bmc.CanForceOff, bmc.CanPowerOn, bmc.CanReset, bmc.CanShutDown},
		Known: map[string]bmctest.Known{
			"boots from the network always":               {Error: "AMT overrides the next boot only", Why: "there is no other boot option"},
			"a running server accepts a shutdown request": {Error: "the operating system runs no agent", Why: "so it was when the answers were recorded"},
		},
	})
}

func openAMT(t *testing.T, s *amtServer) bmc.Client {
	t.Helper()
	c, err := testDriver().OpenAMT(t.Context(), s.endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func TestAMTPlain(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		secure := r.Clone(r.Context()) // the server checks the address for TLS
		secure.Body = http.NoBody
		secure.Body = readCloser(strings.ReplaceAll(body.String(), "http://"+r.Host, "https://"+r.Host))
		s.ServeHTTP(w, secure)
	}))
	defer server.Close()
	c, err := testDriver().OpenAMT(t.Context(), bmc.Endpoint{
		URL: parse(t, "amt+http://"+server.Listener.Addr().String()), Username: username, Password: password,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	d, err := c.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(d.FirmwareVersion).To(Equal("16.1.25"))
	g.Expect(c.NMI(t.Context())).To(MatchError(ContainSubstring("no such command")))
	g.Expect(c.Close(t.Context())).To(Succeed())
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

func readCloser(text string) nopCloser { return nopCloser{strings.NewReader(text)} }

// TestAMTPowerStates: states that iamt wrongly reports as off are reported correctly.
func TestAMTPowerStates(t *testing.T) {
	for told, want := range map[string]bmc.PowerState{
		"<g:PowerState>2</g:PowerState>":                               bmc.PowerOn,
		"<g:PowerState>3</g:PowerState>":                               bmc.PowerOn, // sleeps
		"<g:PowerState>4</g:PowerState>":                               bmc.PowerOn,
		"<g:PowerState>5</g:PowerState>":                               bmc.PowerOn, // in transition
		"<g:PowerState>6</g:PowerState>":                               bmc.PowerOff,
		"<g:PowerState>7</g:PowerState>":                               bmc.PowerOff,
		"<g:PowerState> 8 </g:PowerState>":                             bmc.PowerOff,
		"<g:PowerState>10</g:PowerState>":                              bmc.PowerOn,
		"<g:PowerState>0</g:PowerState>":                               "",
		"<g:PowerState>1</g:PowerState>":                               "",
		"<g:PowerState>99</g:PowerState>":                              "",
		"<g:PowerState>x</g:PowerState>":                               "",
		"<g:PowerState/>":                                              "",
		"<g:Power>8</g:Power>":                                         "",
		"<g:PowerState>8</g:PowerState><g:PowerState>2</g:PowerState>": "",
	} {
		t.Run(told, func(t *testing.T) {
			g := NewWithT(t)
			c, err := testDriver().OpenAMT(t.Context(), (&amtServer{state: told}).endpoint(t))
			if want == "" {
				g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = c.Close(context.Background()) }()
			g.Expect(c.PowerState(t.Context())).To(Equal(want))
		})
	}
}

// nestedStates are responses with elements inside the replaced elements.
var nestedStates = []string{
	"<g:PowerState>8<g:" + powerService + "><g:PowerState>8</g:PowerState></g:" + powerService + "></g:PowerState>",
	"<g:PowerState>8</g:PowerState><g:AvailableRequestedPowerStates>99<g:" + powerService +
		"><g:PowerState>8</g:PowerState></g:" + powerService + "></g:AvailableRequestedPowerStates>",
}

// TestAMTNestedStates: a hostile response is an error and does not panic.
func TestAMTNestedStates(t *testing.T) {
	for _, nested := range nestedStates {
		t.Run(nested, func(t *testing.T) {
			g := NewWithT(t)
			_, _, err := normalize([]byte("<g:"+powerService+` xmlns:g="g">`+nested+"</g:"+powerService+">"), []int{amtOn})
			g.Expect(err).To(MatchError(ContainSubstring("in the place of a power state")))
			expectKind(t, testDriver().OpenAMT, (&amtServer{state: nested}).endpoint(t), bmc.Failed)
		})
	}
}

// TestRelayPanics: a panic in the relay is the error of the call, and is not only logged by the HTTP server.
func TestRelayPanics(t *testing.T) {
	g := NewWithT(t)
	endpoint := (&amtServer{}).endpoint(t)
	broken := false
	endpoint.Throttle = func(ctx context.Context) error {
		if broken {
			panic("a defect of ours")
		}
		return ctx.Err()
	}
	c, err := testDriver().OpenAMT(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = c.Close(context.Background()) }()
	broken = true
	_, err = c.PowerState(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
	g.Expect(err).To(MatchError(ContainSubstring("could not be read: a defect of ours")))
	broken = false
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOff))
}

// TestAMTForce: a forced power-off is not replaced with a graceful one, which iamt prefers.
func TestAMTForce(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{offers: []int{2, 5, 8, 10, 12, 14, 15}}
	c := openAMT(t, s)
	for _, step := range []struct {
		do   func(context.Context) error
		want string
	}{{c.PowerOn, "PowerOn"}, {c.ShutDown, "ShutDown"}, {c.PowerOn, "PowerOn"}, {c.Cycle, "Cycle"}, {c.Reset, "Reset"}, {c.ForceOff, "ForceOff"}} {
		g.Expect(step.do(t.Context())).To(Succeed())
		var last string
		for _, call := range s.Calls() {
			if call != "PowerState" {
				last = call
			}
		}
		g.Expect(last).To(Equal(step.want))
	}
}

func TestAMTCommandsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		server *amtServer
		want   bmc.Kind
	}{
		"refused by its return value": {&amtServer{returns: 2}, bmc.Failed},
		"not supported":               {&amtServer{returns: 1}, bmc.Unsupported},
		"not offered":                 {&amtServer{offers: []int{12}}, bmc.Unsupported},
		"denied":                      {&amtServer{refuses: "wsman:AccessDenied"}, bmc.Unauthorized},
		"no such action":              {&amtServer{refuses: "wsa:ActionNotSupported"}, bmc.Unsupported},
		"busy":                        {&amtServer{refuses: "wsman:QuotaLimit"}, bmc.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.server.PowerOn(t.Context())).To(Succeed())
			err := openAMT(t, c.server).ForceOff(t.Context())
			g.Expect(bmc.KindOf(err)).To(Equal(c.want), "%v", err)
			g.Expect(err).To(HaveOccurred())
		})
	}
	t.Run("no agent hears a request to shut down", func(t *testing.T) {
		g := NewWithT(t)
		s := &amtServer{}
		g.Expect(s.PowerOn(t.Context())).To(Succeed())
		err := openAMT(t, s).ShutDown(t.Context())
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
		g.Expect(err).To(MatchError(ContainSubstring("LMS")))
	})
}

func TestAMTBoot(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{}
	c := openAMT(t, s)
	set := func(o bmc.BootOverride) bmc.Kind {
		_, err := c.SetBootOverride(t.Context(), o, "")
		if err == nil {
			return ""
		}
		return bmc.KindOf(err)
	}
	g.Expect(set(bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI})).To(BeEmpty())
	g.Expect(s.bootOnce).To(Equal([]string{"PXE"}))
	g.Expect(s.role).To(Equal("1")) // the next boot only
	g.Expect(set(bmc.BootOverride{Target: bmc.BootNone})).To(BeEmpty())
	g.Expect(s.bootOnce).To(BeEmpty())
	for _, o := range []bmc.BootOverride{
		{Target: bmc.BootPXE, Continuous: true}, {Target: bmc.BootPXE, Mode: bmc.BootLegacy}, {Target: bmc.BootDisk}, {Target: bmc.BootHTTP},
	} {
		g.Expect(set(o)).To(Equal(bmc.Unsupported))
	}
	_, err := c.BootOverride(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}, "Other")
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
}

// TestAMTLogsInOnce: a wrong password is tried once, because BMCs lock accounts. iamt tries twice in a call.
func TestAMTLogsInOnce(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{nonceUses: 1}
	endpoint := s.endpoint(t)
	wrong := endpoint
	wrong.Password = "wrong"
	expectKind(t, testDriver().OpenAMT, wrong, bmc.Unauthorized)
	g.Expect(s.logins).To(Equal(1))
	g.Expect(s.failed).To(Equal(1))

	// An expired nonce is not a wrong password.
	c, err := testDriver().OpenAMT(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = c.Close(context.Background()) }()
	g.Expect(c.PowerOn(t.Context())).To(Succeed())
	g.Expect(s.failed).To(Equal(1))

	// Refused credentials are not tried again.
	back := c.(*client).backend.(*amtBackend)
	back.relay.login.password = "wrong"
	for range 3 {
		_, err = c.PowerState(t.Context())
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unauthorized))
	}
	g.Expect(s.failed).To(BeNumerically("<=", 3))
}

func TestAMTFaults(t *testing.T) {
	webServerFaults(t, SchemeAMT, "", func(d *Driver) openFunc { return d.OpenAMT })
	good := (&amtServer{}).endpoint(t)
	for name, c := range map[string]struct {
		url  string
		want bmc.Kind
	}{
		"no host":   {"amt://", bmc.NotFound},
		"a path":    {"amt://127.0.0.1/redfish", bmc.Unsupported},
		"parameter": {"amt://127.0.0.1?tls=no", bmc.Unsupported},
		"port":      {"amt://127.0.0.1:99999", bmc.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			expectKind(t, testDriver().OpenAMT, bmc.Endpoint{URL: parse(t, c.url), Username: username, Password: password}, c.want)
		})
	}
	t.Run("no password", func(t *testing.T) {
		expectKind(t, testDriver().OpenAMT, bmc.Endpoint{URL: good.URL, CA: good.CA, Username: username}, bmc.Unauthorized)
	})
	t.Run("endless enumeration", func(t *testing.T) {
		expectKind(t, testDriver().OpenAMT, (&amtServer{endless: true}).endpoint(t), bmc.Failed)
	})
	t.Run("hangs after the login", func(t *testing.T) {
		s := &amtServer{}
		endpoint := s.endpoint(t)
		c, err := testDriver().OpenAMT(t.Context(), endpoint)
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = c.Close(context.Background()) }()
		block := make(chan struct{})
		s.Block = block
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = c.PowerState(ctx)
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
		close(block)
	})
	t.Run("any certificate", func(t *testing.T) {
		endpoint := good
		endpoint.CA, endpoint.InsecureSkipVerify = nil, true
		c, err := testDriver().OpenAMT(t.Context(), endpoint)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_ = c.Close(t.Context())
	})
}

// TestAMTThrottle: each request is throttled, including those of the library.
func TestAMTThrottle(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{}
	endpoint := s.endpoint(t)
	waits := 0
	endpoint.Throttle = func(ctx context.Context) error { waits++; return ctx.Err() }
	c, err := testDriver().OpenAMT(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = c.Close(context.Background()) }()
	g.Expect(waits).To(Equal(len(s.requests) + 1)) // and one for the challenge
}

// TestRelayNeedsToken: other processes on this machine can connect to the relay, but cannot use it.
func TestRelayNeedsToken(t *testing.T) {
	g := NewWithT(t)
	s := &amtServer{}
	back := openAMT(t, s).(*client).backend.(*amtBackend)
	before := len(s.requests)
	host, port, stop, err := back.relay.start(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	defer stop()
	url := "http://" + host + ":" + itoa(port) + "/wsman"
	for _, authorization := range []string{"", "Digest", `Digest username="x",`, "Basic eDp5", `Digest username="` + strings.Repeat("0", 32) + `",`} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("<x/>"))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", authorization)
		request.Close = true
		response, err := http.DefaultTransport.RoundTrip(request)
		g.Expect(err).NotTo(HaveOccurred())
		_ = response.Body.Close()
		g.Expect(response.StatusCode).To(Equal(http.StatusUnauthorized))
	}
	g.Expect(s.requests).To(HaveLen(before))
}

// TestDigest is the example of RFC 2617, 3.5, and variants of challenges.
func TestDigest(t *testing.T) {
	g := NewWithT(t)
	d := digest{username: "Mufasa", password: "Circle Of Life"}
	g.Expect(d.challenge(http.Header{"Www-Authenticate": {"Negotiate", `Digest realm="testrealm@host.com", qop="auth,auth-int", ` +
		`nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41"`}})).To(Succeed())
	g.Expect(d.authorization("GET", "/dir/index.html", "0a4f113b")).To(And(
		ContainSubstring(`response="6629fae49393a05397450978507c4ef1"`), ContainSubstring("nc=00000001"), ContainSubstring(`opaque="5ccc069c403ebaf9f0171e9517f40e41"`)))
	g.Expect(d.authorization("GET", "/dir/index.html", "0a4f113b")).To(ContainSubstring("nc=00000002"))
	for _, refused := range []string{
		"", "Basic realm=x", "Digest realm", `Digest realm="x"`, `Digest nonce="x", algorithm=SHA-256`, `Digest nonce="x", qop="auth-int"`,
	} {
		g.Expect(d.challenge(http.Header{"Www-Authenticate": {refused}})).NotTo(Succeed(), refused)
	}
	g.Expect(d.challenge(http.Header{"Www-Authenticate": {`digest nonce=a,realm="b\"c"`}})).To(Succeed())
	g.Expect(d).To(Equal(digest{username: "Mufasa", password: "Circle Of Life", realm: `b"c`, nonce: "a"}))
	g.Expect(d.authorization("GET", "/", "")).NotTo(ContainSubstring("qop"))
}

func FuzzChallenge(f *testing.F) {
	f.Add(`Digest realm="Digest:4BB9", nonce="zica",stale="false",qop="auth"`)
	f.Add(`Digest realm`)
	f.Add(`Digest nonce="\`)
	f.Fuzz(func(t *testing.T, challenge string) {
		var d digest
		if err := d.challenge(http.Header{"Www-Authenticate": {challenge}}); err == nil && d.nonce == "" {
			t.Error("a challenge without a nonce was taken")
		}
		_ = d.authorization("POST", "/wsman", "c")
	})
}

// FuzzNormalize: a normalized response is not longer, and a second normalization does not change it.
func FuzzNormalize(f *testing.F) {
	s := &amtServer{offers: []int{2, 8, 12}}
	bodies := []string{s.service(f.Context()), output("CIM_BootService", "SetBootConfigRole", 1), "<a><b/></a>", strings.Repeat("<a>", 40)}
	for _, nested := range nestedStates {
		bodies = append(bodies, (&amtServer{state: nested}).service(f.Context()))
	}
	for _, body := range bodies {
		b := new(bytes.Buffer)
		envelope(b, enumeration+"Pull", "<e:PullResponse><e:Items>"+body+"</e:Items></e:PullResponse>")
		f.Add(b.Bytes(), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, filter bool) {
		var ways []int
		if filter {
			ways = []int{amtOffSoft}
		}
		out, seen, err := normalize(body, ways)
		if err != nil || seen.fault != "" {
			return
		}
		if len(out) > len(body)+len(body)/2 {
			t.Errorf("%d bytes became %d", len(body), len(out))
		}
		again, _, err := normalize(out, ways)
		if err != nil || !bytes.Equal(again, out) {
			t.Errorf("a second time: %q, %v", again, err)
		}
	})
}
