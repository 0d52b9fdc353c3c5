package boot

import (
	"cmp"
	"context"
	"fmt"
	"net"

	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// media serve the boot media, and record what the requests for their parts show of the boots.
type media struct {
	settings  lifecycle.Settings
	keys      tokenKeys
	lookup    *lookup
	shared    *lookup // lookup without copies
	tokens    *tokenChecker
	bootstrap *bootstrapReader
	stages    *stageWriter
	loaders   *lru.Cache // attemptKeys whose medium's boot loaders were read
}

// Media returns the boot medium of the attempt that the token opens. It is answered from the cache: a BMC makes thousands of requests, and a medium has no
// bootstrap data. It has the token of the agent, or of the seed, which is checked against the API server when it is presented. The client is the BMC, or the
// firmware of the server, so its address binds nothing.
func (m *media) Media(ctx context.Context, r pxe.MediaRequest) (pxe.Medium, error) {
	a, err := m.mediaAttempt(ctx, r, m.shared)
	if err != nil {
		return pxe.Medium{}, err
	}
	medium := pxe.Medium{
		Time: a.boot.Spec.StartTime.Time, Namespace: a.host.Namespace, Agent: a.boot.Spec.Agent,
		Architecture: cmp.Or(string(a.host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64)), Addresses: configuredAddresses(a.host),
		Observe:        func(part pxe.MediaPart) { m.observeMedia(a.boot, r, part) },
		ObserveRefusal: func(why error) { m.observeMediaRefusal(a.boot, r, why) },
	}
	if medium.MAC, err = net.ParseMAC(firstMAC(a.host)); err != nil {
		return pxe.Medium{}, refused("host %s has no boot MAC address: %v", r.Host, err)
	}
	if !medium.Agent {
		medium.Files = files(a.consumer.BareMetalMachine.Spec.Boot)
	}
	return medium, nil
}

// MediaScript returns what the medium boots. It reads the bootstrap Secret, as the script of a network boot does, so that a boot that cannot be finished is not
// started, but nothing of it is in the medium.
func (m *media) MediaScript(ctx context.Context, r pxe.MediaRequest) (pxe.Script, error) {
	a, err := m.mediaAttempt(ctx, r, m.lookup)
	if err != nil {
		return pxe.Script{}, err
	}
	if !m.tokens.withinBudget(r.Host) { // a medium that cannot be made is made again for each request, which reads the Secret
		return pxe.Script{}, tooEarly("the boot medium of %s was requested too often", r.Host)
	}
	bootstrap, err := m.bootstrap.bootstrapForScript(ctx, a)
	if err != nil {
		m.stages.recordProblem(a.boot, bootstrapReason(err), err)
		return pxe.Script{}, err
	}
	name, title := a.host.Namespace+"/"+a.host.Name, a.title()
	if a.boot.Spec.Agent {
		return pxe.Script{Title: title, Hostname: cmp.Or(a.boot.Spec.MachineName, a.host.Name), Agent: &pxe.AgentScript{
			Architecture: cmp.Or(string(a.host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64)),
			Host:         name, Token: m.keys.token(forAgent, a.boot), Network: bootstrap.network, StaticFirst: true,
		}}, nil
	}
	source := a.consumer.BareMetalMachine.Spec.Boot
	return pxe.Script{
		Title:       title,
		CommandLine: source.CommandLine, Files: files(source), Format: bootstrap.format, Network: bootstrap.network,
		Hostname: a.boot.Spec.MachineName, Template: source.IPXETemplate,
		SeedPath: pxe.SeedPath(name, m.keys.token(forSeed, a.boot)),
	}, nil
}

// mediaAttempt returns the attempt that a token opens, if it boots from a medium now. A BMC may fetch the medium before the server is powered on. The boot shares its
// content with the cache.
func (m *media) mediaAttempt(ctx context.Context, r pxe.MediaRequest, from *lookup) (attempt, error) {
	boot, err := m.tokens.openedBoot(ctx, presentedToken{r.Host, r.Token, forMedia, r.From})
	if err != nil {
		return attempt{}, err
	}
	a, err := from.attemptOf(ctx, boot)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			err = refused("host %s does not exist", r.Host)
		}
		return attempt{}, err
	}
	if !lifecycle.UsesMedium(&boot.Spec) {
		return attempt{}, refused("boot %d of %s does not boot from a medium", boot.Spec.Number, r.Host)
	}
	what := lifecycle.BootFor(a.view, m.settings)
	boots := what == lifecycle.BootAgent || what == lifecycle.BootNetwork || what == lifecycle.BootAfterPowerOn
	if !boots || boot.Spec.Failure != nil || boot.Spec.AgentRefusedTime != nil {
		return attempt{}, refused("boot %d of %s is over, or boots nothing", boot.Spec.Number, r.Host)
	}
	return a, nil
}

// observeMedia records the stages that a request shows. Loaders and kernels count from the power-on: a BMC may read ahead when the medium is inserted. A kernel
// counts after a loader, which is behind it in the medium: a BMC that copies the medium reads the kernel first.
func (m *media) observeMedia(boot *v1alpha1.BareMetalBoot, r pxe.MediaRequest, part pxe.MediaPart) {
	seen := controllers.ObservedStage(boot, v1alpha1.StageMedia)
	switch {
	case part == pxe.MediaWhole && (seen == nil || seen.MediumTransfer != v1alpha1.MediumWhole):
		m.observeMedium(boot, r, v1alpha1.MediumWhole)
	case seen == nil:
		m.observeMedium(boot, r, v1alpha1.MediumParts)
	}
	switch {
	case boot.Spec.PoweredOnTime == nil:
	case part == pxe.MediaLoader:
		m.loaders.Add(keyOf(boot), nil)
		m.stages.recordStage(boot, v1alpha1.StageLoader, r.From, r.Client)
	case part == pxe.MediaKernel && m.loaderRead(boot):
		m.stages.recordStage(boot, v1alpha1.StageKernel, r.From, r.Client)
	default:
	}
}

// observeMedium records the stage Media.
func (m *media) observeMedium(boot *v1alpha1.BareMetalBoot, r pxe.MediaRequest, transfer v1alpha1.MediumTransfer) {
	seen := m.stages.seenStage(boot, v1alpha1.StageMedia, r.From, r.Client)
	seen.MediumTransfer = transfer
	m.stages.enqueueSeen(boot, seen, string(seen.Stage)+" "+string(transfer))
}

// observeMediaRefusal records that a client with the token was refused the medium, unless another one got it. So the condition does not claim that no request came.
func (m *media) observeMediaRefusal(boot *v1alpha1.BareMetalBoot, r pxe.MediaRequest, why error) {
	if controllers.ObservedStage(boot, v1alpha1.StageMedia) != nil || controllers.Problem(boot) != nil {
		return
	}
	who := r.From.String()
	if r.Client != "" {
		who += " (" + controllers.Clip(r.Client, controllers.MaxText) + ")"
	}
	m.stages.recordProblem(boot, v1alpha1.ReasonMediaRefused, fmt.Errorf("%s requested the boot medium, and the boot server refused it: %w", who, why))
}

// loaderRead is true if the boot loaders of the medium of a boot were read, from this boot server or from another one.
func (m *media) loaderRead(boot *v1alpha1.BareMetalBoot) bool {
	_, here := m.loaders.Get(keyOf(boot))
	return here || controllers.ObservedStage(boot, v1alpha1.StageLoader) != nil
}
