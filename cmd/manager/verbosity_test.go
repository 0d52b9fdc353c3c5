package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
)

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

// TestVerbosityAtRunTime: the log level of a running manager cannot be raised to a level at which Secrets are logged.
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
