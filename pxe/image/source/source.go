// Package source opens image files where users publish them: on web servers and in OCI registries.
//
// A user chooses the URL, and the boot server is in a network that the user may not reach. So an error says no more than the user may know: whatever goes wrong
// before a file arrives has the same text, except when the other side has proved to be a registry. The cause is for the log.
package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// Reason is why a file could not be opened.
type Reason string

// The reasons.
const (
	Unreachable  Reason = "ImageUnreachable"
	Unauthorized Reason = "ImageUnauthorized"
	NotFound     Reason = "ImageNotFound"
	Invalid      Reason = "ImageFormatInvalid"
)

// Error is why a file could not be opened. Its text may be shown to the user. Cause may not.
type Error struct {
	Reason  Reason
	Message string
	Cause   error
}

func (e *Error) Error() string { return e.Message }

// The texts that users see.
const (
	noFile  = "no file came from the origin: the log of the boot server has the cause"
	refused = "the boot server does not connect to the origin, unless artifacts.allowNetworks or artifacts.allowHosts of its configuration file permits it"
)

// Unreached returns the error for whatever goes wrong before a file has arrived.
func Unreached(cause error) *Error {
	cause = origin.WithoutURL(cause)
	if errors.As(cause, new(*outbound.RefusedError)) {
		return &Error{Unreachable, refused, cause}
	}
	return &Error{Unreachable, noFile, cause}
}

// Body is the content of a file from Offset on.
type Body struct {
	io.ReadCloser

	Offset int64
	// Size is that of the whole file, or -1 if the origin does not say it.
	Size int64
	// Digest is the digest that a registry has for the file, as sha256:HEX, or empty.
	Digest string
}

// File is a published file.
type File interface {
	// Open returns the content from offset on, if the origin can resume and the file is still the same, and otherwise from the beginning. The error is an
	// *Error.
	Open(ctx context.Context, offset int64) (*Body, error)
	// Name is the URL without its query, which may contain a token. Host is the host with its port.
	Name() string
	Host() string
}

// New returns the file with a URL: http://, https://, oci://registry/repository:tag or oci://registry/repository@sha256:HEX. credentials are a document of
// kind kubernetes.io/dockerconfigjson for a registry, or nil. tokenServices are hosts that may be the token service of a registry on another host. Nothing is connected to yet.
// The error is an *Error.
func New(rawURL string, credentials []byte, transport *http.Transport, tokenServices ...string) (File, error) {
	parsed, err := url.Parse(rawURL)
	if err != nil || parsed.Host == "" {
		return nil, &Error{Unreachable, "the URL is not valid", origin.WithoutURL(err)}
	}
	switch parsed.Scheme {
	case "http", "https":
		return &webFile{url: parsed, client: &http.Client{Transport: transport}}, nil
	case "oci":
		return newRegistryFile(parsed, credentials, transport, tokenServices)
	default:
		return nil, &Error{Unreachable, fmt.Sprintf("the URL has the scheme %.20q: http, https and oci are supported", parsed.Scheme), nil}
	}
}

// webFile is a file on a web server.
type webFile struct {
	url    *url.URL
	client *http.Client
	// etag is the strong validator of the file that was opened first, or empty.
	etag string
}

func (f *webFile) Name() string { return f.url.Scheme + "://" + f.url.Host + f.url.Path }
func (f *webFile) Host() string { return f.url.Host }

func (f *webFile) Open(ctx context.Context, offset int64) (*Body, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url.String(), nil)
	if err != nil {
		return nil, Unreached(err)
	}
	// Without this header the transport asks for gzip, and the checksum is that of the file.
	request.Header.Set("Accept-Encoding", "identity")
	if offset > 0 && f.etag != "" { // RFC 9110, sections 13.1.5 and 14.2
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
		request.Header.Set("If-Range", f.etag)
	}
	response, err := f.client.Do(request)
	if err != nil {
		return nil, Unreached(err)
	}
	body := &Body{ReadCloser: response.Body, Size: response.ContentLength}
	switch {
	case response.StatusCode == http.StatusOK:
	case response.StatusCode == http.StatusPartialContent && strings.HasPrefix(response.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", offset)):
		body.Offset = offset
		if body.Size >= 0 {
			body.Size += offset
		}
	default:
		_ = response.Body.Close()
		return nil, Unreached(errors.New("the origin answered " + response.Status))
	}
	if tag := response.Header.Get("Etag"); !strings.HasPrefix(tag, "W/") {
		f.etag = tag
	}
	return body, nil
}
