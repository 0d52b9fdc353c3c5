package controllerstest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

var claims atomic.Int64

// Claimed returns a consumerRef as a claim writes it, with a unique claim ID.
func Claimed(machine string) *v1alpha1.ConsumerReference {
	return &v1alpha1.ConsumerReference{Name: machine, ClaimID: fmt.Sprintf("claim-%d", claims.Add(1))}
}

// BootOf returns the last boot of the host, nil if there is none.
func BootOf(t *testing.T, e *Env, host *v1alpha1.BareMetalHost) *v1alpha1.BareMetalBoot {
	t.Helper()
	boot := &v1alpha1.BareMetalBoot{}
	err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(host), boot)
	if apierrors.IsNotFound(err) {
		return nil
	}
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return boot
}

// ModifyBoot changes the boot of a claimed host, and sets the boot count of the host to its number. If the claim has no boot yet, it creates a first
// attempt that just started.
func ModifyBoot(t *testing.T, e *Env, host *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalBootSpec)) *v1alpha1.BareMetalBoot {
	t.Helper()
	g := NewWithT(t)
	boot := &v1alpha1.BareMetalBoot{}
	g.Eventually(func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(host), host); err != nil {
			return err
		}
		*boot = v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
		err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(host), boot)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if ref := host.Spec.ConsumerRef; boot.Spec.ClaimID != ref.ClaimID || boot.Spec.Number == 0 {
			boot.Spec = v1alpha1.BareMetalBootSpec{
				Number: max(boot.Spec.Number, host.Spec.ProviderState.Boots) + 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: ref.ClaimID, MachineName: ref.Name,
				StartTime: metav1.NewTime(time.Now()),
			}
		}
		change(&boot.Spec)
		if err != nil {
			return e.Client.Create(t.Context(), boot)
		}
		return e.Client.Update(t.Context(), boot)
	}).Should(Succeed())
	if host.Spec.ProviderState.Boots != boot.Spec.Number {
		Modify(t, e, host, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = boot.Spec.Number })
	}
	return boot
}
