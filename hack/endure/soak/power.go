package main

import (
	"context"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func (s *soak) holdOne(ctx context.Context) bool {
	h, after := s.pick("hold", s.runs), s.seconds(5, 25)
	if h != nil {
		name := v1alpha1.PowerHoldPrefix + "anna"
		s.forAWhile(ctx, h, after, annotate(name, "anna changes a fan"), annotate(name, ""))
	}
	return h != nil
}

func (s *soak) cycleOne(ctx context.Context) bool {
	h := s.pick("power cycle", s.runs)
	if h != nil {
		s.task("cycle "+h.Name, func() error {
			defer s.free(h)
			return s.patch(ctx, h, annotate(v1alpha1.PowerCyclePrefix+"anna", "it hangs"))
		})
	}
	return h != nil
}

// losePower takes the power from a server that runs a machine. A system that runs from memory is lost; a server that boots from its disk is switched on
// again.
func (s *soak) losePower(context.Context) bool {
	h := s.pick("power lost", func(h *host, seen *v1alpha1.BareMetalHost) bool {
		return seen.Status.Phase == v1alpha1.PhaseProvisioned && !s.controlPlane(h)
	})
	after := s.seconds(4, 15)
	if h == nil {
		return false
	}
	back := h.namespace == direct && s.runs(h, s.checker.Host(h.id()))
	s.task("power of "+h.Name, func() error { //nolint:contextcheck // a server that is switched on by hand runs on
		defer s.free(h)
		s.checker.PowerLost(h.id(), "lost its power")
		h.SetPower(false)
		time.Sleep(after) // the duration of the outage
		if back {
			s.checker.PowerLost(h.id(), "got its power back")
			h.SetPower(true)
		}
		return nil
	})
	return true
}

// controlPlane is true for the host of the only control plane machine of the cluster under the whole of Cluster API.
func (s *soak) controlPlane(h *host) bool {
	seen := s.checker.Host(h.id())
	if h.namespace != whole || seen == nil || seen.Spec.ConsumerRef == nil {
		return false
	}
	m := s.checker.Machine(whole + "/" + seen.Spec.ConsumerRef.Name)
	if m == nil {
		return true // unknown
	}
	_, is := m.Labels[clusterv1.MachineControlPlaneLabel]
	return is
}
