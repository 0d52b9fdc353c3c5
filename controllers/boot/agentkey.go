package boot

import (
	"context"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// maxKeyText is how many characters of a key's digest a message has.
const maxKeyText = 12

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
func (b *Booter) enrol(ctx context.Context, a attempt, r pxe.AgentRequest) error {
	boot := &a.boot.Spec
	switch {
	case boot.AgentKey != "":
		return b.refuseSecond(ctx, a, secondKeyError{boot.DataAddress, boot.AgentKey, r})
	case lifecycle.UsesMedium(boot) && r.Key == "":
		err := refused("the agent of %s asks over plain HTTP, and its token is on a boot medium that others may have read: "+
			"set http.tls in the configuration file of the boot server", r.Host)
		b.recordProblem(a.boot, v1alpha1.ReasonAgentKeyMissing, err)
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
