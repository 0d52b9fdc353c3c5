package redfish

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const (
	// minSecret is the length of a path segment that may be a token. Shorter ones are parts of other words.
	minSecret = 8
	// maxSecrets limits the remembered segments, because a BMC reports URLs.
	maxSecrets = 64
	hidden     = "(masked)"
)

// masker removes secrets from errors.
type masker struct {
	secrets []string // parts of URLs
}

// hideURL hides the path segments of a URL in further errors of this connection. The path contains a token, and BMCs quote the URL, its path, or a part of it.
func (m *masker) hideURL(text string) {
	u, err := url.Parse(text)
	if err != nil {
		return // errors with a URL of this form are masked by bmc.MaskURLs
	}
	for _, segment := range strings.FieldsFunc(u.Path+"/"+u.RawQuery, func(r rune) bool { return strings.ContainsRune("/?&=", r) }) {
		if segment = strings.TrimSuffix(segment, ".iso"); len(segment) >= minSecret && len(m.secrets) < maxSecrets && !slices.Contains(m.secrets, segment) {
			m.secrets = append(m.secrets, segment)
		}
	}
}

// hide masks the URLs in the messages of a response.
func (m *masker) hide(err error) {
	var e *answerError
	if !errors.As(err, &e) {
		return
	}
	for i, message := range e.messages {
		e.messages[i] = m.masked(message)
	}
}

// masked masks the URLs in a message of the BMC.
func (m *masker) masked(message string) string {
	message = bmc.MaskURLs(message)
	for _, secret := range m.secrets {
		message = strings.ReplaceAll(message, secret, hidden)
	}
	return message
}
