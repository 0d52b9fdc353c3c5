package boot

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// foundDisks returns the disks that the agent found in the last inspection of a host whose disks are erased on request. It returns none for
// other boots, and for a host that the agent does not inspect. The plan of such an erasure names no disks: a disk that is new is erased too. But a disk that
// was found and is missing now may be one for which the agent has no driver any more.
func (i *inspections) foundDisks(ctx context.Context, a attempt) ([]wire.DiskIdentity, error) {
	if policy := a.host.Spec.Inspection; !lifecycle.IsRequestedErasure(&a.boot.Spec) || policy != v1alpha1.InspectionAgent && policy != v1alpha1.InspectionBoth {
		return nil, nil
	}
	report := &v1alpha1.BareMetalInspection{}
	if err := i.apiReader.Get(ctx, client.ObjectKeyFromObject(a.host), report); err != nil {
		return nil, client.IgnoreNotFound(fmt.Errorf("read the disks in the host's BareMetalInspection: %w", err))
	}
	return cleaning.Disks(&report.Spec), nil
}
