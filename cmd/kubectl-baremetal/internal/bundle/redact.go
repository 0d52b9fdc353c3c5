// Package bundle makes the files of a support bundle: objects and log lines without what identifies a server or a site, in one archive.
package bundle

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// removed replaces what could be a secret.
const removed = "(removed)"

const (
	// secretWord is a part of the name of what could be a secret.
	secretWord = `(?:passw(?:or)?d|passphrase|secret|token|(?:api|access|private)[_-]?key)(?:[_-]?hash)?`
	// secretValue is a quoted text, whose end may be missing. A text in another text has \" for its quotes.
	secretValue = `\\"(?:[^"\\\n]|\\\\(?:\\["\\]|[^"\\\n]))*(?:\\")?|"(?:[^"\\\n]|\\[^\n])*"?|'[^'\n]*'?`
)

var (
	// urlUsers matches the user and password of a URL, and urlQueries its parameters, which may be a token.
	urlUsers   = regexp.MustCompile(`://[^/?#\s"'@]+@`)
	urlQueries = regexp.MustCompile(`(\b[a-z][a-z0-9+.-]*://[^\s"'?]+)\?[^\s"']+`)
	// assignments match words such as password=... on a command line, in a log line, or in JSON, which may be the text of another JSON value and has \" then.
	assignments = regexp.MustCompile(`(?i)\b([a-z0-9_.-]*` + secretWord + `\\*["']?\s*[=:]\s*)(` + secretValue + `|[^\s,;]+)`)
	// options match words such as --password ... on a command line, which may be a list.
	options = regexp.MustCompile(`(?i)(--[a-z0-9-]*` + secretWord + `\\*["']?(?:\s*,\s*|\s+))(` + secretValue + `|[^\s,;]+)`)
	// secretFields match the fields and the keys whose texts are removed, and secretNames those that have the name of a Secret.
	secretFields = regexp.MustCompile(`(?i)` + secretWord + `|credential`)
	secretNames  = regexp.MustCompile(`(?:Name|Namespace|Ref)$|^pullSecret$`)

	// mails match the addresses of people, which are names of users in many clusters.
	mails   = regexp.MustCompile(`\b[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+\b`)
	bearers = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)

	uuids = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	macs  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5}\b`)
	ipv4s = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	// ipv6s matches addresses, but also times and other texts with colons.
	ipv6s = regexp.MustCompile(`[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*`)
)

// Redactor replaces what identifies a server or a site by words such as ip-1, the same word for the same text, so that a reader can still see what belongs together. What could
// be a secret is removed. It is not safe for concurrent use.
type Redactor struct {
	// KeepIdentities keeps addresses and serial numbers. What could be a secret is removed also then.
	KeepIdentities bool

	words map[string]string // by kind and text
	count map[string]int    // by kind
	known []string          // texts that are replaced everywhere
}

// NewRedactor returns a redactor that knows no identity yet.
func NewRedactor() *Redactor { return &Redactor{words: map[string]string{}, count: map[string]int{}} }

// word returns the replacement of a text.
func (r *Redactor) word(kind, text string) string {
	key := kind + " " + strings.ToLower(text)
	if r.words[key] == "" {
		r.count[kind]++
		r.words[key] = fmt.Sprintf("%s-%d", kind, r.count[kind])
	}
	return r.words[key]
}

// identities are the fields whose whole value identifies something, and the kind of their replacement.
var identities = map[string]string{
	"serialNumber": "serial", "serial": "serial", "systemUUID": "uuid", "macAddress": "mac", "wwn": "wwn", "assetTag": "asset", "chassisID": "chassis", "systemName": "switch",
	"portID": "port", "host": "endpoint", "machineID": "uuid", "holder": "user",
}

// holderPrefixes are the prefixes of the annotations whose keys end in the name of a user.
var holderPrefixes = []string{v1alpha1.PowerHoldPrefix, v1alpha1.ForcePowerHoldPrefix, v1alpha1.PowerCyclePrefix, v1alpha1.PowerOnPrefix}

// annotationsOf returns the annotations of an object, given as JSON values; nil if there are none.
func annotationsOf(tree any) map[string]any {
	object, _ := tree.(map[string]any)
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations
}

// holderOf returns the name of the user in the key of an annotation, and what is before it. The name is empty for another annotation.
func holderOf(key string) (prefix, holder string) {
	for _, prefix := range holderPrefixes {
		if holder, ok := strings.CutPrefix(key, prefix); ok {
			return prefix, holder
		}
	}
	return key, ""
}

// isPerson is false for the holder of a power hold that is an object of the API.
func isPerson(holder string) bool {
	return !strings.HasPrefix(holder, v1alpha1.RemediationHolderPrefix)
}

// hosts are the fields with a URL whose host identifies a site, and the kind of its replacement.
var hosts = map[string]string{"address": "bmc", "url": "host"}

// minIdentity is the minimum length of an identity that is replaced in texts. A shorter one would be a part of other words.
const minIdentity = 5

// Learn collects the identities of an object, given as JSON values, so that they are replaced in the texts of other objects too.
func (r *Redactor) Learn(tree any) {
	r.walk(tree, "", func(field, text string) string {
		kind := identities[field]
		if kind != "" && len(text) >= minIdentity && isPerson(text) {
			r.remember(kind, text)
		}
		if kind := hosts[field]; kind != "" {
			if host := hostOf(text); host != "" {
				r.remember(kind, host)
			}
		}
		return text
	})
	for key := range annotationsOf(tree) {
		if _, holder := holderOf(key); len(holder) >= minIdentity {
			r.remember("user", holder)
		}
	}
	slices.SortFunc(r.known, func(a, b string) int { return len(b) - len(a) }) // the longest first: one may be a part of another
}

func (r *Redactor) remember(kind, text string) {
	if isAddress(text) {
		return // a pattern finds it
	}
	for _, form := range []string{text, strings.ToUpper(text), strings.ToLower(text)} {
		if !slices.Contains(r.known, form) {
			r.known = append(r.known, form)
		}
	}
	r.words["known "+strings.ToLower(text)] = r.word(kind, text)
}

func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// hostOf returns the host of a URL; empty for another text.
func hostOf(text string) string {
	if !strings.Contains(text, "://") {
		return ""
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// Tree redacts the texts of an object in place. The object is given as JSON values. What no reader needs is removed: managed fields, the annotation of kubectl apply, and the
// variables of a ClusterClass, of which any may be a secret.
func (r *Redactor) Tree(tree map[string]any) {
	if metadata, ok := tree["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
	}
	annotations := annotationsOf(tree)
	delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
	for key, value := range maps.Clone(annotations) {
		if prefix, holder := holderOf(key); holder != "" && !r.KeepIdentities {
			delete(annotations, key)
			annotations[prefix+r.word("user", holder)] = value
		}
	}
	if spec, ok := tree["spec"].(map[string]any); ok {
		removeVariables(spec["topology"])
	}
	removeSecrets(tree, false)
	r.walk(tree, "", func(field, text string) string {
		if kind := identities[field]; kind != "" && text != "" && !isAddress(text) && isPerson(text) && !r.KeepIdentities {
			return r.word(kind, text)
		}
		if field == "uid" || field == "resourceVersion" || field == "claimID" || field == "hostUID" {
			return text // they identify objects of the API
		}
		return r.Text(text)
	})
}

// removeVariables removes the variables of the topology of a Cluster: its own, and those of its control plane and of each class of workers.
func removeVariables(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "variables")
		for _, value := range v {
			removeVariables(value)
		}
	case []any:
		for _, value := range v {
			removeVariables(value)
		}
	}
}

// removeSecrets removes the texts in fields whose name says that they could be secrets, whatever is between them, and the values of pairs of a name and a value whose name says so.
// all removes every text.
func removeSecrets(v any, all bool) any {
	switch v := v.(type) {
	case map[string]any:
		name, _ := v["name"].(string)
		for field, value := range v {
			v[field] = removeSecrets(value, all || isSecret(field) || field == "value" && isSecret(name))
		}
	case []any:
		for i := range v {
			v[i] = removeSecrets(v[i], all)
		}
	case string:
		if all && v != "" {
			return removed
		}
	}
	return v
}

// isSecret is true for the name of a field that could have a secret. The name of a Secret is no secret.
func isSecret(field string) bool {
	return secretFields.MatchString(field) && !secretNames.MatchString(field)
}

// walk replaces each text of a tree of JSON values, given the name of its field.
func (r *Redactor) walk(v any, field string, change func(field, text string) string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = r.walk(value, name, change)
		}
	case []any:
		for i := range v {
			v[i] = r.walk(v[i], field, change)
		}
	case string:
		return change(field, v)
	}
	return v
}

// Text redacts a text.
func (r *Redactor) Text(text string) string {
	text = urlUsers.ReplaceAllString(text, "://")
	text = urlQueries.ReplaceAllString(text, "${1}?"+removed)
	text = assignments.ReplaceAllString(text, "${1}"+removed)
	text = options.ReplaceAllString(text, "${1}"+removed)
	text = bearers.ReplaceAllString(text, "${1} "+removed)
	if r.KeepIdentities {
		return text
	}
	for _, known := range r.known {
		text = strings.ReplaceAll(text, known, r.words["known "+strings.ToLower(known)])
	}
	text = mails.ReplaceAllStringFunc(text, func(found string) string { return r.word("mail", found) })
	text = macs.ReplaceAllStringFunc(text, func(found string) string { return r.word("mac", strings.ReplaceAll(found, "-", ":")) })
	text = uuids.ReplaceAllStringFunc(text, func(found string) string { return r.word("uuid", found) })
	text = ipv4s.ReplaceAllStringFunc(text, r.address)
	return ipv6s.ReplaceAllStringFunc(text, r.address)
}

// address replaces an IP address. Addresses that mean the same everywhere stay.
func (r *Redactor) address(text string) string {
	bare := strings.TrimRight(text, ":.")
	if strings.HasSuffix(text, "::") {
		bare = text
	}
	address, err := netip.ParseAddr(bare)
	if err != nil || address.IsUnspecified() || address.IsLoopback() {
		return text
	}
	return r.word("ip", address.String()) + strings.TrimPrefix(text, bare)
}
