// Package source opens image files where users publish them: on web servers and in OCI registries.
//
// An error says no more than the user may know (see origin.ErrNoFile): whatever goes wrong before a file arrives has the same text, except when the other side has
// proved to be a registry. The cause is for the log.
package source

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// Reason is why a file could not be opened.
type Reason string

const (
	Unreachable  Reason = "ImageUnreachable"
	Unauthorized Reason = "ImageUnauthorized"
	NotFound     Reason = "ImageNotFound"
	Invalid      Reason = "ImageFormatInvalid"
)

// Error is why a file could not be opened, if the user may know more than an origin.Error says. Its text may be shown to the user. Cause may not.
type Error struct {
	Reason  Reason
	Message string
	Cause   error
}

func (e *Error) Error() string { return e.Message }

// File is a published file.
type File interface {
	// Open returns the content from offset on, if the origin can resume and the file is still the same, and otherwise from the beginning. The error is an
	// *Error, or an *origin.Error if no file has arrived.
	Open(ctx context.Context, offset int64) (*origin.Body, error)
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
		return origin.NewWebFile(parsed, &http.Client{Transport: transport}), nil
	case "oci":
		return newRegistryFile(parsed, credentials, transport, tokenServices)
	default:
		return nil, &Error{Unreachable, fmt.Sprintf("the URL has the scheme %.20q: http, https and oci are supported", parsed.Scheme), nil}
	}
}
