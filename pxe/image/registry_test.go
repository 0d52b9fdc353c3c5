package image

import (
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // the standard library wants a log.Logger
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestRegistryFailures: a registry that needs the credentials of a user, and that has no image. The reason says whether the credentials are the cause. After a
// failure other credentials are tried at once.
func TestRegistryFailures(t *testing.T) {
	g := NewWithT(t)
	registry := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, code := http.StatusNotFound, "MANIFEST_UNKNOWN"
		if user, password, _ := r.BasicAuth(); user != "me" || password != "right" {
			w.Header().Set("Www-Authenticate", `Basic realm="registry"`)
			status, code = http.StatusUnauthorized, "UNAUTHORIZED"
		}
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"errors":[{"code":%q,"message":"no"}]}`, code)
	}))
	registry.Config.ErrorLog = log.New(io.Discard, "", 0)
	registry.StartTLS()
	t.Cleanup(registry.Close)
	host := registry.Listener.Addr().String()
	document := func(password string) Credentials {
		return fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, host, base64.StdEncoding.EncodeToString([]byte("me:"+password)))
	}

	s := newService(t, Options{})
	s.transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
	from := Source{URL: "oci://" + host + "/os/image:one", Checksum: "sha256:" + strings.Repeat("0", 64)}
	for _, c := range []struct {
		name        string
		credentials Credentials
		reason      Reason
		text        string
	}{
		{"no credentials", nil, "ImageUnauthorized", "check the pull Secret"},
		{"wrong credentials", document("wrong"), "ImageUnauthorized", "check the pull Secret"},
		{"no document", Credentials("hunter2"), "ImageUnauthorized", "no valid document"},
		{"no image", document("right"), "ImageNotFound", "no such image"},
	} {
		before := testutil.ToFloat64(s.metrics.preparations.WithLabelValues(string(c.reason)))
		var err error
		g.Eventually(func() bool {
			_, err = s.Prepare(t.Context(), "dc", from, c.credentials)
			return errors.Is(err, ErrNotYet)
		}, "30s", "2ms").Should(BeFalse(), c.name)
		g.Expect(reasonOf(err)).To(Equal(c.reason), c.name)
		g.Expect(err).To(MatchError(ContainSubstring(c.text)), c.name)
		g.Expect(err.Error()).NotTo(ContainSubstring("hunter2"), c.name)
		g.Expect(testutil.ToFloat64(s.metrics.preparations.WithLabelValues(string(c.reason)))-before).To(BeEquivalentTo(1), c.name)
	}
	s.Close()
	g.Expect(names(t, s.opts.Dir)).To(BeEmpty())
}
