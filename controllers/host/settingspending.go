package host

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

const (
	// pendingTimeout limits the reading of what is staged: the server waits for its power-on meanwhile.
	pendingTimeout = 20 * time.Second
	// maxPendingNames limits the names in the event.
	maxPendingNames = 10
)

// showPending records an event if the boot that begins applies firmware settings that others have staged at the BMC. The boot continues: a claimed server must not wait for a person.
func (e *settingsExecutor) showPending(ctx context.Context, j job, c bmc.Client) {
	ctx, cancel := context.WithTimeout(ctx, pendingTimeout)
	defer cancel()
	names, err := pendingNames(ctx, c)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("Failed to read the staged firmware settings", "error", maskError(err).Error())
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - maxPendingNames; n > 0 {
		names, more = names[:maxPendingNames], fmt.Sprintf(" and %d others", n)
	}
	e.events.recordJobEvent(j, corev1.EventTypeWarning, controllers.EventSettingsPending, "Boot", controllers.Clip("This boot applies firmware settings that the provider has not staged: "+strings.Join(names, ", ")+more, controllers.MaxText))
}

// pendingNames returns the names of what the next reset of a server changes, as far as the BMC shows it.
func pendingNames(ctx context.Context, c bmc.Client) ([]string, error) {
	var names []string
	configurer, err := bmc.As[bmc.BIOSConfigurer](c, "Read the staged BIOS attributes")
	if err == nil {
		names, err = configurer.PendingBIOS(ctx)
	}
	if err != nil && bmc.KindOf(err) != bmc.Unsupported {
		return nil, err
	}
	booter, err := bmc.As[bmc.SecureBooter](c, "Read Secure Boot")
	var secure bmc.SecureBoot
	if err == nil {
		secure, err = booter.SecureBoot(ctx)
	}
	if err != nil && bmc.KindOf(err) == bmc.Unsupported {
		err = nil
	}
	if secure.Pending != nil {
		names = append(names, "Secure Boot")
	}
	return names, err
}
