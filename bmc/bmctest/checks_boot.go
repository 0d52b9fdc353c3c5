package bmctest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var bootChecks = []check{
	{"boots from the network once, and reports it", bmc.CanBootPXE, overrides(bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI})},
	{"boots from the network once, legacy", bmc.CanBootPXE, func(ctx context.Context, r *round) error {
		result, err := r.setBoot(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootLegacy})
		if bmc.KindOf(err) == bmc.Unsupported && err != nil {
			r.notef("legacy boot is refused: %v", err)
			return nil
		}
		r.notef("method %q, doubt %q", result.Method, result.Doubt)
		return err
	}},
	{"boots from the network always", bmc.CanBootPXE, overrides(bmc.BootOverride{Target: bmc.BootPXE, Continuous: true})},
	{"boots from UEFI HTTP once", bmc.CanBootHTTP, func(ctx context.Context, r *round) error {
		return overrides(bmc.BootOverride{Target: bmc.BootHTTP, Mode: bmc.BootUEFI, URI: r.BootURI})(ctx, r)
	}},
	{"boots from the disk once", bmc.CanBootDisk, overrides(bmc.BootOverride{Target: bmc.BootDisk})},
	{"boots from the optical drive once", bmc.CanBootCD, overrides(bmc.BootOverride{Target: bmc.BootCD})},
	{removalCheck, bmc.CanBootPXE, func(ctx context.Context, r *round) error {
		_, err := r.setBoot(ctx, bmc.BootOverride{Target: bmc.BootPXE})
		return errors.Join(err, overrides(bmc.BootOverride{Target: bmc.BootNone})(ctx, r))
	}},
	{"an override for one boot expires with it", bmc.CanBootPXE, func(ctx context.Context, r *round) error {
		if !r.Boots {
			r.notef("not checked: the server does not boot here")
			return nil
		}
		if err := r.setPower(ctx, bmc.PowerOff, r.client.ForceOff); err != nil {
			return err
		}
		if _, err := r.setBoot(ctx, bmc.BootOverride{Target: bmc.BootPXE}); err != nil {
			return err
		}
		if err := r.setPower(ctx, bmc.PowerOn, r.client.PowerOn); err != nil {
			return err
		}
		return r.retry(ctx, func() error {
			override, err := r.client.BootOverride(ctx)
			if err == nil && override.Target != bmc.BootNone {
				err = fmt.Errorf("the override is still %+v", override)
			}
			return err
		})
	}},
}

// overrides sets an override and checks that it can be read back.
func overrides(want bmc.BootOverride) func(ctx context.Context, r *round) error {
	return func(ctx context.Context, r *round) error {
		result, err := r.setBoot(ctx, want)
		if err != nil {
			return err
		}
		r.notef("method %q", result.Method)
		if result.Doubt != "" {
			return errors.New(result.Doubt)
		}
		if result.ReadBack == nil {
			r.unverified = "it cannot be read back"
			r.notef("accepted; it cannot be read back")
		}
		again, err := r.client.SetBootOverride(ctx, want, result.Method)
		if err == nil && again.Doubt != "" {
			err = errors.New("the second time: " + again.Doubt)
		}
		return err
	}
}

// setBoot sets an override with the driver's first method, and records the duration.
func (r *round) setBoot(ctx context.Context, want bmc.BootOverride) (bmc.BootResult, error) {
	start := time.Now()
	result, err := r.client.SetBootOverride(ctx, want, "")
	addDuration(&r.outcome.Latency.Boot, start, err)
	return result, err
}

// retry repeats check until it returns nil, or until the time to settle has passed.
func (r *round) retry(ctx context.Context, check func() error) error {
	ctx, cancel := context.WithTimeout(ctx, r.Settle)
	defer cancel()
	ticker := time.NewTicker(r.Poll)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return err
		}
	}
}

var optionalFeatureChecks = []check{
	{"Secure Boot can be read, and set to its current state", bmc.CanSecureBoot, func(ctx context.Context, r *round) error {
		s, err := bmc.As[bmc.SecureBooter](r.client, "Read Secure Boot")
		if err != nil {
			return err
		}
		state, err := s.SecureBoot(ctx)
		if err != nil {
			return err
		}
		r.notef("%+v", state)
		if err := s.SetSecureBoot(ctx, state.Enabled); err != nil {
			return err
		}
		after, err := s.SecureBoot(ctx)
		if err == nil && after.Enabled != state.Enabled {
			err = fmt.Errorf("it was %+v and is %+v", state, after)
		}
		return err
	}},
	{"the BIOS attributes can be read, and one with its current value is not written", bmc.CanBIOSSettings, func(ctx context.Context, r *round) error {
		b, err := bmc.As[bmc.BIOSConfigurer](r.client, "Read the BIOS attributes")
		if err != nil {
			return err
		}
		before, err := b.BIOS(ctx)
		if err != nil {
			return err
		}
		r.notef("%d attributes, %d of them pending, settings object %q, registry %q, %s", len(before.Attributes), len(before.Pending), before.SettingsPath,
			before.RegistryPath, before.RegistryProblem)
		name := unstagedText(before)
		if name == "" {
			return nil
		}
		staged, err := b.StageBIOS(ctx, bmc.BIOSChange{Attributes: map[string]any{name: before.Attributes[name]}})
		if err == nil && staged.Sent {
			err = fmt.Errorf("%s was written with the value that it has", name)
		}
		return err
	}},
}

// unstagedText returns the first attribute that is a text and not pending; "" without one.
func unstagedText(b bmc.BIOS) string {
	for _, name := range slices.Sorted(maps.Keys(b.Attributes)) {
		if _, isText := b.Attributes[name].(string); isText && b.Pending[name] == nil {
			return name
		}
	}
	return ""
}
