package bootclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

const (
	// maxManifest bounds a manifest, in bytes: it has 32 for each MiB of data, so this is enough for 2 TiB of data. It is in memory as a whole.
	maxManifest = 64 << 20
	// maxContent bounds the content of a data partition, in bytes.
	maxContent = 8 << 20
	// largeTimeout is how long a manifest or the bootstrap data may take.
	largeTimeout = 10 * time.Minute
	// maxBadManifests is how often a manifest with a wrong digest is fetched.
	maxBadManifests = 3
)

// Source is the boot server as the source of a plan's image.
type Source struct {
	client *Client
	digest string
	bad    int
}

var _ image.Source = (*Source)(nil)

// Source returns the source of the image of a plan.
func (c *Client) Source(plan agent.ProvisionPlan) *Source {
	return &Source{client: c, digest: plan.Manifest}
}

// Manifest fetches the manifest, which must have the digest in the plan.
func (s *Source) Manifest(ctx context.Context) (*manifest.Manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, largeTimeout)
	defer cancel()
	response, err := s.get(ctx, agent.EndpointManifest, "", nil, http.StatusOK)
	if err != nil {
		return nil, err
	}
	defer drain(response)
	m, err := manifest.Read(&body{r: response.Body}, s.digest, maxManifest)
	if err == nil {
		return m, nil
	}
	if _, broken := errors.AsType[*brokenError](err); broken {
		return nil, err
	}
	if s.bad++; s.bad < maxBadManifests {
		return nil, err
	}
	return nil, failure.New(wire.ReasonImageCorrupt, "the manifest of the image is not the one of the plan, after %d attempts: %w", s.bad, err)
}

// brokenError is an error of the connection, in contrast to one of the content.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// body marks the errors of a connection.
type body struct{ r io.Reader }

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &brokenError{err}
	}
	return n, err
}

// Extent fetches a range of the image.
func (s *Source) Extent(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	header := http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", offset, offset+length-1)}}
	response, err := s.get(ctx, agent.EndpointImage, "", header, http.StatusPartialContent)
	if err != nil {
		return nil, err
	}
	var from, to int64
	if _, err := fmt.Sscanf(response.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to); err != nil || from != offset || to != offset+length-1 {
		drain(response)
		return nil, fmt.Errorf("the boot server sends the range %.100q, and not the bytes %d to %d", response.Header.Get("Content-Range"), offset, offset+length-1)
	}
	return response.Body, nil
}

// Data fetches the content of the data partition. The boot server gives it out once it has sent the image, and records where it will be. Until then it answers
// 202, for minutes: the error is retry.ErrNotYet.
func (s *Source) Data(ctx context.Context, where agent.DataRequest) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, largeTimeout)
	defer cancel()
	body, err := json.Marshal(where)
	if err != nil {
		return nil, err
	}
	response, err := s.client.do(ctx, http.MethodPost, agent.EndpointData, "", body, nil)
	if err != nil {
		return nil, err
	}
	defer drain(response)
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusAccepted:
		return nil, notYet(ctx, response)
	default:
		return nil, unexpected(agent.EndpointData, response)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxContent+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxContent:
		return nil, retry.Final(fmt.Errorf("the content of the data partition is larger than %d bytes", maxContent))
	case manifest.DigestOf(content) != response.Header.Get(agent.HeaderDigest):
		return nil, fmt.Errorf("the bootstrap data has the digest %s, and the boot server says %.100q", manifest.DigestOf(content), response.Header.Get(agent.HeaderDigest))
	}
	return content, nil
}

// Commit asks for the permission to make the disk bootable.
func (s *Source) Commit(ctx context.Context, request agent.CommitRequest) error {
	return s.client.call(ctx, agent.EndpointCommit, request, nil)
}

// get makes a GET request. 202 means that it is too early, and is waited for.
func (s *Source) get(ctx context.Context, endpoint, query string, header http.Header, want int) (*http.Response, error) {
	response, err := s.client.do(ctx, http.MethodGet, endpoint, query, nil, header)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == want:
		return response, nil
	}
	defer drain(response)
	if response.StatusCode == http.StatusAccepted {
		return nil, notYet(ctx, response)
	}
	return nil, unexpected(endpoint, response)
}
