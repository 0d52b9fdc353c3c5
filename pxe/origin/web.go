package origin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// The texts for everything that goes wrong before a file has arrived. A user chooses the URL, and the boot server is in a network that the user may not reach. So a
// user learns nothing about what the URL leads to, only whether the outbound policy permits it.
var (
	ErrNoFile  = errors.New("no file came from the origin: the log of the boot server has the cause")
	ErrRefused = errors.New("the boot server does not connect to the origin, unless artifacts.allowNetworks or artifacts.allowHosts of its configuration file permits it")
)

// Error is an error with a cause that the user must not see.
type Error struct {
	// Shown is the text for the user. errors.Is and errors.As find it.
	Shown error
	// Cause is for the log. errors.Is and errors.As do not find it.
	Cause error
}

func (e *Error) Error() string { return e.Shown.Error() }
func (e *Error) Unwrap() error { return e.Shown }

// Unreached returns the error for a cause that came before a file has arrived: ErrRefused if the outbound policy refused a connection, and otherwise ErrNoFile.
func Unreached(cause error) *Error {
	cause = WithoutURL(cause)
	if errors.As(cause, new(*outbound.RefusedError)) {
		return &Error{ErrRefused, cause}
	}
	return &Error{ErrNoFile, cause}
}

// Body is the content of a file from Offset on, in bytes.
type Body struct {
	io.ReadCloser

	Offset int64
	// Size is that of the whole file, or -1 if the origin does not say it.
	Size int64
	// Digest is the digest that a registry has for the file, as sha256:HEX, or empty.
	Digest string
}

// WebFile is a file on a web server.
type WebFile struct {
	url    *url.URL
	client *http.Client
	// etag is the strong validator of the file that was opened first, or empty.
	etag string
}

// NewWebFile returns the file with a URL. Nothing is connected to yet.
func NewWebFile(from *url.URL, client *http.Client) *WebFile {
	return &WebFile{url: from, client: client}
}

// Name is the URL without its query, which may contain a token.
func (f *WebFile) Name() string { return f.url.Scheme + "://" + f.url.Host + f.url.Path }

// Host is the host with its port.
func (f *WebFile) Host() string { return f.url.Host }

// Open returns the content from offset on, if the origin can resume and the file is still the same, and otherwise from the beginning. The error is an *Error.
func (f *WebFile) Open(ctx context.Context, offset int64) (*Body, error) {
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
