package lifecycle

import (
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// maxListed is how many attributes a message lists.
const maxListed = 5

// ListChanges lists what a plan has to change, for a message.
func ListChanges(p *settings.Plan) string {
	var parts []string
	for _, c := range p.Changes {
		parts = append(parts, fmt.Sprintf("%s is %q and is to be %q", c.Name, c.From, c.To))
	}
	if c := p.SecureBoot; c != nil {
		parts = append(parts, fmt.Sprintf("Secure Boot is enabled: %t, and is to be: %t", c.From, c.To))
	}
	return listParts(parts)
}

// RefusalMessage lists the wishes of a profile that cannot be fulfilled, for a message.
func RefusalMessage(profile string, p *settings.Plan) string {
	parts := make([]string, 0, len(p.Refusals))
	for _, r := range p.Refusals {
		parts = append(parts, r.Message)
	}
	return fmt.Sprintf("BareMetalProfile %q cannot be fulfilled, so nothing is changed: %s", profile, listParts(parts))
}

func listParts(parts []string) string {
	more := len(parts) - maxListed
	if more > 0 {
		parts = append(parts[:maxListed:maxListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
