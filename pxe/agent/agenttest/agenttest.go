// Package agenttest is a boot server for tests of the agent. It gives one plan, and records what it is told.
package agenttest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Server is an http.Handler that serves the protocol to one host.
type Server struct {
	// Host is "namespace/name", and Token the token of its boot.
	Host, Token string
	// Plan is the plan.
	Plan agent.Plan
	// Next follows the result.
	Next agent.Next
	// Refusal, where not nil, is the body of the refusal (409) of the plan.
	Refusal *agent.Error
	// NotYet is how often the plan is not there yet.
	NotYet int
	// Handle, where not nil, answers the requests of a Provision plan: it has the endpoint.
	Handle func(endpoint string, w http.ResponseWriter, r *http.Request)
	// Fail, where not nil, returns a status code for a request that it fails, and 0 for others.
	Fail func(endpoint string) int

	mu       sync.Mutex
	requests []Request
	polls    int
}

// Request is a request that was accepted.
type Request struct {
	Endpoint string
	// From is the client's address with its port.
	From string
	At   time.Time
	Body []byte
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	endpoint, ok := strings.CutPrefix(r.URL.Path, agent.Path(s.Host, ""))
	if !ok {
		refuse(w, http.StatusNotFound, "no such host")
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Token {
		refuse(w, http.StatusUnauthorized, "the token is not valid")
		return
	}
	if s.Fail != nil {
		if code := s.Fail(endpoint); code != 0 {
			refuse(w, code, "this request was chosen to fail")
			return
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, agent.MaxBody))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, err.Error())
		return
	}
	if s.notYet(endpoint) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.record(Request{endpoint, r.RemoteAddr, time.Now(), body})
	s.answer(endpoint, w, r)
}

func (s *Server) answer(endpoint string, w http.ResponseWriter, r *http.Request) {
	switch endpoint {
	case agent.EndpointPlan:
		if s.Refusal != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			answer(w, s.Refusal)
			return
		}
		plan := s.Plan
		plan.Version = agent.Version
		answer(w, plan)
	case agent.EndpointResult:
		answer(w, agent.Answer{Next: s.Next})
	case agent.EndpointProgress, agent.EndpointInventory:
		w.WriteHeader(http.StatusNoContent)
	default:
		if s.Handle == nil {
			refuse(w, http.StatusNotFound, "no such endpoint")
			return
		}
		s.Handle(endpoint, w, r)
	}
}

func (s *Server) notYet(endpoint string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if endpoint != agent.EndpointPlan || s.polls >= s.NotYet {
		return false
	}
	s.polls++
	return true
}

func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// Requests returns the requests for an endpoint, in their order.
func (s *Server) Requests(endpoint string) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Request
	for _, r := range s.requests {
		if r.Endpoint == endpoint {
			all = append(all, r)
		}
	}
	return all
}

// Result returns the last result that was reported, or nil.
func (s *Server) Result() *agent.Result {
	all := s.Requests(agent.EndpointResult)
	if len(all) == 0 {
		return nil
	}
	result := &agent.Result{}
	if json.Unmarshal(all[len(all)-1].Body, result) != nil {
		return nil
	}
	return result
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(agent.Error{Message: message}) // the client has gone
}
