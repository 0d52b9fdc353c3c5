package matrix

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

func (l *life) remove(o client.Object) {
	l.Helper()
	l.Expect(client.IgnoreNotFound(env.Client.Delete(l.Context(), o.DeepCopyObject().(client.Object)))).To(Succeed())
}

func noMachine(s step) string {
	if s.is(registering, available, quarantined, freeing, configuring) {
		return "there is no machine"
	}
	return ""
}

func noMachineOrLeaving(s step) string {
	if s.is(leaving...) {
		return "it is being deleted anyway"
	}
	return noMachine(s)
}

// isReleased demands that the machine goes and its host is offered again.
func isReleased(l *life, s step) {
	l.Helper()
	l.machineGone()
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeTrue())
	})
	if s.is(beforeOff) { // its spec wants it on
		l.extraOns++
		l.Eventually(l.server.On, stepTimeout).Should(BeTrue())
		return
	}
	l.Expect(l.server.On()).To(BeFalse())
}

// clusterVanishes removes the Cluster like a user who removes its finalizers.
func clusterVanishes(l *life, _ step) {
	l.powerWanted()
	cluster := l.claim.Cluster.DeepCopy()
	l.remove(cluster)
	l.dropFinalizers(cluster)
	env.Gone(l.T, cluster)
}

// letGoUnfenced ends what waits for a Cluster that will not come back, as the conditions say.
func letGoUnfenced(l *life, s step) {
	l.Helper()
	if s.is(waiting) {
		l.remove(l.claim.Machine)
		l.remove(l.claim.BareMetalMachine)
		l.machineGone()
		l.reach(endAvailable)
		return
	}
	l.wait(phase(v1alpha1.PhaseOrphaned))
	l.told(v1alpha1.ReadyCondition, v1alpha1.ReasonClusterNotFound, v1alpha1.ReleaseUnfencedAnnotation)
	before := l.countCommands()
	l.remove(l.claim.Machine)
	l.remove(l.claim.BareMetalMachine)
	l.wait(phase(v1alpha1.PhaseOrphaned))
	l.modify(func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.ReleaseUnfencedAnnotation, "anna: the cluster is gone")
	})
	l.machineGone()
	if !s.is(maintenance) {
		l.wait(phase(v1alpha1.PhaseQuarantined))
	}
	l.Expect(l.host().Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonReleasedUnfenced))
	l.Expect(l.server.Commands()).To(HaveLen(before))
}

// namespaceGoes waits until the namespace is gone, and acts as Cluster API's managers until then.
func namespaceGoes(l *life, _ step) {
	l.Helper()
	l.Eventually(func() error {
		if l.claim != nil {
			m := l.claim.BareMetalMachine.DeepCopy()
			if err := env.Client.Get(l.Context(), client.ObjectKeyFromObject(m), m); apierrors.IsNotFound(err) {
				l.dropFinalizers(l.claim.Machine.DeepCopy())
				l.dropFinalizers(l.claim.Cluster.DeepCopy())
			}
		}
		ns := &corev1.Namespace{}
		err := env.Client.Get(l.Context(), client.ObjectKey{Name: l.site.Namespace}, ns)
		if err == nil {
			return fmt.Errorf("the namespace is there: %v", ns.Status.Conditions)
		}
		return client.IgnoreNotFound(err)
	}, stepTimeout, 200*time.Millisecond).Should(Succeed(), func() string { return l.story() })
}

// deletions are the faults of people and programs that delete.
var deletions = []fault{
	{name: "bootstrap Secret deleted", na: notBooting, inject: func(l *life, _ step) {
		secret := l.claim.Bootstrap.DeepCopy()
		l.remove(secret)
		l.stops = append(l.stops, func() {
			secret.ResourceVersion, secret.UID = "", ""
			l.Expect(env.Client.Create(context.Background(), secret)).To(Succeed())
		})
	}, during: func(l *life, s step) {
		if s.is(seeded, bootable) {
			return // it has its bootstrap data
		}
		if !s.is(script, kernel, writing, written) {
			l.told(v1alpha1.BootProgressCondition, v1alpha1.ReasonBootstrapDataUnavailable, "bootstrap Secret")
		}
		l.until(moment, func() bool {
			return conditions.GetReason(l.host(), v1alpha1.BootProgressCondition) == v1alpha1.ReasonBootstrapDataUnavailable
		})
		l.explained()
	}},
	{name: "bootstrap Secret changed", stays: true, na: notBooting, inject: func(l *life, _ step) {
		controllerstest.Modify(l.T, env, l.claim.Bootstrap.DeepCopy(), func(s *corev1.Secret) { s.Data["value"] = []byte("#cloud-config\nchanged: true\n") })
	}, want: func(l *life, s step) {
		l.reach(s.end)
		changed := Not(ContainSubstring("changed"))
		if !s.is(seeded, bootable) {
			changed = ContainSubstring("changed")
		}
		l.Expect(string(l.server.Last().System.UserData)).To(changed)
	}},
	{name: "BMC Secret deleted", na: func(s step) string {
		if s.is(registering) {
			return "there is none"
		}
		return ""
	}, inject: func(l *life, _ step) {
		l.remove(l.server.Secret)
		l.stops = append(l.stops, func() { l.Expect(env.Client.Create(context.Background(), l.secret())).To(Succeed()) })
	}, during: func(l *life, _ step) {
		l.told(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsMissing, l.server.Secret.Name)
		l.explained()
	}},
	{name: "Machine deleted", stays: true, na: noMachineOrLeaving, inject: func(l *life, _ step) { l.deleteMachine() }, want: isReleased},
	{name: "BareMetalMachine deleted", stays: true, na: noMachineOrLeaving, inject: func(l *life, _ step) {
		l.powerWanted()
		l.remove(l.claim.BareMetalMachine)
	}, want: isReleased},
	{name: "Machine gone at once", stays: true, na: noMachineOrLeaving, inject: func(l *life, _ step) {
		m := l.claim.Machine.DeepCopy()
		l.remove(m)
		l.dropFinalizers(m)
	}, during: func(l *life, s step) {
		l.until(moment, func() bool { return false })
		if s.is(running, heldOff, reported) {
			l.reach(s.end)
		}
		l.explained()
		l.powerWanted()
		l.remove(l.claim.BareMetalMachine)
	}, want: isReleased},
	{name: "Cluster deleted", stays: true, na: noMachine, inject: func(l *life, _ step) { l.remove(l.claim.Cluster) }, want: func(l *life, s step) {
		if !s.is(waiting) {
			l.reach(s.end)
			return
		}
		controllerstest.Wait(l.T, env, l.claim.BareMetalMachine.DeepCopy(), func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(conditions.GetReason(m, v1alpha1.HostClaimedCondition)).To(Equal(v1alpha1.ReasonDeleting))
		})
		l.deleteMachine()
		isReleased(l, s)
	}},
	{name: "Cluster gone at once", stays: true, na: noMachine, inject: clusterVanishes, want: letGoUnfenced},
	{name: "host deleted", stays: true, inject: func(l *life, s step) {
		if !s.is(registering) {
			l.remove(l.server.Host)
		}
	}, during: func(l *life, s step) {
		if s.is(registering) {
			l.remove(l.server.Host)
		}
	}, want: func(l *life, s step) {
		switch {
		case s.is(registering, available, quarantined, waiting, freeing, configuring):
		case s.is(leaving...):
			l.machineGone()
		default:
			l.told(v1alpha1.ReadyCondition, v1alpha1.ReasonDeleting, v1alpha1.DetachedAnnotation)
			l.reach(s.end)
			l.deleteMachine()
			l.machineGone()
			l.Expect(l.server.On()).To(BeFalse())
		}
		env.Gone(l.T, l.server.Host.DeepCopy())
	}},
	{name: "host deleted, detached", stays: true, na: unclaimed, inject: func(l *life, _ step) {
		l.modify(func(h *v1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.DetachedAnnotation, "anna: it moves by hand")
		})
		l.remove(l.server.Host)
	}, want: func(l *life, _ step) { env.Gone(l.T, l.server.Host.DeepCopy()) }},
	{name: "namespace deleted", stays: true, inject: func(l *life, s step) {
		if s.is(freeing, configuring) {
			l.extraOns++ // the record may go before the host: then the disks are erased again, as when the boot is deleted
		}
		if s.is(clearing, purging) {
			l.extraOns++ // the report of the agent may go before the host: then the released host is inspected again
		}
		if !s.is(registering) {
			l.powerWanted()
			l.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.site.Namespace}})
		}
	}, during: func(l *life, s step) {
		if s.is(registering) {
			l.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.site.Namespace}})
		}
	}, want: namespaceGoes},
}
