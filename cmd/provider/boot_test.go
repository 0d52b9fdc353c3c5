package provider

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestBootKeys: the key is created once and read from then on. The previous key is read if the Secret has one. Short keys are refused.
func TestBootKeys(t *testing.T) {
	g := NewWithT(t)
	const namespace = "capbm-system"
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	key, previous, err := bootKeys(t.Context(), c, namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(key).To(HaveLen(minKeyLength))
	g.Expect(previous).To(BeEmpty())
	again, _, err := bootKeys(t.Context(), c, namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(key))

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: BootKeySecret}}
	put := func(data map[string][]byte) {
		g.Expect(c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		secret.Data = data
		g.Expect(c.Update(t.Context(), secret)).To(Succeed())
	}
	another := bytes.Repeat([]byte("b"), minKeyLength)
	put(map[string][]byte{"key": another, "previous": key})
	now, before, err := bootKeys(t.Context(), c, namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now).To(Equal(another))
	g.Expect(before).To(Equal(key))
	put(map[string][]byte{"key": another, "previous": []byte("short")})
	_, _, err = bootKeys(t.Context(), c, namespace)
	g.Expect(err).To(MatchError(And(ContainSubstring("previous"), ContainSubstring("delete that key"))))
	put(map[string][]byte{"key": []byte("short")})
	_, _, err = bootKeys(t.Context(), c, namespace)
	g.Expect(err).To(MatchError(ContainSubstring("less than 32 bytes")))
}
