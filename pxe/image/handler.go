package image

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// Images prepares and opens images: a Service, or a Client of one in another process.
type Images interface {
	Prepare(ctx context.Context, namespace string, from Source, credentials Credentials) (Info, error)
	Open(namespace string, from Source) (*Opened, error)
}

var (
	_ Images = (*Service)(nil)
	_ Images = (*Client)(nil)
)

// The protocol of a Client and a Handler: a GET of healthPath or metricsPath, or a POST of a call to one of the other paths. The answers are
//
//	200  Info, for prepare
//	200  metric families of Prometheus, for metrics
//	204  the service answers, for health
//	204  the image is ready, for use
//	202  NotReady
//	422  Error
const (
	healthPath  = "/v1/health"
	metricsPath = "/v1/metrics"
	preparePath = "/v1/prepare"
	usePath     = "/v1/use"
	// maxCall bounds a call, in bytes. A Secret has at most 1 MiB.
	maxCall = 4 << 20
	// callTimeout bounds a call. The service answers at once.
	callTimeout = 10 * time.Second
)

// call is the body of a request.
type call struct {
	Namespace   string `json:"namespace"`
	Source      Source `json:"source"`
	Credentials []byte `json:"credentials,omitempty"`
}

// Handler serves a Service to Clients. Serve it on a unix socket in a folder that only the boot server can open: there is no authentication, and calls contain
// credentials.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+healthPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("GET "+metricsPath, s.metricsHandler())
	mux.HandleFunc("POST "+preparePath, func(w http.ResponseWriter, r *http.Request) {
		c, ok := readCall(w, r)
		if !ok {
			return
		}
		info, err := s.Prepare(r.Context(), c.Namespace, c.Source, c.Credentials)
		answer(w, http.StatusOK, info, err)
	})
	mux.HandleFunc("POST "+usePath, func(w http.ResponseWriter, r *http.Request) {
		c, ok := readCall(w, r)
		if !ok {
			return
		}
		opened, err := s.Open(c.Namespace, c.Source)
		if err == nil {
			err = opened.Close()
		}
		answer(w, http.StatusNoContent, nil, err)
	})
	return mux
}

func readCall(w http.ResponseWriter, r *http.Request) (call, bool) {
	var c call
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxCall)).Decode(&c); err != nil {
		http.Error(w, "the call is invalid", http.StatusBadRequest)
		return c, false
	}
	return c, true
}

// answer writes the result of a call. A client that is gone does not read it.
func answer(w http.ResponseWriter, status int, body any, err error) {
	notReady, failure := new(NotReady), new(Error)
	switch {
	case errors.As(err, &notReady):
		status, body = http.StatusAccepted, notReady
	case errors.Is(err, ErrNotYet):
		status, body = http.StatusAccepted, &NotReady{Step: Waiting}
	case errors.As(err, &failure):
		status, body = http.StatusUnprocessableEntity, failure
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if body == nil {
		w.WriteHeader(status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// Client uses a Service in another process, and opens the images in the folder that both have. It only reads the folder.
type Client struct {
	folders *folders
	client  *http.Client
}

// NewClient returns a client of the Service with a folder, whose Handler is served at a unix socket.
func NewClient(dir, socket string) *Client {
	return &Client{folders: newFolders(dir), client: &http.Client{Timeout: callTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConns: 4, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}}}
}

// Prepare is Service.Prepare. An error that is neither *NotReady nor *Error means that the service does not answer.
func (c *Client) Prepare(ctx context.Context, namespace string, from Source, credentials Credentials) (Info, error) {
	var info Info
	err := c.post(ctx, preparePath, call{namespace, from, credentials}, &info)
	return info, err
}

// Open is Service.Open. An image that is ready opens also while the service does not answer, such as during its restart: an agent verifies each chunk. The
// service does not know of the use then.
func (c *Client) Open(namespace string, from Source) (*Opened, error) {
	sum, err := origin.ParseChecksum(from.Checksum)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	err = c.post(ctx, usePath, call{Namespace: namespace, Source: from}, nil)
	if errors.Is(err, ErrNotYet) || errors.As(err, new(*Error)) {
		return nil, err
	}
	opened, openErr := c.folders.open(sum.FileName())
	if openErr != nil {
		return nil, errors.Join(ErrNotYet, err, openErr)
	}
	return opened, nil
}

// Health returns an error if the service does not answer.
func (c *Client) Health(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://images"+healthPath, http.NoBody)
	if err != nil {
		return err
	}
	request.Close = true // each check makes a connection of its own
	return c.send(request, maxCall, nil)
}

// post calls the service, and decodes its answer into result.
func (c *Client) post(ctx context.Context, path string, body call, result any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://images"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return c.send(request, maxCall, result)
}

// send sends a request to the service, and decodes its answer into result. An answer with more than limit bytes is an error.
func (c *Client) send(request *http.Request, limit int64, result any) error {
	response, err := c.client.Do(request)
	if err != nil {
		return fmt.Errorf("the image service does not answer: %w", origin.WithoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, limit))
	if err != nil {
		return fmt.Errorf("the image service did not answer: %w", err)
	}
	var failure error
	switch response.StatusCode {
	case http.StatusNoContent:
		return nil
	case http.StatusOK:
		return json.Unmarshal(content, result)
	case http.StatusAccepted:
		failure = new(NotReady)
	case http.StatusUnprocessableEntity:
		failure = new(Error)
	default:
		return fmt.Errorf("the image service answered %s: %.200s", response.Status, content)
	}
	if err := json.Unmarshal(content, failure); err != nil {
		return err
	}
	return failure
}
