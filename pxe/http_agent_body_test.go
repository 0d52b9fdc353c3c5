package pxe_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// unread fails the test when a byte of it is read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

// refusing admits nobody.
type refusing struct{ pxe.Agents }

func (refusing) CheckToken(context.Context, pxe.AgentRequest) error { return pxe.ErrRefused }

func post(t *testing.T, handler http.Handler, endpoint, host string, body io.Reader) (status int) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, agent.Path(host, endpoint), body)
	r.RemoteAddr = "192.0.2.9:4711"
	r.Header.Set("Authorization", "Bearer token")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, r)
	return recorder.Code
}

var postEndpoints = []string{agent.EndpointPlan, agent.EndpointInventory, agent.EndpointData, agent.EndpointCommit, agent.EndpointProgress, agent.EndpointResult}

// TestTokenBeforeBody: nothing of a body is read before the token was accepted.
func TestTokenBeforeBody(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	l.handler.Agents = refusing{}
	for _, endpoint := range postEndpoints {
		status := post(t, l.handler.Mux(), endpoint, "dc/h", unread{t})
		g.Expect(status).To(Equal(http.StatusUnauthorized), endpoint)
	}
}

// TestHostileBodies: the holder of a token cannot make the boot server use memory either.
func TestHostileBodies(t *testing.T) {
	list := func(start, element string, times int, end string) string {
		return start + strings.Repeat(element+",", times-1) + element + end
	}
	for name, c := range map[string]struct {
		endpoint, body string
		accepted       bool
	}{
		"a list of 1024":   {agent.EndpointResult, list(`{"disks":[`, "{}", 1024, "]}"), true},
		"a longer list":    {agent.EndpointResult, list(`{"disks":[`, "{}", 1025, "]}"), false},
		"many lists":       {agent.EndpointResult, list(`{"disks":[`, list(`{"warnings":[`, `"x"`, 20, "]}"), 800, "]}"), false},
		"deep":             {agent.EndpointResult, `{"x":` + strings.Repeat("[", 8) + strings.Repeat("]", 8) + "}", false},
		"not so deep":      {agent.EndpointResult, `{"x":` + strings.Repeat("[", 7) + strings.Repeat("]", 7) + "}", true},
		"not closed":       {agent.EndpointResult, "{", false},
		"two":              {agent.EndpointResult, "{}{}", false},
		"a bracket":        {agent.EndpointResult, "]", false},
		"nothing":          {agent.EndpointResult, "", false},
		"a large result":   {agent.EndpointResult, `{"log":"` + strings.Repeat("x", agent.MaxBody-10) + `"}`, true},
		"a larger result":  {agent.EndpointResult, `{"log":"` + strings.Repeat("x", agent.MaxBody) + `"}`, false},
		"a large hello":    {agent.EndpointPlan, `{"kernel":"` + strings.Repeat("x", agent.MaxPlan) + `"}`, false},
		"a large report":   {agent.EndpointInventory, `{"agentRelease":"` + strings.Repeat("x", agent.MaxInventory) + `"}`, false},
		"a large place":    {agent.EndpointData, `{"name":"` + strings.Repeat("x", agent.MaxDisk) + `"}`, false},
		"a large request":  {agent.EndpointCommit, `{"x":"` + strings.Repeat("x", agent.MaxDisk) + `"}`, false},
		"a large progress": {agent.EndpointProgress, `{"step":"` + strings.Repeat("x", agent.MaxProgress) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l, agents := newLab(t, 8), &heard{}
			l.handler.Agents = agents
			post(t, l.handler.Mux(), c.endpoint, "dc/h", strings.NewReader(c.body))
			accepted := 0
			if c.accepted {
				accepted = 1
			}
			g.Expect(agents.all).To(HaveLen(accepted))
		})
	}
}

// endless is a body without an end.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	e.read += len(b)
	return copy(b, strings.Repeat(" ", len(b))), nil
}

// TestEndlessBody: no more of a body is read than its endpoint needs.
func TestEndlessBody(t *testing.T) {
	g := NewWithT(t)
	l, agents, body := newLab(t, 8), &heard{}, &endless{}
	l.handler.Agents = agents
	g.Expect(post(t, l.handler.Mux(), agent.EndpointPlan, "dc/h", body)).To(Equal(http.StatusUnauthorized))
	g.Expect(agents.all).To(BeEmpty())
	g.Expect(body.read).To(BeNumerically("<", 4*agent.MaxPlan))
}

// TestBodiesOfAHost: a host that sends many bodies slowly waits for itself, and no other one waits for it.
func TestBodiesOfAHost(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	l.handler.Agents = &heard{}
	mux := l.handler.Mux()
	var writers []*io.PipeWriter
	ended := make(chan int)
	for range 4 {
		r, w := io.Pipe()
		writers = append(writers, w)
		go func() { ended <- post(t, mux, agent.EndpointCommit, "dc/slow", r) }()
		_, err := w.Write([]byte("{")) // returns when it is read
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(post(t, mux, agent.EndpointProgress, "dc/slow", unread{t})).To(Equal(http.StatusAccepted), "not yet: the agent asks again")
	g.Expect(post(t, mux, agent.EndpointProgress, "dc/h", strings.NewReader("{}"))).To(Equal(http.StatusNoContent))
	for _, w := range writers {
		g.Expect(w.Close()).To(Succeed())
		<-ended
	}
	g.Expect(post(t, mux, agent.EndpointProgress, "dc/slow", strings.NewReader("{}"))).To(Equal(http.StatusNoContent), "the places are free again")
}

// unknowing looks no token up.
type unknowing struct {
	pxe.Agents

	asked int
}

func (u *unknowing) CheckToken(context.Context, pxe.AgentRequest) error {
	u.asked++
	return pxe.ErrTokenUnknown
}

// TestUnknownTokensCount: a client whose tokens are not looked up is asked to repeat its request, since the token may be right. But it may guess: the tries count.
func TestUnknownTokensCount(t *testing.T) {
	g := NewWithT(t)
	l, agents := newLab(t, 8), &unknowing{}
	l.handler.Agents = agents
	mux := l.handler.Mux()
	g.Expect(post(t, mux, agent.EndpointPlan, "dc/h", unread{t})).To(Equal(http.StatusAccepted))
	for range 99 {
		post(t, mux, agent.EndpointPlan, "dc/h", unread{t})
	}
	g.Expect(post(t, mux, agent.EndpointPlan, "dc/h", unread{t})).To(Equal(http.StatusTooManyRequests))
	g.Expect(agents.asked).To(BeNumerically("~", 21, 3), "twenty at once, and one a second")
}
