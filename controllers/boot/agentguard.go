package boot

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// errNoConfirmation is why an agent that got no plan yet is refused.
var errNoConfirmation = errors.New("the agent has not asked for its plan from this address")

// agentGuard checks the requests of agents: the token, the boot, the client, and the version of the protocol.
type agentGuard struct {
	settings  lifecycle.Settings
	keys      tokenKeys
	lookup    *lookup
	tokens    *tokenChecker
	admission *admission
	binding   *binding
	stages    *stageWriter
}

// withAgent is withToken for a request of an agent. It refuses an agent whose boot is over, and a client that is not the server.
func (g *agentGuard) withAgent(ctx context.Context, r pxe.AgentRequest, live bool, expected writes, change func(attempt) error) (attempt, error) {
	read := g.lookup.attemptOf
	if live {
		read = g.lookup.liveAttemptOf
	}
	return g.binding.withToken(ctx, presentedToken{r.Host, r.Token, forAgent, r.From}, expected, read, func(a attempt) error {
		if err := g.checkAgentBoot(a); err != nil {
			return err
		}
		if !hasKey(&a.boot.Spec, r) {
			if _, err := g.admission.admit(ctx, a, "", r.From, true); err != nil {
				return err
			}
			if err := g.binding.enrol(ctx, a, r); err != nil {
				return err
			}
		}
		if err := versionError(r); err != nil {
			a.recordProblem(g.stages, wire.ReasonVersionDiffers, err)
			return err
		}
		return change(a)
	})
}

// cachedAgent is withAgent for a request that changes nothing and is answered from the cache: an agent makes many of them. Only an agent without a key
// whose address changed needs the API server.
func (g *agentGuard) cachedAgent(ctx context.Context, r pxe.AgentRequest) (attempt, error) {
	boot, err := g.tokens.cachedBoot(ctx, presentedToken{r.Host, r.Token, forAgent, r.From})
	if err != nil {
		return attempt{}, err
	}
	switch {
	case !g.keys.opens(r.Token, forAgent, boot):
		return attempt{}, refused("the token is not that of the current boot of %s", r.Host)
	case boot.Spec.DataAddress == "":
		return attempt{}, fmt.Errorf("%w: %w", pxe.ErrNotYet, errNoConfirmation) // the cache may be behind
	case !isAgent(&boot.Spec, r):
		return g.withAgent(ctx, r, false, nil, func(attempt) error { return nil })
	}
	a, err := g.lookup.attemptOf(ctx, boot)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			err = refused("host %s does not exist", r.Host)
		}
		return attempt{}, err
	}
	return a, g.checkAgentBoot(a)
}

// CheckToken returns nil if the token is that of the agent of the host's boot. The agent that has the plan is refused with ErrVersion if it has another version of the
// protocol: the body of its request may be one that this boot server cannot read.
func (g *agentGuard) CheckToken(ctx context.Context, r pxe.AgentRequest) error {
	boot, err := g.tokens.openedBoot(ctx, presentedToken{r.Host, r.Token, forAgent, r.From})
	if err == nil && isAgent(&boot.Spec, r) {
		if err = versionError(r); err != nil {
			g.stages.recordProblem(boot, wire.ReasonVersionDiffers, err)
		}
	}
	return err
}

// versionError refuses an agent of another version of the protocol, also after it has its plan: it may misread the answer, and the boot server the request. The attempt
// fails, and the next one boots the agent that is installed now.
func versionError(r pxe.AgentRequest) error {
	if r.Version == agent.Version {
		return nil
	}
	return fmt.Errorf("%w: the agent has protocol version %d, and the boot server has %d: install kernel and ramdisk of the same release", pxe.ErrVersion, r.Version, agent.Version)
}

// checkAgentBoot returns nil while the agent of a boot is served. After the permission to make the disk bootable that is so until the boot is reported or has
// failed, whatever else happened to the host: the result says whether the disk is complete. An erasure that has begun is reported whatever else happened, too.
func (g *agentGuard) checkAgentBoot(a attempt) error {
	boot := &a.boot.Spec
	boots := lifecycle.BootFor(a.view, g.settings) == lifecycle.BootAgent || a.view.ErasureRuns(g.settings) ||
		!mayBind(a) && boot.ReportedTime == nil && boot.Failure == nil && a.view.Host.CurrentBoot() != nil
	if !boot.Agent || boot.AgentRefusedTime != nil || !boots {
		return refused("the boot of %s/%s is over, or runs no agent", a.host.Namespace, a.host.Name)
	}
	return nil
}
