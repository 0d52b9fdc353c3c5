package boot

import (
	"context"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// seeds serve the bootstrap data to the operating systems of boots without an agent, and record the reports of all operating systems.
type seeds struct {
	clock     clock.PassiveClock
	settings  lifecycle.Settings
	keys      tokenKeys
	lookup    *lookup
	tokens    *tokenChecker
	admission *admission
	binding   *binding
	bootstrap *bootstrapReader
	stages    *stageWriter
	events    *eventRecorder
}

// BootstrapData returns the bootstrap data to the first client that asks for a file of the seed with the token. For that first request host, machine and
// Cluster are read from the API server. Later requests read only the boot, which is voided before its claim ends. The Secret is read for the files that contain it, as it is then.
func (s *seeds) BootstrapData(ctx context.Context, name, token, file string, from netip.Addr) (seed.Data, error) {
	t := presentedToken{name, token, forSeed, from}
	if data, ok, err := s.cachedSeed(ctx, t, file); ok || err != nil {
		return data, err
	}
	var data seed.Data
	var first bool
	read := func(ctx context.Context, boot *v1alpha1.BareMetalBoot) (attempt, error) {
		if first = boot.Spec.DataServedTime == nil; first {
			return s.lookup.liveAttemptOf(ctx, boot)
		}
		return s.lookup.attemptOf(ctx, boot)
	}
	serves := func(known *v1alpha1.BareMetalBootSpec) bool { return known.DataServedTime == nil }
	a, err := s.binding.withToken(ctx, t, serves, read, func(a attempt) error {
		if lifecycle.StateOf(a.view) != lifecycle.StateBooting || a.deadlinePassed(s.settings) {
			return refused("the boot of %s is over", name)
		}
		if _, err := s.admission.admit(ctx, a, "", from, true); err != nil {
			return err
		}
		if err := bind(&a.boot.Spec.DataAddress, from, "bootstrap data"); err != nil {
			return s.binding.failAttempt(ctx, a, err)
		}
		bootstrap, err := s.bootstrap.bootstrapForSeed(ctx, a, first, file)
		if err != nil {
			a.recordProblem(s.stages, bootstrapReason(err), err)
			return err
		}
		if first {
			now := metav1.NewTime(s.clock.Now())
			a.boot.Spec.DataServedTime = &now
		}
		data = s.bootstrap.seedData(a, bootstrap)
		return nil
	})
	if err != nil {
		return seed.Data{}, err
	}
	if first {
		s.events.recordServedEvent(a, from)
	}
	s.stages.recordStage(a.boot, v1alpha1.StageData, from, "")
	return data, nil
}

// cachedSeed answers from the cache a request for a file without bootstrap data, of the client that got the bootstrap data. ok is false if the API server has
// to be read.
func (s *seeds) cachedSeed(ctx context.Context, t presentedToken, file string) (data seed.Data, ok bool, err error) {
	boot, err := s.tokens.cachedBoot(ctx, t)
	if err != nil || seed.HasUserData(file) || boot.Spec.DataServedTime == nil || boot.Spec.DataAddress != t.from.String() ||
		!s.keys.opens(t.token, t.purpose, boot) {
		return seed.Data{}, false, err
	}
	a, err := s.lookup.attemptOf(ctx, boot)
	if err != nil || lifecycle.StateOf(a.view) != lifecycle.StateBooting || a.deadlinePassed(s.settings) {
		return seed.Data{}, false, client.IgnoreNotFound(err)
	}
	part, err := s.bootstrap.bootstrapPart(ctx, a, false)
	if err != nil {
		return seed.Data{}, false, err
	}
	return s.bootstrap.seedData(a, part), true, nil
}

// Report records the report of a running system. A repeated report is no error: the answer to the first may have been lost.
//
// It accepts any source address. A system may change its address between its seed and its report. A report gives access to nothing, and its sender has read the
// seed or the files of the system.
func (s *seeds) Report(ctx context.Context, name, token string, outcome pxe.Outcome, from netip.Addr) error {
	news := func(known *v1alpha1.BareMetalBootSpec) bool {
		return known.ReportedTime == nil || known.ReportAddress == ""
	}
	a, err := s.binding.withToken(ctx, presentedToken{name, token, forReport, from}, news, s.lookup.attemptOf, func(a attempt) error {
		boot := &a.boot.Spec
		if a.view.Host.CurrentBoot() == nil || boot.Failure != nil || boot.DataServedTime == nil || !a.view.Consumer.Found || a.view.Consumer.Deleting ||
			boot.ReportedTime == nil && a.deadlinePassed(s.settings) {
			return refused("the boot of %s is over", name)
		}
		if boot.ReportedTime == nil {
			// Any report proves that the system is up. That holds in maintenance too, and is recorded once.
			now := metav1.NewTime(s.clock.Now())
			boot.ReportedTime = &now
		}
		if boot.ReportAddress == "" { // the Node may have proved earlier that the system is up
			boot.ReportAddress = from.String()
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.stages.recordStage(a.boot, v1alpha1.StageReportedIn, from, "")
	switch outcome {
	case pxe.Up:
	case pxe.Succeeded:
		s.stages.recordStage(a.boot, v1alpha1.StageBootstrapSucceeded, from, "")
	case pxe.Failed:
		s.stages.recordStage(a.boot, v1alpha1.StageBootstrapFailed, from, "")
	}
	return nil
}
