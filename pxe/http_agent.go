package pxe

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// AgentRequest identifies the sender of a request.
type AgentRequest struct {
	// Host is "namespace/name".
	Host string
	// Token is what the sender presents.
	Token string
	// Version is the version of the protocol that the sender speaks.
	Version int
	From    netip.Addr
	// TLS is true for a request over HTTPS.
	TLS bool
	// Key is the SHA-256 digest, in base64url without padding, of the public key (SubjectPublicKeyInfo) whose owner made the TLS connection. It is empty over
	// HTTP, and for a client without a certificate.
	Key string
}

// keyOf returns the digest of the key that the client of a connection has proven to own: the handshake has a signature of it. Nothing else of the certificate
// is read, because the agent signs it itself.
func keyOf(state *tls.ConnectionState) string {
	if state == nil || len(state.PeerCertificates) == 0 {
		return ""
	}
	return KeyDigest(state.PeerCertificates[0])
}

// KeyDigest returns the SHA-256 digest of the public key of a certificate (SubjectPublicKeyInfo), in base64url without padding.
func KeyDigest(c *x509.Certificate) string {
	digest := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// OpenedImage is an image that can be served. Close it.
type OpenedImage struct {
	// Manifest reads the encoded manifest, and Data is the content of the image.
	Manifest func() ([]byte, error)
	Data     *os.File
	// Sent is called with the number of bytes of Data that were sent to the agent; nil for none.
	Sent func(n int64)
}

var (
	// ErrVersion is returned for an agent with another version of the protocol.
	ErrVersion = errors.New("the agent and the boot server have different versions")
	// ErrOtherServer is returned for an agent on another server than the host's.
	ErrOtherServer = errors.New("the agent runs on another server than the host's")
)

// Agents connects the agents to the inventory. Every method is safe for concurrent use, checks the request, and returns ErrRefused for one that must not be
// answered, and ErrNotYet for one that may succeed later.
type Agents interface {
	// CheckToken returns nil if the token is that of the host's boot. It answers from memory for a boot that this process knows: nothing of the body of a request is
	// read before.
	CheckToken(ctx context.Context, r AgentRequest) error
	// Plan returns the plan of an agent.
	Plan(ctx context.Context, r AgentRequest, hello agent.Hello) (agent.Plan, error)
	// Inventory records what the agent found.
	Inventory(ctx context.Context, r AgentRequest, found wire.Inspection) error
	// Image opens the image of the plan. It answers from memory, because an agent makes many of these requests.
	Image(ctx context.Context, r AgentRequest) (*OpenedImage, error)
	// Data records where the bootstrap data will be, and returns it. base is the URL of this server for the operating system.
	Data(ctx context.Context, r AgentRequest, where agent.DataRequest, base string) (seed.DataPartition, error)
	// Commit allows the agent to make the disk bootable.
	Commit(ctx context.Context, r AgentRequest, request agent.CommitRequest) error
	// Progress records what the agent does. It answers from memory.
	Progress(ctx context.Context, r AgentRequest, p agent.Progress) error
	// Result records the end of the plan.
	Result(ctx context.Context, r AgentRequest, result agent.Result) (agent.Answer, error)
}

// agentRetry is after how many seconds an agent asks again if the answer is not ready.
const agentRetry = "2"

// agentRoutes adds the routes of the agent. Its bootstrap data takes one of the slots data.
func (h *Handler) agentRoutes(mux *http.ServeMux, guard *guard, data *answerSlots) {
	route := func(method, endpoint string, handle func(http.ResponseWriter, *http.Request, AgentRequest) error) {
		mux.HandleFunc(method+" "+agent.Path("{namespace}/{name}", endpoint), guard.agent(h.requireTLS(h.agentRoute(handle))))
	}
	images, bodies := newAnswerSlots(maxImageAnswers, maxImageAnswersPerNamespace), newBodies()
	route(http.MethodPost, agent.EndpointPlan, withBody(bodies, agent.MaxPlan, h.agentPlan))
	route(http.MethodPost, agent.EndpointInventory, withBody(bodies, agent.MaxInventory, h.agentInventory))
	route(http.MethodGet, agent.EndpointManifest, h.withImage(images, serveManifest))
	route(http.MethodGet, agent.EndpointImage, h.withImage(images, serveImage))
	route(http.MethodPost, agent.EndpointData, withBody(bodies, agent.MaxDisk, h.agentData(data)))
	route(http.MethodPost, agent.EndpointCommit, withBody(bodies, agent.MaxDisk, h.agentCommit))
	route(http.MethodPost, agent.EndpointProgress, withBody(bodies, agent.MaxProgress, h.agentProgress))
	route(http.MethodPost, agent.EndpointResult, withBody(bodies, agent.MaxBody, h.agentResult))
}

// agentRoute reads who sends a request, and answers an error as pxe/agent describes it.
func (h *Handler) agentRoute(handle func(http.ResponseWriter, *http.Request, AgentRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		host, ok := hostOf(r)
		token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || !bearer {
			refuseAgent(w, r, http.StatusUnauthorized, fmt.Errorf("%w: the request has no token, or names no host", ErrRefused))
			return
		}
		version, err := strconv.Atoi(r.Header.Get(agent.HeaderVersion))
		if err != nil {
			version = 1 // the first version had no such header
		}
		from := AgentRequest{Host: host, Token: token, Version: version, From: clientOf(r), TLS: r.TLS != nil, Key: keyOf(r.TLS)}
		err = h.Agents.CheckToken(r.Context(), from)
		if err == nil {
			err = handle(w, r, from)
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrVersion):
			writeConflict(w, r, wire.ReasonVersionDiffers, err)
		case errors.Is(err, ErrOtherServer):
			writeConflict(w, r, wire.ReasonOtherServer, err)
		case errors.Is(err, ErrNotYet):
			if errors.Is(err, ErrTokenUnknown) {
				recordError(r, err) // it counts as an attempt
			}
			w.Header().Set("Retry-After", agentRetry)
			w.WriteHeader(http.StatusAccepted)
		case errors.Is(err, ErrRefused):
			refuseAgent(w, r, http.StatusUnauthorized, err)
		default:
			w.Header().Set("Retry-After", agentRetry)
			refuseAgent(w, r, http.StatusServiceUnavailable, err)
		}
	}
}

// refuseAgent refuses a request. The text is the same for every refusal, because the sender may be a stranger; the log has the reason.
func refuseAgent(w http.ResponseWriter, r *http.Request, status int, err error) {
	recordError(r, err)
	message := "refused: the boot is over, or the token is not that of the boot"
	if status == http.StatusServiceUnavailable {
		message = "the boot server cannot answer now"
	}
	writeJSON(w, status, agent.Error{Message: message})
}

// writeConflict tells an agent, which has the token of the boot, why it is not served.
func writeConflict(w http.ResponseWriter, r *http.Request, reason string, err error) {
	recordError(r, err)
	writeJSON(w, http.StatusConflict, agent.Error{Reason: reason, Message: err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client is gone
}

func (h *Handler) agentPlan(w http.ResponseWriter, r *http.Request, from AgentRequest, hello agent.Hello) error {
	plan, err := h.Agents.Plan(r.Context(), from, hello)
	if err == nil {
		writeJSON(w, http.StatusOK, plan)
	}
	return err
}

func (h *Handler) agentInventory(w http.ResponseWriter, r *http.Request, from AgentRequest, found wire.Inspection) error {
	if err := h.Agents.Inventory(r.Context(), from, found); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// withImage returns the handler of an answer from the image of a boot, for which a host waits for a slot.
func (h *Handler) withImage(slots *answerSlots, answer func(http.ResponseWriter, *http.Request, *OpenedImage) error) func(http.ResponseWriter, *http.Request, AgentRequest) error {
	return func(w http.ResponseWriter, r *http.Request, from AgentRequest) error {
		image, err := h.Agents.Image(r.Context(), from)
		if err != nil {
			return err
		}
		defer func() { _ = image.Data.Close() }()
		leave, err := slots.enter(r.Context(), from.Host)
		if err != nil {
			return err
		}
		defer leave()
		return answer(w, r, image)
	}
}

// serveManifest serves the manifest, which is in memory while it is sent.
func serveManifest(w http.ResponseWriter, _ *http.Request, image *OpenedImage) error {
	encoded, err := image.Manifest()
	if err != nil { // it was evicted at this moment
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(encoded) // the client is gone
	return nil
}

// serveImage serves a range of the image. The kernel sends it from the disk to the network (sendfile).
func serveImage(w http.ResponseWriter, r *http.Request, image *OpenedImage) error {
	answer, ok := w.(*deadlineWriter)
	if ok {
		answer.end = time.Now().Add(imageAnswerTime)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", time.Time{}, image.Data)
	if ok {
		imageSent.Add(float64(answer.sent))
		if image.Sent != nil {
			image.Sent(answer.sent)
		}
	}
	return nil
}

// agentData returns the handler of the bootstrap data, for which a host waits for a slot.
func (h *Handler) agentData(slots *answerSlots) func(http.ResponseWriter, *http.Request, AgentRequest, agent.DataRequest) error {
	return func(w http.ResponseWriter, r *http.Request, from AgentRequest, where agent.DataRequest) error {
		leave, err := slots.enter(r.Context(), from.Host)
		if err != nil {
			return err
		}
		defer leave()
		partition, err := h.Agents.Data(r.Context(), from, where, h.seedBase(r))
		if err != nil {
			return err
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set(agent.HeaderDigest, manifest.DigestOf(partition.Head))
		_, _ = w.Write(partition.Head) // the client is gone
		return nil
	}
}

func (h *Handler) agentCommit(w http.ResponseWriter, r *http.Request, from AgentRequest, request agent.CommitRequest) error {
	if err := h.Agents.Commit(r.Context(), from, request); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) agentProgress(w http.ResponseWriter, r *http.Request, from AgentRequest, p agent.Progress) error {
	if err := h.Agents.Progress(r.Context(), from, p); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) agentResult(w http.ResponseWriter, r *http.Request, from AgentRequest, result agent.Result) error {
	answer, err := h.Agents.Result(r.Context(), from, result)
	if err == nil {
		writeJSON(w, http.StatusOK, answer)
	}
	return err
}
