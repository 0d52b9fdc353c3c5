// Package origin has what all downloads from URLs of users have in common: the jobs that are repeated after an error, the client that keeps to the outbound policy, what
// users see of its errors, the bounds on concurrent downloads of a namespace, the minimum rate, and the checksums.
package origin

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// NewTransport returns a transport that connects only to addresses that the policy permits, also after redirects.
func NewTransport(policy outbound.Policy) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return outbound.Dial(ctx, 30*time.Second, policy.Check, network, address)
		},
		TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConns: 64, IdleConnTimeout: 30 * time.Second,
	}
}

// WithoutURL removes the URL from an error of a request: a query may contain a token.
func WithoutURL(err error) error {
	if withURL := new(url.Error); errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}

// Checksum is the checksum of a file.
type Checksum struct {
	// Kind is sha256 or sha512.
	Kind string
	// Digest is in lower case hexadecimal digits.
	Digest string
}

// ParseChecksum reads sha256:HEX or sha512:HEX.
func ParseChecksum(text string) (Checksum, error) {
	kind, digest, _ := strings.Cut(text, ":")
	c := Checksum{kind, strings.ToLower(digest)}
	raw, err := hex.DecodeString(digest)
	if sum := c.New(); err != nil || sum == nil || len(raw) != sum.Size() {
		return Checksum{}, fmt.Errorf("%q is no checksum", text)
	}
	return c, nil
}

// New returns the hash function, or nil for an unknown kind.
func (c Checksum) New() hash.Hash {
	switch c.Kind {
	case "sha256":
		return sha256.New()
	case "sha512":
		return sha512.New()
	default:
		return nil
	}
}

// FileName is a name for the file with this checksum.
func (c Checksum) FileName() string { return c.Kind + "-" + c.Digest }

func (c Checksum) String() string { return c.Kind + ":" + c.Digest }

// HashFile returns the digest of a whole file.
func HashFile(ctx context.Context, path string, sum hash.Hash) (string, error) {
	opened, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }()
	buffer := make([]byte, 1<<20)
	for {
		n, err := opened.Read(buffer)
		_, _ = sum.Write(buffer[:n]) // never fails
		switch {
		case errors.Is(err, io.EOF):
			return hex.EncodeToString(sum.Sum(nil)), nil
		case err != nil:
			return "", err
		case ctx.Err() != nil:
			return "", ctx.Err()
		}
	}
}
