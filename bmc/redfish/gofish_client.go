package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/stmcginnis/gofish/schemas"
)

// gofishClient lets the typed calls of gofish use a connection of this driver, so that authentication, limits, sessions, errors and If-Match are those of all other
// requests, and no second connection is opened. A body that gofish gets is a resource that this driver has read.
type gofishClient struct {
	ctx     context.Context //nolint:containedctx // gofish's Client has no context in its methods (v0.26.0); the client lives for one call
	service *service
}

var _ schemas.Client = &gofishClient{}

// errNotForGofish is the error of a request that no typed call of this driver needs.
var errNotForGofish = errors.New("the driver offers gofish only GET and PATCH")

// response returns an answer as net/http has it. 202 is the status of an answer that names a task (DSP0266, 13.5).
func (c *gofishClient) response(r resource, header http.Header, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	status := http.StatusOK
	if c.service.taskOf(r, header) != "" {
		status = http.StatusAccepted
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(bytes.NewReader(content))}, nil
}

// GetSettings returns the settings of gofish's client: the default ones.
func (c *gofishClient) GetSettings() schemas.ClientSettings { return schemas.ClientSettings{} }

// Get reads a resource.
func (c *gofishClient) Get(url string) (*http.Response, error) {
	return c.response(c.service.request(c.ctx, http.MethodGet, url, nil, nil))
}

// GetWithHeaders reads a resource. No typed call of this driver needs a header.
func (c *gofishClient) GetWithHeaders(url string, _ map[string]string) (*http.Response, error) {
	return c.Get(url)
}

// Patch changes a resource.
func (c *gofishClient) Patch(url string, payload any) (*http.Response, error) {
	return c.response(c.service.patchAnswered(c.ctx, url, payload))
}

// PatchWithHeaders changes a resource. The driver has its own If-Match, which handles more deviations.
func (c *gofishClient) PatchWithHeaders(url string, payload any, _ map[string]string) (*http.Response, error) {
	return c.Patch(url, payload)
}

// Post is not offered.
func (c *gofishClient) Post(string, any) (*http.Response, error) { return nil, errNotForGofish }

// PostWithHeaders is not offered.
func (c *gofishClient) PostWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errNotForGofish
}

// PostMultipart is not offered.
func (c *gofishClient) PostMultipart(string, map[string]io.Reader) (*http.Response, error) {
	return nil, errNotForGofish
}

// PostMultipartWithHeaders is not offered.
func (c *gofishClient) PostMultipartWithHeaders(string, map[string]io.Reader, map[string]string) (*http.Response, error) {
	return nil, errNotForGofish
}

// Put is not offered.
func (c *gofishClient) Put(string, any) (*http.Response, error) { return nil, errNotForGofish }

// PutWithHeaders is not offered.
func (c *gofishClient) PutWithHeaders(string, any, map[string]string) (*http.Response, error) {
	return nil, errNotForGofish
}

// Delete is not offered.
func (c *gofishClient) Delete(string) (*http.Response, error) { return nil, errNotForGofish }

// DeleteWithHeaders is not offered.
func (c *gofishClient) DeleteWithHeaders(string, map[string]string) (*http.Response, error) {
	return nil, errNotForGofish
}
