package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestRegister: the file is registered after consent; offline nothing is asked.
func TestRegister(t *testing.T) {
	g := NewWithT(t)
	file := filepath.Join(t.TempDir(), "rack.csv")
	g.Expect(os.WriteFile(file, []byte("name,bmcAddress,username,password,bootMACAddresses\ns1,redfish://192.0.2.1,u,geheim,52:54:00:00:00:01\n"), 0o600)).To(Succeed())
	b := newBench(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}})
	got := b.run(t, "register", file, "-o", "yaml")
	g.Expect(got.code).To(Equal(0), got.err)
	g.Expect(got.out).To(And(ContainSubstring("kind: BareMetalHost"), Not(ContainSubstring("geheim"))))
	got = b.run(t, "register", "none.csv", "-o", "yaml")
	g.Expect(got.code).To(Equal(2))
	got = b.run(t, "register", "-", "-o", "table")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring("use --yes and --reason"))
	got = b.run(t, "register", file, "-o", "yaml", "--dry-run=server")
	g.Expect(got.code).To(Equal(2))

	got = b.run(t, "register", file, "--yes")
	g.Expect(got.code).To(Equal(2))
	g.Expect(got.err).To(ContainSubstring("a change needs a reason"))
	hosts := &v1alpha1.BareMetalHostList{}
	b.forbidden = []string{"Event"}
	got = b.run(t, "register", file, "--yes", "--reason", "rack")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(ContainSubstring(": nothing was changed: the event that says who asks for it could not be written"))
	g.Expect(b.client.List(t.Context(), hosts)).To(Succeed())
	g.Expect(hosts.Items).To(BeEmpty())
	b.forbidden = nil
	for range 2 {
		got = b.run(t, "register", file, "--yes", "--reason", "rack")
		g.Expect(got.code).To(Equal(0), got.err)
		g.Expect(b.host(t, "s1").Annotations).To(HaveKeyWithValue(v1alpha1.HostRequestedByAnnotation, "anna: rack"))
	}
	g.Expect(b.requests(t)).To(HaveEach("RegistrationRequested: anna: rack"))
}
