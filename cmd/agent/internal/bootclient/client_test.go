package bootclient_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/bootclient"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const (
	host = "default/rack1-1"
	mib  = 1 << 20
)

// answers is a boot server: the answers of each endpoint, in their order. The last one stays.
type answers struct {
	mu      sync.Mutex
	by      map[string][]http.HandlerFunc
	calls   map[string]int
	problem string
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	endpoint := strings.TrimPrefix(r.URL.Path, "/agent/"+host+"/")
	if r.Header.Get("Authorization") != "Bearer secret" {
		a.problem = "a request has the header Authorization " + r.Header.Get("Authorization")
	}
	all := a.by[endpoint]
	if len(all) == 0 {
		a.problem = "a request goes to " + r.URL.String()
		a.mu.Unlock()
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if a.calls == nil {
		a.calls = map[string]int{}
	}
	answer := all[min(a.calls[endpoint], len(all)-1)]
	a.calls[endpoint]++
	a.mu.Unlock()
	answer(w, r)
}

func status(code int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(code)
		if code != http.StatusNoContent {
			_ = json.NewEncoder(w).Encode(agent.Error{Message: message})
		}
	}
}

func body(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

func newClient(t *testing.T, a *answers) *bootclient.Client {
	t.Helper()
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		s.Close()
		if a.problem != "" {
			t.Error(a.problem)
		}
	})
	c, err := bootclient.New(bootclient.Config{URL: s.URL, Host: host, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPlan(t *testing.T) {
	plan := agent.Plan{Version: agent.Version, Purpose: agent.Inspect, Title: "rack1-1"}
	for _, test := range []struct {
		name    string
		answers []http.HandlerFunc
		check   func(p *agent.Plan, err error) bool
		calls   int
	}{
		{"a plan", []http.HandlerFunc{body(plan)}, func(p *agent.Plan, err error) bool { return err == nil && p.Title == "rack1-1" }, 1},
		{"not yet", []http.HandlerFunc{status(202, ""), body(plan)}, func(_ *agent.Plan, err error) bool { return err == nil }, 2},
		{"busy", []http.HandlerFunc{status(429, "busy"), status(503, "restarts"), body(plan)}, func(_ *agent.Plan, err error) bool { return err == nil }, 3},
		{"over", []http.HandlerFunc{status(401, "void")}, func(_ *agent.Plan, err error) bool {
			return errors.Is(err, bootclient.ErrBootOver) && retry.IsFinal(err)
		}, 1},
		{"refused", []http.HandlerFunc{status(403, "no disk")}, func(_ *agent.Plan, err error) bool {
			r, ok := errors.AsType[*bootclient.RefusedError](err)
			return ok && strings.Contains(r.Message, "no disk") && retry.IsFinal(err)
		}, 1},
		{"version", []http.HandlerFunc{status(409, "2")}, func(_ *agent.Plan, err error) bool { return failure.HasReason(err, wire.ReasonVersionDiffers) }, 1},
		{"another server", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(agent.Error{Reason: wire.ReasonOtherServer, Message: "S1, and not S2"})
		}}, func(_ *agent.Plan, err error) bool {
			return failure.HasReason(err, wire.ReasonOtherServer) && strings.Contains(err.Error(), "S1, and not S2")
		}, 1},
		{"version of the plan", []http.HandlerFunc{body(agent.Plan{Version: 99})}, func(_ *agent.Plan, err error) bool { return failure.HasReason(err, wire.ReasonVersionDiffers) }, 1},
		{"redirect", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }}, func(_ *agent.Plan, err error) bool { return err != nil && retry.IsFinal(err) }, 1},
		{"garbage first", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, body(plan)}, func(_ *agent.Plan, err error) bool { return err == nil }, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &answers{by: map[string][]http.HandlerFunc{agent.EndpointPlan: test.answers}}
			c := newClient(t, a)
			var p *agent.Plan
			err := retry.Do(t.Context(), func(ctx context.Context) (err error) {
				p, err = c.Plan(ctx, agent.Hello{})
				return err
			})
			if !test.check(p, err) || a.calls[agent.EndpointPlan] != test.calls {
				t.Errorf("%+v, %v, %d calls", p, err, a.calls[agent.EndpointPlan])
			}
		})
	}
}

func TestReports(t *testing.T) {
	var got agent.Progress
	a := &answers{by: map[string][]http.HandlerFunc{
		agent.EndpointProgress: {func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%v", err)
			}
			w.WriteHeader(http.StatusNoContent)
		}},
		agent.EndpointInventory: {status(204, "")},
		agent.EndpointResult:    {status(500, "restarts"), body(agent.Answer{Next: agent.Reboot})},
	}}
	c := newClient(t, a)
	if err := c.Progress(t.Context(), agent.Progress{Step: wire.StepWriting, Done: 5}); err != nil || got.Done != 5 {
		t.Errorf("%v, %+v", err, got)
	}
	if err := c.Inventory(t.Context(), wire.Inspection{}); err != nil {
		t.Error(err)
	}
	if _, err := c.Result(t.Context(), agent.Result{}); err == nil || retry.IsFinal(err) {
		t.Errorf("%v", err)
	}
	if answer, err := c.Result(t.Context(), agent.Result{}); err != nil || answer.Next != agent.Reboot {
		t.Errorf("%+v, %v", answer, err)
	}
	if err := c.Progress(t.Context(), agent.Progress{Step: wire.AgentStep(strings.Repeat("x", agent.MaxBody))}); err == nil || !retry.IsFinal(err) {
		t.Errorf("a body that is too large: %v", err)
	}
}

// TestWriteThroughHTTP writes an image that comes over HTTP, with an error or two in each endpoint.
func TestWriteThroughHTTP(t *testing.T) {
	content := make([]byte, 20*mib)
	copy(content[mib:], disktest.Random(1, 18*mib))
	gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 30000}})
	m, err := manifest.New(manifest.Header{Size: 20 * mib, SectorSize: 512, Table: manifest.GPT, EFILoaders: []string{"x64"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Chunks() {
		m.SetData(i, sha256.Sum256(content[i*mib:(i+1)*mib]))
	}
	encoded, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data := disktest.Random(2, 5000)
	send := func(b []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(b)))
		}
	}
	a := &answers{by: map[string][]http.HandlerFunc{
		agent.EndpointManifest: {send(encoded[:100]), send(encoded)},
		agent.EndpointImage:    {status(503, ""), send(content), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }, send(content)},
		agent.EndpointData: {status(202, ""), func(w http.ResponseWriter, r *http.Request) {
			var where agent.DataRequest
			if err := json.NewDecoder(r.Body).Decode(&where); err != nil || where.SectorSize != 512 || where.Offset < 20*mib {
				t.Error(err, where)
			}
			w.Header().Set(agent.HeaderDigest, manifest.DigestOf(data))
			_, _ = w.Write(data)
		}},
		agent.EndpointCommit: {status(202, ""), status(204, "")},
	}}
	c := newClient(t, a)
	plan := agent.ProvisionPlan{Manifest: manifest.DigestOf(encoded), DataSource: wire.DataSourceNoCloud, DataSize: mib, PartitionGUID: "0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1"}
	d := disktest.New(32*mib, 512)
	r, err := image.Write(t.Context(), image.Options{Device: d, Disk: disk.Disk{}, Source: c.Source(plan), Plan: plan, Firmware: wire.FirmwareUEFI, Architecture: "amd64"})
	if err != nil || !r.Committed || !pxetest.Bootable(d, d.Size(), 512) {
		t.Errorf("%v, %+v", err, r)
	}

	plan.Manifest = manifest.DigestOf(nil)
	source := c.Source(plan)
	if err := retry.Do(t.Context(), func(ctx context.Context) error { _, err := source.Manifest(ctx); return err }); !failure.HasReason(err, wire.ReasonImageCorrupt) {
		t.Errorf("another manifest: %v", err)
	}
}

// TestDialEnds: a connection attempt ends although net/http does not end it with its request. Without that, each request that times out would leave one.
func TestDialEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 3
		started, ended := make(chan struct{}, requests), make(chan struct{}, requests)
		c, err := bootclient.New(bootclient.Config{URL: "http://192.0.2.1", Host: host, Token: "secret", Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			started <- struct{}{}
			<-ctx.Done() // the boot server is unreachable
			ended <- struct{}{}
			return nil, fmt.Errorf("no way to the boot server: %w", ctx.Err())
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range requests - 1 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.Progress(ctx, agent.Progress{}); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if len(ended) > 0 {
			t.Error("the connection attempts end with their requests: this test proves nothing")
		}
		// The error of a request with all its time has that of its connection.
		if err := c.Progress(t.Context(), agent.Progress{}); err == nil || !strings.Contains(err.Error(), "no way to the boot server") {
			t.Error(err)
		}
		for range requests {
			<-started
			<-ended // otherwise the test ends with a deadlock
		}
	})
}

// TestPins: a certificate is accepted if and only if its key is pinned, whatever its name and dates.
func TestPins(t *testing.T) {
	s := httptest.NewTLSServer(body(agent.Plan{Version: agent.Version}))
	defer s.Close()
	key := sha256.Sum256(s.Certificate().RawSubjectPublicKeyInfo)
	good, other := base64.RawURLEncoding.EncodeToString(key[:]), base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	for _, test := range []struct {
		pins []string
		ok   bool
	}{{[]string{good}, true}, {[]string{other, good}, true}, {[]string{other}, false}} {
		c, err := bootclient.New(bootclient.Config{URL: s.URL, Host: host, Token: "secret", Pins: test.pins})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Progress(t.Context(), agent.Progress{}); (err == nil) != test.ok {
			t.Errorf("%v: %v", test.pins, err)
		}
	}
	for name, c := range map[string]bootclient.Config{
		"no pins":    {URL: "https://192.0.2.1", Host: host, Token: "t"},
		"a bad pin":  {URL: "https://192.0.2.1", Host: host, Token: "t", Pins: []string{"abc"}},
		"no token":   {URL: "http://192.0.2.1", Host: host},
		"no host":    {URL: "http://192.0.2.1", Token: "t"},
		"a bad URL":  {URL: "ftp://192.0.2.1", Host: host, Token: "t"},
		"no address": {URL: "http://", Host: host, Token: "t"},
	} {
		if _, err := bootclient.New(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// TestKey: over https the agent proves one key of its own in each connection, to a boot server that asks for it and to no other. Another agent has another key.
func TestKey(t *testing.T) {
	seen := map[string]int{} // keys of connections
	var offered []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		certificate := r.TLS.PeerCertificates[0]
		if certificate.CheckSignature(certificate.SignatureAlgorithm, certificate.RawTBSCertificate, certificate.Signature) != nil || len(certificate.Subject.Names) > 0 {
			t.Errorf("%+v", certificate)
		}
		digest := sha256.Sum256(certificate.RawSubjectPublicKeyInfo)
		seen[string(digest[:])]++
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusNoContent)
	}))
	s.TLS = &tls.Config{
		ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			offered = hello.SupportedProtos
			return nil, nil //nolint:nilnil // the same
		},
	}
	s.StartTLS()
	defer s.Close()
	pin := sha256.Sum256(s.Certificate().RawSubjectPublicKeyInfo)
	for agents := range 2 {
		c, err := bootclient.New(bootclient.Config{URL: s.URL, Host: host, Token: "secret", Pins: []string{base64.RawURLEncoding.EncodeToString(pin[:])}})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := c.Progress(t.Context(), agent.Progress{}); err != nil {
				t.Fatal(err)
			}
		}
		if len(seen) != agents+1 || !slices.Contains(offered, agent.TLSProtocol) {
			t.Errorf("%d agents have %d keys, and offer the protocols %q", agents+1, len(seen), offered)
		}
	}
	for _, n := range seen {
		if n != 3 {
			t.Errorf("%v", seen)
		}
	}
}

// TestImpostor: a boot server with another key gets neither the token nor the certificate of the agent.
func TestImpostor(t *testing.T) {
	reached := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	s.TLS = &tls.Config{
		ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS13,
		VerifyPeerCertificate: func([][]byte, [][]*x509.Certificate) error { reached = true; return nil },
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	c, err := bootclient.New(bootclient.Config{URL: s.URL, Host: host, Token: "secret", Pins: []string{base64.RawURLEncoding.EncodeToString(make([]byte, 32))}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Progress(t.Context(), agent.Progress{}); err == nil || !strings.Contains(err.Error(), agent.ParamPins) {
		t.Errorf("%v", err)
	}
	s.Close() // waits for its connections
	if reached {
		t.Error("the impostor has got something")
	}
}

// TestHostileAnswers: answers that are too large or that are not what was asked for are errors.
func TestHostileAnswers(t *testing.T) {
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := make([]byte, mib)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	a := &answers{by: map[string][]http.HandlerFunc{agent.EndpointResult: {endless}, agent.EndpointData: {endless}, agent.EndpointManifest: {endless}, agent.EndpointImage: {
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 5-9/100")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = io.WriteString(w, "hello")
		},
	}}}
	c := newClient(t, a)
	source := c.Source(agent.ProvisionPlan{})
	if _, err := c.Result(t.Context(), agent.Result{}); err == nil {
		t.Error("a result")
	}
	if _, err := source.Data(t.Context(), agent.DataRequest{}); err == nil {
		t.Error("data")
	}
	if _, err := source.Manifest(t.Context()); err == nil {
		t.Error("a manifest")
	}
	if _, err := source.Extent(t.Context(), 0, 5); err == nil {
		t.Error("another range")
	}
}
