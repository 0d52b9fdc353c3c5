// Package image gets operating system images from where users name them, verifies and converts them once, and keeps them on disk for the agents of servers.
//
// All namespaces share one copy of an image. The checksum is the permission to read it: a namespace gets the image whatever URL and credentials it names.
package image

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// Source is an image as it is published.
type Source struct {
	// URL is http://, https://, or oci://registry/repository:tag or @sha256:HEX.
	URL string `json:"url"`
	// Checksum is that of the file as published: sha256:HEX or sha512:HEX.
	Checksum string `json:"checksum"`
	// Raw takes the content of the file as a raw disk, whatever it begins with.
	Raw bool `json:"raw,omitempty"`
}

// Credentials is a document of the kind kubernetes.io/dockerconfigjson. It may be nil. It prints as a placeholder, so that no log contains it.
type Credentials []byte

func (c Credentials) String() string { return fmt.Sprintf("[%d bytes of credentials]", len(c)) }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// Info describes an image that is ready.
type Info struct {
	// ManifestDigest is the digest of the encoded manifest: sha256:HEX.
	ManifestDigest string `json:"manifestDigest"`
	// Header is that of the manifest.
	Header manifest.Header `json:"header"`
	// DataBytes is what a server downloads, without holes.
	DataBytes int64 `json:"dataBytes"`
}

// Opened is an image that is open. Its data stays readable when the store deletes it.
type Opened struct {
	// Manifest reads the encoded manifest. It fails after the store deleted the image.
	Manifest func() ([]byte, error)
	// Info describes the image.
	Info Info
	// Data is the raw disk with holes, for http.ServeContent.
	Data *os.File
	// Modified is when the image became ready.
	Modified time.Time
}

// Close closes the data.
func (o *Opened) Close() error { return o.Data.Close() }

// ErrNotYet means that an image is not ready yet.
var ErrNotYet = errors.New("the image is not ready yet")

// Step is what is done for an image that is not ready.
type Step string

const (
	Waiting     Step = "Waiting" // for other images of the namespace, or for a free processor
	Downloading Step = "Downloading"
	Converting  Step = "Converting"
	Verifying   Step = "Verifying" // an image of an earlier process
)

// NotReady is the state of an image that is not ready yet. It wraps ErrNotYet.
type NotReady struct { //nolint:errname // it is a state
	Step Step `json:"step"`
	// Done and Total are bytes of the step. Total is 0 if it is unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
}

func (n *NotReady) Error() string {
	if n.Total > 0 {
		return fmt.Sprintf("%v: %s, %d of %d bytes", ErrNotYet, n.Step, n.Done, n.Total)
	}
	return fmt.Sprintf("%v: %s, %d bytes", ErrNotYet, n.Step, n.Done)
}

func (n *NotReady) Unwrap() error { return ErrNotYet }

// Reason is why an image is not available.
type Reason string

// The reasons. All but NoSpace, Interrupted and ImageUnreachable are permanent until the image or its source changes.
const (
	// ImageUnreachable is whatever goes wrong before a file has arrived: a user cannot use it to scan the network of the boot server.
	ImageUnreachable Reason = "ImageUnreachable"
	// ImageUnauthorized and ImageNotFound are answers of registries.
	ImageUnauthorized  Reason = "ImageUnauthorized"
	ImageNotFound      Reason = "ImageNotFound"
	ChecksumDiffers    Reason = "ChecksumMismatch"
	ImageFormatInvalid Reason = "ImageFormatInvalid"
	ImageTooLarge      Reason = "ImageTooLarge"
	// NoSpace means that the image does not fit beside what other servers use.
	NoSpace Reason = "NoSpace"
	// Interrupted means that the download or the conversion took too long, or that the boot server failed.
	Interrupted Reason = "ImageInterrupted"
)

// Error is why an image is not available. It is shown to the user.
type Error struct {
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

func (e *Error) Error() string { return e.Message }

// permanent is true for an error that stays until the image or its source changes.
func permanent(err error) bool {
	e := new(Error)
	return errors.As(err, &e) && e.Reason != ImageUnreachable && e.Reason != NoSpace && e.Reason != Interrupted
}

// Options bound a Service. Zero values take the defaults.
type Options struct {
	// Dir is the folder. It is created, and contains nothing that cannot be fetched again.
	Dir string
	// MaxBytes is the maximum size of the folder, with everything that is incomplete. Defaults to 100 GiB. The volume needs a little more, for file system
	// metadata.
	MaxBytes int64
	// MaxImageSize is the size of the largest disk in an image. Defaults to 1 TiB.
	MaxImageSize int64
	// Retention is how long an image is kept after its last use. Defaults to 1 hour.
	Retention time.Duration
	// Outbound restricts where images may come from, because users choose the URLs.
	Outbound outbound.Policy
	// TokenServices are the hosts that registries may name as their token services, beside their own.
	TokenServices []string
	// RetryAfter is how long an error is remembered. A permanent error is remembered twice as long each time, up to MaxRetryAfter. Default to 10 s and
	// 5 minutes.
	RetryAfter, MaxRetryAfter time.Duration
	// Timeout bounds a download, and also a conversion. Defaults to 1 hour.
	Timeout time.Duration
	// Log gets the causes that users do not see.
	Log logr.Logger
}

func (o *Options) setDefaults() {
	o.MaxBytes = cmp.Or(o.MaxBytes, 100<<30)
	o.MaxImageSize = cmp.Or(o.MaxImageSize, 1<<40)
	o.Retention = cmp.Or(o.Retention, time.Hour)
	o.RetryAfter = cmp.Or(o.RetryAfter, 10*time.Second)
	o.MaxRetryAfter = cmp.Or(o.MaxRetryAfter, 5*time.Minute)
	o.Timeout = cmp.Or(o.Timeout, time.Hour)
}
