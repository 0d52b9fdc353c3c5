// Package eraserequest makes the request to erase the disks of a free server, or says why it makes no sense now.
package eraserequest

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// Policies are the policies of a request: the others erase nothing.
var Policies = []string{string(wire.PolicyMetadata), string(wire.PolicyClear), string(wire.PolicyPurge)}

// Wish is what a person asks for.
type Wish struct {
	// Policy is how thoroughly the disks are erased: one of Policies.
	Policy wire.ErasePolicy
	// SerialNumber is compared with that of the host's server. It may be empty.
	SerialNumber string
	// ExpireTime is the time after which the erasure does not begin any more.
	ExpireTime time.Time
}

// New returns a request for a host as it is now. It reads the inspection of the host if its BMC reports no serial number. The error says why there is no request.
func New(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, wish Wish) (*v1alpha1.BareMetalErasureRequest, error) {
	known, err := serialNumber(ctx, c, host)
	if err != nil {
		return nil, err
	}
	if err := refuse(host, known, wish); err != nil {
		return nil, err
	}
	return erasure.NewRequest(host, known, wish.Policy, wish.ExpireTime.Truncate(time.Second)), nil
}

// serialNumber returns the serial number that the provider knows of a host's server: that of the BMC, or the one that the agent found.
func serialNumber(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost) (string, error) {
	if h := host.Status.Hardware; h != nil && h.SerialNumber != "" {
		return h.SerialNumber, nil
	}
	report := &v1alpha1.BareMetalInspection{}
	err := c.Get(ctx, client.ObjectKeyFromObject(host), report)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("the BMC of %s reports no serial number, and its inspection could not be read: %w", host.Name, err)
	}
	return report.Spec.System.SerialNumber, nil
}

// refuse says why a request for a host makes no sense now.
func refuse(host *v1alpha1.BareMetalHost, known string, wish Wish) error {
	available := meta.FindStatusCondition(host.Status.Conditions, v1alpha1.AvailableCondition)
	inspected := host.Spec.Inspection == v1alpha1.InspectionAgent || host.Spec.Inspection == v1alpha1.InspectionBoth
	switch ref := host.Spec.ConsumerRef; {
	case ref != nil:
		return fmt.Errorf("BareMetalMachine %q has %s: delete its Machine, whose release erases the disks as spec.cleaningPolicy says", ref.Name, host.Name)
	case host.Spec.Quarantine != nil:
		return fmt.Errorf("%s is in quarantine (%s), and nothing is erased there: end it first with kubectl baremetal quarantine end %s", host.Name, host.Spec.Quarantine.Reason, host.Name)
	case known == "":
		return fmt.Errorf("the serial number of %s is unknown: neither its BMC nor an inspection by the agent reports one. Set spec.inspection to Both, and try again after the inspection", host.Name)
	case wish.SerialNumber != "" && !strings.EqualFold(strings.TrimSpace(wish.SerialNumber), strings.TrimSpace(known)):
		return fmt.Errorf("the server of %s has the serial number %q, not %q", host.Name, known, wish.SerialNumber)
	case wish.Policy == wire.PolicyPurge && !inspected:
		return fmt.Errorf("whether the disks of %s can be purged is unknown, because the agent has not inspected them: set spec.inspection to Both, or use --policy Clear", host.Name)
	case available != nil && (available.Reason == v1alpha1.ReasonInspectionPending || available.Reason == v1alpha1.ReasonInspecting):
		return fmt.Errorf("%s is to be inspected first, which is a boot, and the request would not fit after it. Try again when it is available: %s", host.Name, available.Message)
	default:
		return nil
	}
}
