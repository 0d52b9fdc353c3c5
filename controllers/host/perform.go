package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// perform does a step. What it writes to the host's spec and metadata is one optimistic-lock patch: the step was chosen for
// this version of the host and no other.
func (r *Reconciler) perform(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, step lifecycle.Step) error {
	write := func(change func(*v1alpha1.BareMetalHost)) error {
		changed := host.DeepCopy()
		change(changed)
		return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
	}
	switch step.Action {
	case lifecycle.Nothing:
		return nil
	case lifecycle.RecordBoot:
		return write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Boot = step.Boot
			if step.Boot.Failure == nil {
				blockMove(h)
			}
		})
	case lifecycle.AllowMove:
		return write(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, v1alpha1.BlockMoveAnnotation) })
	case lifecycle.Release:
		return write(func(h *v1alpha1.BareMetalHost) {
			h.Spec.ConsumerRef, h.Spec.Boot = nil, nil
			delete(h.Annotations, v1alpha1.BlockMoveAnnotation)
		})
	case lifecycle.Forget:
		return write(func(h *v1alpha1.BareMetalHost) { controllerutil.RemoveFinalizer(h, v1alpha1.HostFinalizer) })
	default:
		return r.submit(ctx, host, view, step.Action)
	}
}

func blockMove(h *v1alpha1.BareMetalHost) {
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[v1alpha1.BlockMoveAnnotation] = "capbm: a boot is under way"
}

// errOutdated ends a job whose reason is gone. It says nothing of the BMC.
var errOutdated = errors.New("the host's spec changed before the command could be given")

// submit hands a step to the pool.
func (r *Reconciler) submit(ctx context.Context, host *v1alpha1.BareMetalHost, view lifecycle.View, action lifecycle.Action) error {
	key := client.ObjectKeyFromObject(host)
	endpoint := r.facts.get(key).endpoint
	if endpoint == nil {
		return fmt.Errorf("%s: it is not known how to reach the BMC", action)
	}
	mode := bmc.BootMode(view.Spec.BootMode)
	uid, generation := host.UID, host.Generation // the job must not share the host with the reconcile
	log := ctrl.LoggerFrom(ctx)
	var start time.Time
	r.Pool.Submit(bmc.Job{ //nolint:contextcheck // the job outlives the reconcile that asks for it
		Key: key.String(), Endpoint: *endpoint,
		Run: func(ctx context.Context, c bmc.Client) error {
			start = time.Now()
			if action.PowerCommand() {
				// The job may have waited for its turn: a person may have taken the host since.
				if err := r.unchanged(ctx, key, uid, generation); err != nil {
					return err
				}
				log.Info("Commanding the BMC", "action", action)
			}
			return r.do(ctx, key, c, action, mode)
		},
		Done: func(err error) {
			now := time.Now()
			if errors.Is(err, errOutdated) {
				err = nil
			}
			r.facts.with(key, func(h *hostFacts) {
				h.ended(err, now)
				if !start.IsZero() && action != lifecycle.ReadPower {
					h.operated(string(action), start, now, err)
				}
			})
			if err != nil {
				log.Info("The BMC did not do it", "action", action, "error", err.Error())
			}
			select {
			case r.results <- event.TypedGenericEvent[types.NamespacedName]{Object: key}:
			case <-r.stopped:
			}
		},
	})
	return nil
}

func (r *Reconciler) unchanged(ctx context.Context, key types.NamespacedName, uid types.UID, generation int64) error {
	var now v1alpha1.BareMetalHost
	if err := r.Client.Get(ctx, key, &now); err != nil || now.UID != uid || now.Generation != generation {
		return errors.Join(errOutdated, client.IgnoreNotFound(err))
	}
	return nil
}

// do speaks to the BMC. Every power command is followed by a look at the power.
func (r *Reconciler) do(ctx context.Context, key types.NamespacedName, c bmc.Client, action lifecycle.Action, mode bmc.BootMode) error {
	var command lifecycle.Command
	var err error
	switch action {
	case lifecycle.Inspect:
		if err := r.inspect(ctx, key, c); err != nil {
			return err
		}
	case lifecycle.SetNetworkBoot:
		if err := c.SetNetworkBoot(ctx, mode); err != nil {
			return err
		}
		r.facts.with(key, func(h *hostFacts) { h.bmc.NetworkBootSetAt = time.Now() })
		return nil
	case lifecycle.PowerOn:
		command, err = lifecycle.CommandPowerOn, c.PowerOn(ctx)
	case lifecycle.ForceOff:
		command, err = lifecycle.CommandForceOff, c.ForceOff(ctx)
	case lifecycle.ShutDown:
		command, err = lifecycle.CommandShutDown, c.ShutDown(ctx)
		if bmc.KindOf(err) == bmc.Unsupported {
			r.facts.with(key, func(h *hostFacts) { h.bmc.CommandUnsupported = true })
			return nil
		}
	case lifecycle.ReadPower:
	default:
		return fmt.Errorf("%s is nothing that a BMC does", action)
	}
	if err != nil {
		return err
	}
	if command != "" {
		r.facts.with(key, func(h *hostFacts) { h.commanded(command, time.Now()) })
	}
	state, err := c.PowerState(ctx)
	if err != nil {
		return err
	}
	r.facts.with(key, func(h *hostFacts) { h.sawPower(state, time.Now()) })
	return nil
}

func (r *Reconciler) inspect(ctx context.Context, key types.NamespacedName, c bmc.Client) error {
	inventory, err := c.Inspect(ctx)
	if err != nil {
		return err
	}
	hardware := hardwareOf(inventory)
	r.facts.with(key, func(h *hostFacts) { h.bmc.Inspected, h.hardware = true, hardware })
	return nil
}

func hardwareOf(i bmc.Inventory) *v1alpha1.Hardware {
	hardware := &v1alpha1.Hardware{
		Manufacturer: i.Manufacturer, Model: i.Model, SerialNumber: i.SerialNumber, SystemUUID: i.SystemUUID,
		FirmwareVersion: i.FirmwareVersion, BMCFirmwareVersion: i.BMCFirmwareVersion,
		CPU:       v1alpha1.CPU{Model: i.CPUModel, Sockets: int32(i.CPUSockets), Threads: int32(i.CPUThreads)}, //nolint:gosec // the driver bounds them
		MemoryMiB: i.MemoryMiB, Missing: i.Missing,
	}
	for _, d := range i.Disks {
		hardware.Disks = append(hardware.Disks, v1alpha1.Disk{
			Name: d.Name, Model: d.Model, SerialNumber: d.SerialNumber, SizeGiB: d.SizeBytes >> 30, Rotational: d.Rotational,
		})
	}
	for _, n := range i.NICs {
		hardware.NICs = append(hardware.NICs, v1alpha1.NIC{Name: n.Name, MACAddress: n.MACAddress, LinkUp: n.LinkUp})
	}
	return hardware
}
