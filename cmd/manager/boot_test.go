package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestBootKeys: the key is made once and read from then on, the previous one is read where there is one, and short ones are refused.
func TestBootKeys(t *testing.T) {
	g := NewWithT(t)
	o := &options{podNamespace: "capbm-system"}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	key, previous, err := bootKeys(t.Context(), c, o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(HaveLen(keyLength))
	g.Expect(previous).To(BeEmpty())
	again, _, err := bootKeys(t.Context(), c, o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(key))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.podNamespace, Name: keySecret}}
	put := func(data map[string][]byte) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		secret.Data = data
		g.Expect(c.Update(t.Context(), secret)).To(Succeed())
	}
	another := bytes.Repeat([]byte("b"), keyLength)
	put(map[string][]byte{"key": another, "previous": key})
	now, before, err := bootKeys(t.Context(), c, o)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now).To(Equal(another))
	g.Expect(before).To(Equal(key))
	put(map[string][]byte{"key": another, "previous": []byte("short")})
	_, _, err = bootKeys(t.Context(), c, o)
	g.Expect(err).To(MatchError(And(ContainSubstring("previous"), ContainSubstring("delete that key"))))
	put(map[string][]byte{"key": []byte("short")})
	_, _, err = bootKeys(t.Context(), c, o)
	g.Expect(err).To(MatchError(ContainSubstring("less than 32 bytes")))
}

// TestVerbosity: the manager does not start with a log level at which Secrets are logged.
func TestVerbosity(t *testing.T) {
	g := NewWithT(t)
	parse := func(args ...string) error {
		o := newOptions()
		g.Expect(o.flags().Parse(append(args, "--components=controllers"))).To(Succeed())
		return o.complete()
	}
	g.Expect(parse("-v=7")).To(Succeed())
	g.Expect(parse("-v=8")).To(MatchError(ContainSubstring("the maximum is 7")))
	g.Expect(parse("-v=10")).NotTo(Succeed())
	g.Expect(parse("--vmodule=host=7")).To(Succeed())
	g.Expect(parse("--vmodule=host=7,request=8")).NotTo(Succeed())
}

// TestVerbosityAtRunTime: the log level of a running manager cannot be raised to where Secrets are logged.
func TestVerbosityAtRunTime(t *testing.T) {
	g := NewWithT(t)
	o := newOptions()
	g.Expect(o.flags().Parse([]string{"--components=controllers"})).To(Succeed())
	g.Expect(o.complete()).To(Succeed())
	put := func(level string) int {
		answer := httptest.NewRecorder()
		o.metrics.ExtraHandlers[verbosityPath].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPut, verbosityPath, strings.NewReader(level)))
		return answer.Code
	}
	t.Cleanup(func() { put("0") })
	g.Expect(put("7")).To(Equal(http.StatusOK))
	g.Expect(klog.V(7).Enabled()).To(BeTrue())
	for _, level := range []string{"8", "10", "-1", "x", ""} {
		g.Expect(put(level)).To(Equal(http.StatusBadRequest), level)
		g.Expect(klog.V(8).Enabled()).To(BeFalse(), level)
	}
}
