package provider

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
)

// TestMediaToken: the controllers make the token with the key of the boot server. It differs for each boot.
func TestMediaToken(t *testing.T) {
	g := NewWithT(t)
	p := &Provider{opts: Options{Boot: &BootOptions{Key: []byte("key")}}}
	b := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}, Spec: v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "c"}}
	first, err := p.mediaToken(t.Context(), b)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first).To(Equal(boot.MediaToken([]byte("key"), b)))
	b.Spec.Number = 2
	g.Expect(p.mediaToken(t.Context(), b)).NotTo(Equal(first))
}
