package bmclib

import (
	"crypto/md5" //nolint:gosec // AMT knows no other algorithm
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// digest is HTTP digest authentication with MD5 (RFC 2617, 3.2).
type digest struct {
	username, password   string
	realm, nonce, opaque string
	qop                  bool // quality of protection "auth"; without it RFC 2069 applies
	count                int  // requests with the nonce
}

// challenge sets the nonce from the challenge of a response, and resets the counter.
func (d *digest) challenge(header http.Header) error {
	for _, value := range header.Values("WWW-Authenticate") {
		scheme, rest, _ := strings.Cut(strings.TrimSpace(value), " ")
		if !strings.EqualFold(scheme, "digest") {
			continue // Negotiate
		}
		fields := challengeFields(rest)
		algorithm, offered := fields["algorithm"], fields["qop"]
		qop := slices.ContainsFunc(strings.Split(offered, ","), func(q string) bool { return strings.TrimSpace(q) == "auth" })
		if fields["nonce"] == "" || algorithm != "" && !strings.EqualFold(algorithm, "MD5") || offered != "" && !qop {
			continue
		}
		d.realm, d.nonce, d.opaque, d.qop, d.count = fields["realm"], fields["nonce"], fields["opaque"], qop, 0
		return nil
	}
	return errors.New("AMT does not offer digest authentication with MD5")
}

// challengeFields reads name=value and name="value", separated by commas (RFC 9110, 11.2). It stops at invalid text.
func challengeFields(text string) map[string]string {
	fields := map[string]string{}
	for {
		name, rest, ok := strings.Cut(strings.TrimLeft(text, ", \t"), "=")
		if !ok {
			return fields
		}
		var value string
		if rest = strings.TrimLeft(rest, " \t"); strings.HasPrefix(rest, `"`) {
			value, text = quoted(rest[1:])
		} else {
			value, text, _ = strings.Cut(rest, ",")
			value = strings.TrimSpace(value)
		}
		fields[strings.ToLower(strings.TrimSpace(name))] = value
	}
}

// quoted reads a quoted string without its opening quote, and returns the text after it.
func quoted(text string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			return b.String(), text[i+1:]
		case text[i] == '\\' && i+1 < len(text):
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String(), ""
}

// authorization returns the Authorization header of a request with a client nonce.
func (d *digest) authorization(method, uri, cnonce string) string {
	d.count++
	ha1 := hash(d.username + ":" + d.realm + ":" + d.password)
	ha2 := hash(method + ":" + uri)
	count := fmt.Sprintf("%08x", d.count)
	response := hash(ha1 + ":" + d.nonce + ":" + ha2)
	if d.qop {
		response = hash(strings.Join([]string{ha1, d.nonce, count, cnonce, "auth", ha2}, ":"))
	}
	value := fmt.Sprintf(`Digest username=%s, realm=%s, nonce=%s, uri=%s, response="%s", algorithm=MD5`,
		quote(d.username), quote(d.realm), quote(d.nonce), quote(uri), response)
	if d.opaque != "" {
		value += ", opaque=" + quote(d.opaque)
	}
	if d.qop {
		value += fmt.Sprintf(`, qop=auth, nc=%s, cnonce="%s"`, count, cnonce)
	}
	return value
}

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func hash(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // AMT knows no other algorithm
	return hex.EncodeToString(sum[:])
}

// secret returns a new random text of 128 bits.
func secret() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func newUUID() string {
	s := secret()
	return s[:8] + "-" + s[8:12] + "-4" + s[13:16] + "-8" + s[17:20] + "-" + s[20:]
}
