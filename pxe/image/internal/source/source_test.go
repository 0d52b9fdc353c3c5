package source

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // the standard library and the registry want a log.Logger
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	. "github.com/onsi/gomega"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// transport trusts test servers.
func transport() *http.Transport {
	t := origin.NewTransport(outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	return t
}

func start(t *testing.T, handler http.Handler) *url.URL {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	parsed, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// open reads a file. It returns an origin.Error as an Error.
func open(t *testing.T, rawURL string, credentials []byte) (string, *Error) {
	t.Helper()
	file, err := New(rawURL, credentials, transport())
	failure := new(Error)
	if err == nil {
		var body *origin.Body
		if body, err = file.Open(t.Context(), 0); err == nil {
			content, err := io.ReadAll(body)
			if err := errors.Join(err, body.Close()); err != nil {
				t.Fatal(err)
			}
			return string(content), nil
		}
	}
	if unreached := new(origin.Error); errors.As(err, &unreached) {
		return "", &Error{Unreachable, unreached.Error(), unreached.Cause}
	}
	if !errors.As(err, &failure) {
		t.Fatalf("%v", err)
	}
	return "", failure
}

// push puts a blob or a manifest into a registry.
func push(t *testing.T, host, path, mediaType string, content []byte) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}
	client := &http.Client{Transport: transport()}
	method, target := http.MethodPut, "https://"+host+"/v2/"+path
	if strings.HasSuffix(path, "/blobs/") {
		method, target = http.MethodPost, "https://"+host+"/v2/"+path+"uploads/?digest="+d.Digest.String()
	}
	request, err := http.NewRequestWithContext(t.Context(), method, target, bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", mediaType)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatal(response.Status)
	}
	return d
}

// artifact puts an artifact with layers into a registry. The names are the titles of the layers, which contain them.
func artifact(t *testing.T, host, tag string, titles ...string) ocispec.Descriptor {
	t.Helper()
	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, Config: push(t, host, "os/image/blobs/", "application/vnd.oci.empty.v1+json", []byte("{}"))}
	m.SchemaVersion = 2
	for _, title := range titles {
		layer := push(t, host, "os/image/blobs/", "application/octet-stream", []byte(title))
		layer.Annotations = map[string]string{ocispec.AnnotationTitle: title}
		m.Layers = append(m.Layers, layer)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return push(t, host, "os/image/manifests/"+tag, m.MediaType, raw)
}

func index(t *testing.T, host, tag string, manifests ...ocispec.Descriptor) {
	t.Helper()
	i := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex, Manifests: manifests}
	i.SchemaVersion = 2
	raw, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	push(t, host, "os/image/manifests/"+tag, i.MediaType, raw)
}

func newRegistry() http.Handler {
	return registry.New(registry.Logger(log.New(io.Discard, "", 0)))
}

func TestRegistry(t *testing.T) {
	g := NewWithT(t)
	host := start(t, newRegistry()).Host
	one := artifact(t, host, "one", "disk")
	two := artifact(t, host, "several", "README.md", "disk.QCOW2", "sbom.json")
	artifact(t, host, "ambiguous", "a.raw", "b.raw.zst")
	artifact(t, host, "none", "README.md", "sbom.json")
	index(t, host, "index1", one)
	index(t, host, "index2", one, two)
	image := "oci://" + host + "/os/image"
	for reference, content := range map[string]string{":one": "disk", "@" + one.Digest.String(): "disk", ":several": "disk.QCOW2", ":index1": "disk"} {
		got, failure := open(t, image+reference, nil)
		g.Expect(failure).NotTo(HaveOccurred(), reference)
		g.Expect(got).To(Equal(content), reference)
	}
	for reference, want := range map[string]string{
		":ambiguous": "2 layers, of which 2", ":none": `title "sbom.json"`, ":index2": "an index with 2 manifests: name one of them by its digest: \"" + one.Digest.String(),
	} {
		_, failure := open(t, image+reference, nil)
		g.Expect(failure.Reason).To(Equal(Invalid), reference)
		g.Expect(failure.Message).To(ContainSubstring(want))
	}
	for _, missing := range []string{image + ":missing", image + "@" + digest.FromString("x").String(), "oci://" + host + "/other:tag"} {
		_, failure := open(t, missing, nil)
		g.Expect(failure.Reason).To(Equal(NotFound), missing)
	}
	for _, invalid := range []string{image, "oci://" + host + "/UPPER:tag", "oci:///x:y", "ftp://x/y", "://", "file:///etc/passwd"} {
		_, failure := open(t, invalid, nil)
		g.Expect(failure).To(HaveOccurred(), invalid)
	}
	file, err := New(image+":several", nil, transport())
	g.Expect(err).NotTo(HaveOccurred())
	body, err := file.Open(t.Context(), 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(body.Size).To(BeEquivalentTo(len("disk.QCOW2")))
	g.Expect(body.Digest).To(Equal(digest.FromString("disk.QCOW2").String()))
	g.Expect(body.Close()).To(Succeed())
}

// TestRegistryCredentials: the registry wants a token, which its token service gives to one user, and to anybody for public images. Blobs are in another place,
// which gets no token.
func TestRegistryCredentials(t *testing.T) {
	g := NewWithT(t)
	inner := newRegistry()
	plain := start(t, inner).Host
	artifact(t, plain, "one", "disk")
	var leaked atomic.Bool
	storage := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		inner.ServeHTTP(w, r)
	}))
	var public atomic.Bool
	var host string
	private := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case r.URL.Path == "/token" && (public.Load() || user == "me" && password == "right"):
			_, _ = io.WriteString(w, `{"token":"t0ken"}`)
		case r.URL.Path == "/token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.Header.Get("Authorization") != "Bearer t0ken":
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="https://%s/token",service="registry"`, host))
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED","message":"no"}]}`)
		case strings.Contains(r.URL.Path, "/blobs/"):
			http.Redirect(w, r, "https://"+storage.Host+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			inner.ServeHTTP(w, r)
		}
	}))
	host = private.Host
	document := func(password string) []byte {
		auth := base64.StdEncoding.EncodeToString([]byte("me:" + password))
		return fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, auth)
	}
	image := "oci://" + host + "/os/image:one"
	got, failure := open(t, image, document("right"))
	g.Expect(failure).NotTo(HaveOccurred())
	g.Expect(got).To(Equal("disk"))
	g.Expect(leaked.Load()).To(BeFalse())
	for _, credentials := range [][]byte{document("wrong-secret"), nil, []byte(`{"auths":{"other.example.com":{"auth":"bWU6cmlnaHQ="}}}`)} {
		_, failure = open(t, image, credentials)
		g.Expect(failure.Reason).To(Equal(Unauthorized))
		g.Expect(failure.Message).To(ContainSubstring("check the pull Secret"))
		g.Expect(fmt.Sprint(failure.Message, failure.Cause)).NotTo(ContainSubstring("secret\""))
	}
	_, failure = open(t, image, []byte("no JSON: hunter2"))
	g.Expect(failure.Reason).To(Equal(Unauthorized))
	g.Expect(fmt.Sprint(failure.Message, failure.Cause)).NotTo(ContainSubstring("hunter2"))
	public.Store(true)
	_, failure = open(t, image, nil)
	g.Expect(failure).NotTo(HaveOccurred(), "anonymous")
}

// TestRedirectOfManifest: a registry that sends the client to another host for a manifest is refused, even if that host has a valid one.
func TestRedirectOfManifest(t *testing.T) {
	g := NewWithT(t)
	inner := newRegistry()
	internal := start(t, inner)
	artifact(t, internal.Host, "one", "disk")
	var to atomic.Value
	to.Store("/manifests/")
	public := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, to.Load().(string)) {
			http.Redirect(w, r, internal.String()+r.URL.Path, http.StatusTemporaryRedirect)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	_, failure := open(t, "oci://"+public.Host+"/os/image:one", nil)
	g.Expect(failure).To(HaveOccurred())
	to.Store("/blobs/")
	content, failure := open(t, "oci://"+public.Host+"/os/image:one", nil)
	g.Expect(failure).NotTo(HaveOccurred())
	g.Expect(content).To(Equal("disk"))
}

// TestTokenService: a registry gets no answer of a server that it names as its token service, unless it is its own host or one in the configuration: neither directly, nor by
// a redirect of its own token service, nor by one that looks like that of a blob.
func TestTokenService(t *testing.T) {
	g := NewWithT(t)
	var asked atomic.Int32
	internal := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, `{"token":"the internal service's secret"}`)
	}))
	inner := newRegistry()
	var stolen atomic.Bool
	var realm atomic.Value
	realm.Store("")
	evil := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, wantsToken := r.URL.Query()["scope"]
		stolen.Store(stolen.Load() || strings.Contains(r.Header.Get("Authorization"), "secret"))
		switch {
		case strings.Contains(realm.Load().(string), "/blobs/") && strings.Contains(r.URL.Path, "/manifests/"): // it asks for a token when the blob is fetched
			inner.ServeHTTP(w, r)
		case r.Method == http.MethodPut || r.Method == http.MethodPost || r.Header.Get("Authorization") == "Bearer own":
			inner.ServeHTTP(w, r)
		case wantsToken && r.URL.Path == "/own":
			_, _ = io.WriteString(w, `{"token":"own"}`)
		case wantsToken:
			http.Redirect(w, r, internal.String()+"/v1/session", http.StatusTemporaryRedirect)
		default:
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s",service="x"`, realm.Load()))
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`)
		}
	}))
	artifact(t, evil.Host, "one", "disk")
	image := "oci://" + evil.Host + "/os/image:one"
	for name, url := range map[string]string{
		"another host": internal.String() + "/v1/session",
		"a redirect":   evil.String() + "/elsewhere",
		"a redirect that looks like that of a blob": evil.String() + "/v2/os/image/blobs/" + digest.FromString("disk").String(),
	} {
		realm.Store(url)
		_, failure := open(t, image, nil)
		g.Expect(failure).To(HaveOccurred(), name)
		g.Expect(asked.Load()).To(BeZero(), name)
	}
	g.Expect(stolen.Load()).To(BeFalse())
	realm.Store(evil.String() + "/own")
	content, failure := open(t, image, nil)
	g.Expect(failure).NotTo(HaveOccurred())
	g.Expect(content).To(Equal("disk"))

	realm.Store(internal.String() + "/v1/session")
	file, err := New(image, nil, transport(), internal.Host)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = file.Open(t.Context(), 0)
	g.Expect(err).To(HaveOccurred(), "the registry does not take this token")
	g.Expect(asked.Load()).To(BeNumerically(">", 0), "the configuration names it")
}

func TestSameHost(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"art.example.com", "ART.example.com:443", true},
		{"art.example.com", "art.example.com:8443", false},
		{"art.example.com", "art.example.com.evil.example", false},
		{"", "", false},
	} {
		if got := sameHost(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %t", c.a, c.b, got)
		}
	}
}

// TestNoOracle: what is no registry and no file has the same text, whatever it answers: also behind a redirect or a token service that a registry names.
func TestNoOracle(t *testing.T) {
	g := NewWithT(t)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	texts := map[string][]string{}
	for name, handler := range map[string]http.HandlerFunc{
		"404": http.NotFound,
		"401": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"other JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","code":403}`)
		},
		"hangs up": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"200":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") },
	} {
		target := start(t, handler)
		redirect := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, target.String()+r.URL.Path, http.StatusFound)
		}))
		realm := start(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="registry"`, target))
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`)
		}))
		sources := map[string]string{"redirect": "oci://" + redirect.Host + "/a/b:c", "realm": "oci://" + realm.Host + "/a/b:c"}
		if name != "200" {
			sources["oci"], sources["https"] = "oci://"+target.Host+"/a/b:c", target.String()+"/file?token=x"
		}
		for kind, from := range sources {
			_, failure := open(t, from, nil)
			g.Expect(failure).To(HaveOccurred(), "%s %s", name, kind)
			texts[kind] = append(texts[kind], string(failure.Reason)+failure.Message)
			g.Expect(failure.Cause).To(HaveOccurred())
			g.Expect(failure.Cause.Error()).NotTo(ContainSubstring("token=x"))
		}
	}
	_, failure := open(t, closed.URL+"/file", nil)
	for kind, of := range texts {
		for _, text := range of {
			if kind == "realm" {
				g.Expect(text).To(Equal(of[0]))
			} else {
				g.Expect(text).To(Equal(string(failure.Reason)+failure.Message), kind)
			}
		}
	}
}
