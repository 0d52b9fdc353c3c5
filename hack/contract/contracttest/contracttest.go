// Package contracttest has what the suites of hack/contract share: labs and management planes that end with the test, and parts that can be run alone.
package contracttest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// cleanupTime is what a test has left to end its programs when its context ends before the time limit of go test. At that limit nothing is cleaned up.
const cleanupTime = time.Minute

// Context returns a context that ends with the test, after the timeout, or before the time limit of go test.
func Context(t *testing.T, timeout time.Duration) context.Context {
	t.Helper()
	if deadline, limited := t.Deadline(); limited {
		timeout = min(timeout, time.Until(deadline)-cleanupTime)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// Lab makes a lab that is closed at the end of the test. The logs of a failed test stay.
func Lab(ctx context.Context, t *testing.T) *site.Lab {
	t.Helper()
	ctrl.SetLogger(klog.Background())
	g := NewWithT(t)
	root, err := filepath.Abs(filepath.Join("..", "..", "..")) // the suites are folders of hack/contract
	g.Expect(err).NotTo(HaveOccurred())
	l, err := site.New(ctx, root, t.Logf, func(server, what string) { t.Logf("%s: %s", server, what) })
	t.Cleanup(func() { //nolint:contextcheck // the lab is closed even if ctx has ended
		if t.Failed() {
			t.Logf("logs are in %s", l.Dir)
		}
		NewWithT(t).Expect(l.Close(t.Failed())).To(Succeed())
	})
	g.Expect(err).NotTo(HaveOccurred())
	return l
}

// Plane starts a management plane that is stopped at the end of the test.
func Plane(ctx context.Context, t *testing.T, l *site.Lab, name string, managerArgs []string) *plane.Plane {
	t.Helper()
	p, err := l.StartPlane(ctx, name, managerArgs)
	t.Cleanup(func() { NewWithT(t).Expect(p.Stop()).To(Succeed()) })
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}
