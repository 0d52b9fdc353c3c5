package pxe_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// heard records what agents say.
type heard struct {
	pxe.Agents

	all []any
}

func (h *heard) CheckToken(context.Context, pxe.AgentRequest) error { return nil }

func (h *heard) Plan(_ context.Context, _ pxe.AgentRequest, hello agent.Hello) (agent.Plan, error) {
	h.all = append(h.all, hello)
	return agent.Plan{}, nil
}

func (h *heard) Inventory(_ context.Context, _ pxe.AgentRequest, found wire.Inspection) error {
	h.all = append(h.all, found)
	return nil
}

func (h *heard) Data(_ context.Context, _ pxe.AgentRequest, where agent.DataRequest, _ string) (seed.DataPartition, error) {
	h.all = append(h.all, where)
	return seed.DataPartition{}, nil
}

func (h *heard) Commit(_ context.Context, _ pxe.AgentRequest, request agent.CommitRequest) error {
	h.all = append(h.all, request)
	return nil
}

func (h *heard) Progress(_ context.Context, _ pxe.AgentRequest, p agent.Progress) error {
	h.all = append(h.all, p)
	return nil
}

func (h *heard) Result(_ context.Context, _ pxe.AgentRequest, result agent.Result) (agent.Answer, error) {
	h.all = append(h.all, result)
	return agent.Answer{}, nil
}

// TestTextsOfAgents: what an agent says has no control characters when it gets behind the HTTP handler, at any endpoint. Only its log has lines.
func TestTextsOfAgents(t *testing.T) {
	g := NewWithT(t)
	l, agents := newLab(t, 8), &heard{}
	l.handler.Agents = agents
	const evil = "\x1b[2J\x07disk\u202e\r"
	id := wire.DiskIdentity{SerialNumber: evil, WWN: evil, ByPath: evil}
	for endpoint, body := range map[string]any{
		agent.EndpointPlan:      agent.Hello{Release: evil, Firmware: evil, Architecture: evil, Kernel: evil},
		agent.EndpointInventory: wire.Inspection{System: wire.InspectedSystem{Model: evil}, Disks: []wire.InspectedDisk{{Model: evil, Holders: []string{evil}}}, NICs: []wire.InspectedNIC{{Neighbor: &wire.InspectedNeighbor{SystemName: evil}}}},
		agent.EndpointData:      agent.DataRequest{Disk: id, Name: evil},
		agent.EndpointCommit:    agent.CommitRequest{Disk: id},
		agent.EndpointProgress:  agent.Progress{Step: evil},
		agent.EndpointResult:    agent.Result{Failure: &agent.Failure{Reason: evil, Message: evil + "\nsecond"}, Written: &agent.Written{Disk: id, Model: evil}, Warnings: []string{evil}, Log: "one" + evil + "\ntwo\n"},
	} {
		content, err := json.Marshal(body)
		g.Expect(err).NotTo(HaveOccurred())
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, agent.Path("dc/h", endpoint), strings.NewReader(string(content)))
		r.RemoteAddr = "192.0.2.9:4711"
		r.Header.Set("Authorization", "Bearer token")
		before := len(agents.all)
		l.handler.Mux().ServeHTTP(httptest.NewRecorder(), r)
		g.Expect(agents.all).To(HaveLen(before+1), endpoint)
		said, err := json.Marshal(agents.all[before])
		g.Expect(err).NotTo(HaveOccurred())
		text := strings.ReplaceAll(string(said), `\n`, "")
		g.Expect(text).To(ContainSubstring("[2Jdisk"), endpoint)
		g.Expect(text).NotTo(Or(ContainSubstring(`\u00`), ContainSubstring(`\r`), ContainSubstring("\u202e")), endpoint)
		if result, ok := agents.all[before].(agent.Result); ok {
			g.Expect(result.Log).To(Equal("one[2Jdisk\ntwo\n"))
			g.Expect(result.Failure.Message).To(Equal("[2Jdisk second"))
		}
	}
}
