package main

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
)

// TestMediaKeyRights: with the roles that config installs, the controllers read the key that makes the tokens of boot media.
func TestMediaKeyRights(t *testing.T) {
	g := NewWithT(t)
	manager := managerRole(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: provider.BootKeySecret}, Data: map[string][]byte{"key": bytes.Repeat([]byte("k"), 32)},
	}
	g.Expect(client.IgnoreAlreadyExists(env.Client.Create(t.Context(), secret))).To(Succeed())
	g.Eventually(func() error { return manager.Get(t.Context(), client.ObjectKeyFromObject(secret), &corev1.Secret{}) }, 30*time.Second).Should(Succeed())
}
