package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// AgentVariable is the environment variable with an agent's program that servers run instead of that of this tree: TestUpgrade runs those of other commits.
const AgentVariable = "RIG_AGENT"

// buildAgent builds the agent's program once for a process. Processes that build it at the same time replace each other's file, which has the same content.
var buildAgent = sync.OnceValues(func() (program string, err error) {
	if program := os.Getenv(AgentVariable); program != "" {
		return program, nil
	}
	folder := filepath.Join(controllerstest.Root(), ".cache", "lab")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(folder, "agent-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	built, program := filepath.Join(temp, "agent"), filepath.Join(folder, "agent")
	if err := emulated.Build(ctx, controllerstest.Root(), built); err != nil {
		return "", err
	}
	return program, os.Rename(built, program)
})

// imageBytes is how much data the image has besides its boot loaders, and imageVersion the stamp on it.
const (
	imageBytes   = 2 << 20
	imageVersion = "v1.36.3"
)

// WithImage makes the machine of a claim one whose image an agent writes. Its server needs a disk.
func (s *Site) WithImage(t *testing.T) func(*controllerstest.Claim) {
	t.Helper()
	image, err := s.emulated.Origin.DiskImage(imageVersion, imageBytes)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot, c.BareMetalMachine.Spec.Image = v1alpha1.BootSource{}, image.DeepCopy()
	}
}

// The points of an agent and of the disk that it writes. The points of ImagePoint are those of its requests for parts of the image, from 1 on: the first gets the
// partition table, before anything is written, and the last comes when a part is written.
const (
	PlanPoint   = "agent plan"
	DataPoint   = "agent data"
	CommitPoint = "agent commit"
	ResultPoint = "agent result"
	DiskPoint   = "disk"
)

// ImagePoint is the point of a request for a part of the image.
func ImagePoint(number int) string { return fmt.Sprintf("agent image %d", number) }

// pass passes a point. It returns an error if the server's network fails at it.
func (s *Server) pass(ctx context.Context, point string) error {
	if s.opts.Point == nil {
		return nil
	}
	return s.opts.Point(ctx, point)
}

// runAgent runs the agent that was booted, and returns what follows.
func (s *Server) runAgent(ctx context.Context, system *pxetest.System) (agent.Next, error) {
	s.disk.Lock() // the agent of a server that was switched off and on again may not have ended yet
	defer s.disk.Unlock()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	proxy, err := s.newProxy(ctx, system)
	if err != nil {
		return "", err
	}
	defer proxy.close()
	parameters := *system.Agent
	parameters.Server = proxy.url
	next, err := s.RunAgent(ctx, &pxetest.System{Address: system.Address, Agent: &parameters})
	return next, errors.Join(err, s.judgeDisk())
}

// proxy is between an agent and the boot server, and passes the points of the agent's requests.
type proxy struct {
	server *Server
	ctx    context.Context //nolint:containedctx // of one agent
	url    string
	web    *http.Server

	mu     sync.Mutex
	images int
}

func (s *Server) newProxy(ctx context.Context, system *pxetest.System) (*proxy, error) {
	target, err := url.Parse(system.Agent.Server)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", netip.AddrPortFrom(s.site.emulated.Address(3), 0).String())
	if err != nil {
		return nil, err
	}
	p := &proxy{server: s, ctx: ctx, url: "http://" + listener.Addr().String()}
	forward := &httputil.ReverseProxy{
		FlushInterval:  -1,
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: s.replacePlan,
		ErrorHandler:   func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		Transport: &http.Transport{
			DisableKeepAlives: true, DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: system.Address.AsSlice()}, Timeout: 10 * time.Second}).DialContext,
		},
	}
	p.web = &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := p.admit(r); err != nil {
				panic(http.ErrAbortHandler)
			}
			forward.ServeHTTP(w, r)
		}),
	}
	go func() { _ = p.web.Serve(listener) }() // ends with close
	return p, nil
}

func (p *proxy) close() { _ = p.web.Close() }

// admit passes the point of a request, and remembers where bootstrap data is to be.
func (p *proxy) admit(r *http.Request) error {
	p.server.replaceVersion(r)
	endpoint := path.Base(r.URL.Path)
	point := "agent " + endpoint
	switch endpoint {
	case agent.EndpointImage:
		p.mu.Lock()
		p.images++
		point = ImagePoint(p.images)
		p.mu.Unlock()
	case agent.EndpointPlan:
		if err := edit(r, func(hello *agent.Hello) { hello.SecureBoot = p.server.secureBoot() }); err != nil {
			return err
		}
	case agent.EndpointData:
		if err := edit(r, func(where *agent.DataRequest) { p.server.dataAt(where.Offset) }); err != nil {
			return err
		}
	}
	if err := p.server.pass(p.ctx, point); err != nil {
		return err
	}
	if endpoint == agent.EndpointResult {
		return p.server.replaceResult(r)
	}
	return nil
}

// SetAgentVersion sets the protocol version that the agents of the server report from now on.
func (s *Server) SetAgentVersion(version int) { s.agentVersion.Store(int64(version)) }

// replaceVersion replaces the version in a request of an agent.
func (s *Server) replaceVersion(r *http.Request) {
	if version := s.agentVersion.Load(); version != 0 {
		r.Header.Set(agent.HeaderVersion, strconv.FormatInt(version, 10))
	}
}

// secureBoot is the Secure Boot that an agent finds: that of the emulated server, and not that of the computer that it runs on.
func (s *Server) secureBoot() wire.SecureBoot {
	if s.SecureBoot().Active {
		return wire.SecureBootEnabled
	}
	return wire.SecureBootDisabled
}

// The method that a drive of SetPurges reports.
const (
	purgeMethod = "NVMe sanitize, block erase"
	purgeBasis  = "NIST SP 800-88 Rev. 2, 3.1.2 (Purge); IEEE 2883-2022, purge of NVMe by Sanitize"
)

// SetPurges makes the disks of the server ones that can be purged. A file cannot: the agent gets the policy Clear in the plan, and its result has the method and the class
// of a drive that was purged.
func (s *Server) SetPurges() { s.purges.Store(true) }

// SetUnverified makes the agents of the server report, from now on, that the verification of the erased disks did not pass.
func (s *Server) SetUnverified() { s.unverified.Store(true) }

// replacePlan replaces the policy in the plan for disks of SetPurges.
func (s *Server) replacePlan(response *http.Response) error {
	if !s.purges.Load() || response.StatusCode != http.StatusOK || path.Base(response.Request.URL.Path) != agent.EndpointPlan {
		return nil
	}
	body, err := changed(response.Body, func(plan *agent.Plan) {
		if plan.Clean != nil && plan.Clean.Policy == wire.PolicyPurge {
			plan.Clean.Policy = wire.PolicyClear
		}
	})
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return err
}

// replaceResult replaces what an agent reports about Secure Boot, and about the disks that it erased.
func (s *Server) replaceResult(r *http.Request) error {
	purges, unverified := s.purges.Load(), s.unverified.Load()
	return edit(r, func(result *agent.Result) {
		result.SecureBoot = s.secureBoot()
		for i := range result.Disks {
			d := &result.Disks[i]
			if d.Outcome != wire.Erased {
				continue
			}
			if purges {
				d.Method, d.Basis, d.Class = purgeMethod, purgeBasis, wire.PolicyPurge
				d.Verification.Kind = wire.Samples
			}
			d.Verification.Passed = d.Verification.Passed && !unverified
		}
	})
}

// edit changes the body of a request.
func edit[T any](r *http.Request, change func(*T)) error {
	body, err := changed(r.Body, change)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return err
}

func changed[T any](body io.ReadCloser, change func(*T)) ([]byte, error) {
	content := new(T)
	if err := errors.Join(json.NewDecoder(body).Decode(content), body.Close()); err != nil {
		return nil, err
	}
	change(content)
	return json.Marshal(content)
}
