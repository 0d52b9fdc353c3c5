package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

const (
	// maxManifest bounds a manifest and an error, in bytes. Registries must take manifests of 4 MiB (distribution specification), whose decoded form has
	// hundreds of MiB; those of artifacts have a few KiB.
	maxManifest  = 256 << 10
	maxRedirects = 10
	// maxListed is how many layers an error lists.
	maxListed = 10
	// dockerIndex is the media type of an index before OCI.
	dockerIndex = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// suffixes are the endings of image files, of which one of several layers must have one in its title.
var suffixes = []string{".raw", ".img", ".qcow2", ".raw.gz", ".img.gz", ".qcow2.gz", ".raw.xz", ".img.xz", ".qcow2.xz", ".raw.zst", ".img.zst", ".qcow2.zst", ".raw.bz2", ".img.bz2", ".qcow2.bz2"}

// registryFile is a layer of an artifact in a registry.
type registryFile struct {
	url        *url.URL
	repository *remote.Repository
	witness    *witness
	layer      *ocispec.Descriptor
}

// knownTokenServices are the token services of public registries that are not on the host of the registry.
var knownTokenServices = map[string]string{"registry-1.docker.io": "auth.docker.io", "registry.gitlab.com": "gitlab.com"}

func newRegistryFile(from *url.URL, document []byte, transport *http.Transport, tokenServices []string) (*registryFile, error) {
	repository, err := remote.NewRepository(from.Host + from.Path)
	if err != nil || repository.Reference.Reference == "" {
		return nil, &Error{Unreachable, "the URL is not valid: it must be oci://registry/repository:tag or oci://registry/repository@sha256:HEX", err}
	}
	host := repository.Reference.Host() // that of Docker Hub has another name than its references
	w := &witness{host: host, tokenServices: append([]string{host, knownTokenServices[host]}, tokenServices...), next: transport}
	client := &auth.Client{Client: &http.Client{Transport: w, CheckRedirect: w.checkRedirect}, Cache: auth.NewCache()}
	client.SetUserAgent("cluster-api-provider-baremetal")
	if len(document) > 0 {
		store, err := credentials.NewMemoryStoreFromDockerConfig(document)
		if err != nil {
			// The text of the error may contain parts of the document.
			return nil, &Error{Unauthorized, "the pull Secret has no valid document in .dockerconfigjson", nil}
		}
		client.Credential = credentialOf(store)
	}
	repository.Client = client
	return &registryFile{url: from, repository: repository, witness: w}, nil
}

// credentialOf finds the credentials of a registry. For Docker Hub, credentials.Credential of oras-go v2.7.0 asks for the key that Docker writes, a URL, and the
// store from a document has only the host of that URL (no upstream issue found). Delete this when credentials.Credential finds it.
func credentialOf(store credentials.Store) auth.CredentialFunc {
	return func(ctx context.Context, host string) (auth.Credential, error) {
		key := credentials.ServerAddressFromHostname(host)
		if u, err := url.Parse(key); err == nil && u.Host != "" {
			key = u.Host
		}
		for _, name := range []string{host, key} {
			if c, err := store.Get(ctx, name); err != nil || c != auth.EmptyCredential {
				return c, err
			}
		}
		return auth.EmptyCredential, nil
	}
}

func (f *registryFile) Name() string { return f.url.Scheme + "://" + f.url.Host + f.url.Path }
func (f *registryFile) Host() string { return f.url.Host }

func (f *registryFile) Open(ctx context.Context, offset int64) (*origin.Body, error) {
	if f.layer == nil {
		layer, err := f.findLayer(ctx)
		if err != nil {
			return nil, err
		}
		f.layer = &layer
	}
	f.witness.setBlob(f.layer.Digest.String())
	// oras-go verifies the length that the registry says. The content is verified by the caller, with the checksum.
	blob, err := f.repository.Blobs().Fetch(ctx, *f.layer)
	if err != nil {
		return nil, origin.Unreached(err)
	}
	body := &origin.Body{ReadCloser: blob, Size: f.layer.Size, Digest: f.layer.Digest.String()}
	if seeker, ok := blob.(io.Seeker); ok && offset > 0 && offset < f.layer.Size {
		if _, err := seeker.Seek(offset, io.SeekStart); err != nil {
			return nil, origin.Unreached(errors.Join(err, blob.Close()))
		}
		body.Offset = offset
	}
	return body, nil
}

// findLayer returns the layer of the artifact that is the image.
func (f *registryFile) findLayer(ctx context.Context) (ocispec.Descriptor, error) {
	reference := f.repository.Reference.Reference
	for range 2 { // an index, and a manifest
		described, raw, err := f.fetchManifest(ctx, reference)
		if err != nil {
			return ocispec.Descriptor{}, f.failed(err)
		}
		if described.MediaType != ocispec.MediaTypeImageIndex && described.MediaType != dockerIndex {
			return selectLayer(raw)
		}
		var index ocispec.Index
		if err := json.Unmarshal(raw, &index); err != nil || len(index.Manifests) != 1 {
			return ocispec.Descriptor{}, &Error{Invalid, fmt.Sprintf("the reference is an index with %d manifests: name one of them by its digest: %s",
				len(index.Manifests), list(index.Manifests)), err}
		}
		reference = index.Manifests[0].Digest.String()
	}
	return ocispec.Descriptor{}, &Error{Invalid, "the reference is an index of an index: name a manifest by its digest", nil}
}

// fetchManifest returns a manifest whose digest was verified. A GET, and not HEAD, has an error body by which a registry is recognized.
func (f *registryFile) fetchManifest(ctx context.Context, reference string) (ocispec.Descriptor, []byte, error) {
	described, from, err := f.repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return described, nil, err
	}
	defer func() { _ = from.Close() }()
	if described.Size > maxManifest {
		return described, nil, fmt.Errorf("the manifest has %d bytes", described.Size)
	}
	raw, err := content.ReadAll(from, described)
	return described, raw, err
}

// selectLayer returns the only layer, or the only one with the name of an image file.
func selectLayer(raw []byte) (ocispec.Descriptor, error) {
	var m ocispec.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return ocispec.Descriptor{}, &Error{Invalid, "the reference has no valid manifest of an OCI artifact", err}
	}
	candidates := m.Layers
	if len(candidates) > 1 {
		candidates = slices.DeleteFunc(slices.Clone(candidates), func(d ocispec.Descriptor) bool {
			title := strings.ToLower(d.Annotations[ocispec.AnnotationTitle])
			return !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(title, s) })
		})
	}
	if len(candidates) != 1 {
		return ocispec.Descriptor{}, &Error{Invalid, fmt.Sprintf("the artifact has %d layers, of which %d have the annotation %s with the name of an image file, such as disk.qcow2: "+
			"exactly one must have it: %s", len(m.Layers), len(candidates), ocispec.AnnotationTitle, list(m.Layers)), nil}
	}
	layer := candidates[0]
	if err := layer.Digest.Validate(); err != nil || layer.Size <= 0 {
		return ocispec.Descriptor{}, &Error{Invalid, "the layer of the artifact has no valid digest, or is empty", err}
	}
	return layer, nil
}

// list describes layers or manifests for a message.
func list(descriptors []ocispec.Descriptor) string {
	var lines []string
	for _, d := range descriptors[:min(maxListed, len(descriptors))] {
		line := fmt.Sprintf("%.80q (%.80q, %d bytes", string(d.Digest), d.MediaType, d.Size)
		if title := d.Annotations[ocispec.AnnotationTitle]; title != "" {
			line += fmt.Sprintf(", title %.80q", title)
		}
		if d.Platform != nil {
			line += fmt.Sprintf(", platform %.20q", d.Platform.OS+"/"+d.Platform.Architecture)
		}
		lines = append(lines, line+")")
	}
	if len(descriptors) > maxListed {
		lines = append(lines, fmt.Sprintf("and %d more", len(descriptors)-maxListed))
	}
	return strings.Join(lines, ", ")
}

// failed returns the error for a manifest that did not come. Only what has proved to be a registry has an error of its own. All failures of its token service,
// whose address the registry chooses, have the same text.
func (f *registryFile) failed(err error) error {
	switch status := f.witness.status(); status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return &Error{Unauthorized, "the registry does not permit to pull the image, or its token service does not answer, or is on another host that images.tokenServices of the configuration file does not name: check the pull Secret; the log of the boot server has the cause", err}
	case http.StatusNotFound:
		return &Error{NotFound, "the registry has no such image: check the repository, and the tag or digest", err}
	default:
		return origin.Unreached(err)
	}
}

// witness remembers the last status with which a registry refused. A registry proves that it is one with the body of its error, as the OCI distribution
// specification has it (section "Error Codes"), or with the header of the specification of Docker.
type witness struct {
	host          string
	tokenServices []string // the hosts that a registry may name as its token service
	next          http.RoundTripper

	mu   sync.Mutex
	last int
	blob string // the digest of the blob that is fetched; empty before that
}

func (w *witness) setBlob(digest string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blob = digest
}

// checkRedirect lets a registry send a client to another host for blobs only. Otherwise the message about a manifest would say what an internal server answers, and the
// registry would get what it answers to a request for a token. A request for a blob has no query, and one for a token always has.
func (w *witness) checkRedirect(request *http.Request, via []*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := via[0]
	blob := w.blob != "" && first.Method == http.MethodGet && first.URL.RawQuery == "" && strings.HasSuffix(first.URL.Path, "/blobs/"+w.blob)
	switch {
	case !blob && request.URL.Host != first.URL.Host:
		return errors.New("the registry redirects to another host for what is no blob")
	case len(via) >= maxRedirects:
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

func (w *witness) status() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// sameHost compares hosts of https URLs. The port 443 is the default.
func sameHost(a, b string) bool {
	return a != "" && strings.EqualFold(strings.TrimSuffix(a, ":443"), strings.TrimSuffix(b, ":443"))
}

// errTokenService is why a token service is not asked. The user sees the same text as for one that does not answer.
var errTokenService = errors.New("the registry names a token service on a host that is neither its own nor in images.tokenServices of the configuration file")

// RoundTrip implements http.RoundTripper. A request to another host that is no redirect is one for a token: the registry chooses the URL, and gets what the answer has in the
// fields token and access_token.
func (w *witness) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Response == nil && !slices.ContainsFunc(w.tokenServices, func(host string) bool { return sameHost(host, request.URL.Host) }) {
		return nil, fmt.Errorf("%w: %.100q", errTokenService, request.URL.Host)
	}
	response, err := w.next.RoundTrip(request)
	if err != nil || request.URL.Host != w.host || response.StatusCode < http.StatusBadRequest {
		return response, err
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxManifest))
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(raw))
	var body struct {
		Errors []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	proved := json.Unmarshal(raw, &body) == nil && len(body.Errors) > 0 && body.Errors[0].Code != "" ||
		strings.HasPrefix(response.Header.Get("Docker-Distribution-Api-Version"), "registry/")
	w.mu.Lock()
	defer w.mu.Unlock()
	if proved { // each answer for itself: the name of the host may resolve to another address the next time
		w.last = response.StatusCode
	}
	return response, nil
}
