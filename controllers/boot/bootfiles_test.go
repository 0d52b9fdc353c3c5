package boot_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// prefetcher records which files are fetched, and answers with errors.
type prefetcher struct {
	asked []artifact.Artifact
	errs  []error
}

func (f *prefetcher) Prefetch(_ string, file artifact.Artifact) error {
	f.asked = append(f.asked, file)
	return f.errs[len(f.asked)-1]
}

// TestPrefetch: the kernel and the initrds of a machine are fetched from its claim until its system has booted, and kept. A file that cannot be had is not fetched again
// and again.
func TestPrefetch(t *testing.T) {
	kernel, initrd := v1alpha1.Artifact{URL: "http://origin/kernel", Checksum: "sha256:1"}, v1alpha1.Artifact{URL: "http://origin/initrd", Checksum: "sha256:2"}
	both := []artifact.Artifact{{URL: kernel.URL, Checksum: kernel.Checksum}, {URL: initrd.URL, Checksum: initrd.Checksum}}
	booting := func(*v1alpha1.BareMetalBootSpec) {}
	claimed := func(b *v1alpha1.BareMetalBootSpec) {
		b.ClaimID, b.VoidedTime, b.Number = "earlier", &metav1.Time{Time: time.Now()}, 2
	}
	reported := func(b *v1alpha1.BareMetalBootSpec) { b.ReportedTime = &metav1.Time{Time: time.Now()} }
	for name, test := range map[string]struct {
		change  func(*v1alpha1.BareMetalBootSpec)
		source  v1alpha1.BootSource
		errs    []error
		asked   []artifact.Artifact
		requeue time.Duration
	}{
		"claimed":         {claimed, v1alpha1.BootSource{Kernel: kernel, Initrds: []v1alpha1.Artifact{initrd}}, []error{artifact.ErrNotYet, nil}, both, 2 * time.Second},
		"booting":         {booting, v1alpha1.BootSource{Kernel: kernel, Initrds: []v1alpha1.Artifact{initrd}}, []error{nil, nil}, both, 5 * time.Minute},
		"failed":          {booting, v1alpha1.BootSource{Kernel: kernel, Initrds: []v1alpha1.Artifact{initrd}}, []error{nil, artifact.ErrChecksum}, both, 5 * time.Minute},
		"booted":          {reported, v1alpha1.BootSource{Kernel: kernel}, nil, nil, 0},
		"only a template": {booting, v1alpha1.BootSource{IPXETemplate: "#!ipxe"}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, files := newWorld(), &prefetcher{errs: test.errs}
			g.Expect(w.changeBoot(test.change)).To(Succeed())
			w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
				if name == "claimed" {
					h.Spec.ProviderState.Boots, h.Spec.ConsumerRef.BootsBefore = 2, 2
				}
			})
			w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) { m.Spec.Boot = test.source })
			host := types.NamespacedName{Namespace: "dc", Name: "h"}
			g.Expect(w.ReconcileImage(ctx, host)).To(HaveField("RequeueAfter", time.Duration(0)), "a boot server without a cache")
			w.Prefetcher = files
			g.Expect(w.ReconcileImage(ctx, host)).To(HaveField("RequeueAfter", test.requeue))
			g.Expect(slices.Equal(files.asked, test.asked)).To(BeTrue(), "%v", files.asked)
			g.Expect(w.boot().Status.Image).To(BeNil())
		})
	}
}
