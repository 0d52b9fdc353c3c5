package boot

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// refused returns an ErrRefused with a reason.
func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrRefused, fmt.Sprintf(format, args...))
}

// tooEarly returns an ErrNotYet with a reason.
func tooEarly(format string, args ...any) error {
	return fmt.Errorf("%w: %s", pxe.ErrNotYet, fmt.Sprintf(format, args...))
}

// attempt is the current attempt of a boot, with its host and its machine. boot is nil for a host without a boot.
type attempt struct {
	host     *v1alpha1.BareMetalHost
	boot     *v1alpha1.BareMetalBoot
	consumer *controllers.Consumer
	view     lifecycle.View
	// found are the disks in the report of the last inspection, for the judgement of an erasure on request.
	found []wire.DiskIdentity
}

// title identifies the boot at the console of the server.
func (a attempt) title() string {
	host := a.host.Namespace + "/" + a.host.Name
	switch {
	case a.boot.Spec.Purpose == v1alpha1.PurposeInspect:
		return fmt.Sprintf("%s, inspection, attempt %d", host, a.boot.Spec.Attempt)
	case lifecycle.IsRequestedErasure(&a.boot.Spec):
		return fmt.Sprintf("%s, erasure of its disks, attempt %d", host, a.boot.Spec.Attempt)
	}
	return fmt.Sprintf("%s for %s, boot attempt %d", host, a.boot.Spec.MachineName, a.boot.Spec.Attempt)
}

// image returns the image of the machine; nil if there is no image or no machine: after the permission to make the disk bootable, the agent is served whatever
// happens to its machine.
func (a attempt) image() *v1alpha1.Image {
	if a.consumer == nil || a.consumer.BareMetalMachine == nil {
		return nil
	}
	return a.consumer.BareMetalMachine.Spec.Image
}

// deadlinePassed is true once the deadline of the attempt has passed.
func (a attempt) deadlinePassed(s lifecycle.Settings) bool {
	return !a.view.Now.Before(a.view.Deadline(s))
}
