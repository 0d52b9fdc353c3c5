package boot

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// binding binds the script, the plan and the bootstrap data of a boot to the first client that asks for them, and ends the attempt if a second client asks.
type binding struct {
	client    client.Client // writes the status of a boot that failed
	log       logr.Logger
	clock     clock.PassiveClock
	keys      tokenKeys
	records   *bootRecords
	tokens    *tokenChecker
	admission *admission
	stages    *stageWriter
	events    *eventRecorder
}

// withToken is bootRecords.update for the boot that the token opens. The attempt is read with read, which the caller chooses.
func (b *binding) withToken(
	ctx context.Context, s presentedToken, expected writes, read func(context.Context, *v1alpha1.BareMetalBoot) (attempt, error), change func(attempt) error,
) (attempt, error) {
	key := s.key()
	switch cached, err := b.tokens.cachedBoot(ctx, s); {
	case err != nil:
		return attempt{}, err
	case !b.keys.opens(s.token, s.purpose, cached):
		if err := b.tokens.mayLookUp(s.host); err != nil {
			return attempt{}, err
		}
	case !b.tokens.withinBudget(s.host): // wrong tokens use up nothing of the host's budget
		return attempt{}, fmt.Errorf("%s asks too often with its token: %d requests at once, and %d a second, are answered", s.host, budgetBurst, budgetRate)
	}
	var a attempt
	boot, err := b.records.update(ctx, key, expected, func(boot *v1alpha1.BareMetalBoot, live bool) error {
		a = attempt{boot: boot}
		if !b.keys.opens(s.token, s.purpose, boot) {
			return refused("the token is not that of the current boot of %s", s.host)
		}
		whole, err := read(ctx, boot)
		if err != nil {
			return err
		}
		a = whole
		a.known = !live
		return change(a)
	})
	if errors.Is(err, errNoBoot) || apierrors.IsNotFound(err) && a.host == nil {
		b.keys.opens(s.token, s.purpose, &v1alpha1.BareMetalBoot{}) // takes as long as for an existing boot
		err = refused("there is no boot of %s", s.host)
	}
	if errors.Is(err, pxe.ErrRefused) {
		metrics.TokenRefused(string(s.purpose))
	}
	if boot != nil {
		a.boot = boot
	}
	b.events.recordRefusalEvent(a, s.from, err)
	return a, err
}

// secondRequesterError fails an attempt when two clients ask for the data of one server.
type secondRequesterError struct{ what, first, second string }

func (e secondRequesterError) Error() string {
	return fmt.Sprintf("%s asked for the %s that was given to %s: two machines claim to be this server, another machine listens on its network, or its address changed",
		e.second, e.what, e.first)
}

// bind ties the script or the bootstrap data to the first address that asks. It writes nothing: the caller serves the data after update has written the boot.
func bind(bound *string, from netip.Addr, what string) error {
	switch *bound {
	case "":
		*bound = from.String()
		return nil
	case from.String():
		return nil
	default:
		return secondRequesterError{what, *bound, from.String()}
	}
}

// bindScript binds the script of a boot to the first address.
func (b *binding) bindScript(ctx context.Context, a attempt, from netip.Addr) error {
	if a.boot.Spec.Agent {
		return b.bindAgent(ctx, a, &a.boot.Spec.ScriptAddress, from, "boot script")
	}
	if err := bind(&a.boot.Spec.ScriptAddress, from, "boot script"); err != nil {
		return b.failAttempt(ctx, a, err)
	}
	return nil
}

// bindAgent binds the script or the plan of a boot that runs the agent to the first address that asks. An address that only the server can have is the
// server's, whatever address it had before (decision 0028).
func (b *binding) bindAgent(ctx context.Context, a attempt, bound *string, from netip.Addr, what string) error {
	if mayBind(a) || *bound != "" {
		second := bind(bound, from, what)
		if second == nil {
			return nil
		}
		switch own, err := b.admission.isOwnAddress(ctx, a, from); {
		case err != nil:
			return err
		case own:
			return nil
		}
		return b.refuseSecond(ctx, a, second)
	}
	return refused("the agent of %s/%s asks from another address than before", a.host.Namespace, a.host.Name)
}

// mayBind is true until the disk may be complete.
func mayBind(a attempt) bool {
	return a.boot.Spec.CommitAllowedTime == nil && a.boot.Spec.AgentDoneTime == nil
}

// hasKey is true for the agent whose key the boot has. Its address does not matter: an address can be taken, and a key cannot (decision 0034).
func hasKey(boot *v1alpha1.BareMetalBootSpec, r pxe.AgentRequest) bool {
	return boot.AgentKey != "" && r.Key == boot.AgentKey
}

// isAgent is true for the client that the boot is bound to: by its key, or by its address if it enrolled none.
func isAgent(boot *v1alpha1.BareMetalBootSpec, r pxe.AgentRequest) bool {
	if boot.AgentKey != "" {
		return hasKey(boot, r)
	}
	return boot.DataAddress == r.From.String()
}

// enrol binds a boot to the first agent that presents the token: to its key, if it has one, and to its address. A client with another key is a second agent,
// from whatever address it asks.
func (b *binding) enrol(ctx context.Context, a attempt, r pxe.AgentRequest) error {
	boot := &a.boot.Spec
	switch {
	case boot.AgentKey != "":
		return b.refuseSecond(ctx, a, secondKeyError{boot.DataAddress, boot.AgentKey, r})
	case lifecycle.UsesMedium(boot) && r.Key == "":
		err := refused("the agent of %s asks over plain HTTP, and its token is on a boot medium that others may have read: "+
			"set http.tls in the configuration file of the boot server", r.Host)
		a.recordProblem(b.stages, v1alpha1.ReasonAgentKeyMissing, err)
		return err
	}
	first := boot.DataAddress == ""
	if err := b.bindAgent(ctx, a, &boot.DataAddress, r.From, "plan of the agent"); err != nil {
		return err
	}
	if first {
		boot.AgentKey = r.Key
	}
	return nil
}

// maxKeyText is how many characters of a key's digest a message has.
const maxKeyText = 12

// secondKeyError ends an attempt when two agents present the token of one boot.
type secondKeyError struct {
	address, key string // of the first agent
	second       pxe.AgentRequest
}

func (e secondKeyError) Error() string {
	second := "no key"
	if e.second.Key != "" {
		second = "the key " + controllers.Clip(e.second.Key, maxKeyText)
	}
	return fmt.Sprintf("%s presented the token of the agent with %s, after the agent at %s with the key %s: "+
		"the server started again in this attempt, or another machine has read the token",
		e.second.From, second, e.address, controllers.Clip(e.key, maxKeyText))
}

// refuseSecond decides about a second client that presents the token of an agent (decision 0028):
//
//   - After the permission to make the disk bootable another client is only refused: it must not fail a machine that may run.
//   - Before the bootstrap data was served, nothing was given away. The agent is refused from now on, whichever of the two it is, and the next attempt has
//     another token.
//   - Otherwise a stranger may have the bootstrap data, and the boot fails.
func (b *binding) refuseSecond(ctx context.Context, a attempt, second error) error {
	switch {
	case mayBind(a) && a.boot.Spec.DataServedTime == nil:
		return b.refuseAgent(ctx, a, second)
	case mayBind(a):
		return b.failAttempt(ctx, a, second)
	default:
		return refused("%v", second)
	}
}

// refuseAgent ends the validity of the agent's token. The lifecycle ends the attempt.
func (b *binding) refuseAgent(ctx context.Context, a attempt, why error) error {
	if a.known {
		return why
	}
	before, now := a.boot.DeepCopy(), metav1.NewTime(b.clock.Now())
	a.boot.Spec.AgentRefusedTime = &now
	if err := b.records.patch(ctx, before, a.boot); err != nil {
		return err
	}
	b.stages.recordProblem(a.boot, v1alpha1.ReasonSecondRequester, why)
	return refused("%v", why)
}

// failAttempt ends a boot, and with it the validity of its tokens.
func (b *binding) failAttempt(ctx context.Context, a attempt, why error) error {
	if a.known {
		return why
	}
	before := a.boot.DeepCopy()
	a.boot.Spec.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonSecondRequester, Message: why.Error()}
	if err := b.records.patch(ctx, before, a.boot); err != nil {
		return err
	}
	if err := controllers.ApplyFailure(ctx, b.client, client.ObjectKeyFromObject(a.boot), v1alpha1.ReasonSecondRequester); err != nil {
		b.log.Error(err, "Failed to write the status of the boot", "host", client.ObjectKeyFromObject(a.boot))
	}
	b.events.recordFailureEvent(a)
	return refused("%v", why)
}
