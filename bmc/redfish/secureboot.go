package redfish

import (
	"context"
	"errors"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// secureBoot reads and sets UEFI Secure Boot (DSP0268, SecureBoot).
type secureBoot struct {
	service *service
	system  *system
}

var _ bmc.SecureBooter = &secureBoot{}

// read reads the resource of Secure Boot and returns its path.
func (b *secureBoot) read(ctx context.Context, op string) (resource, string, error) {
	if err := b.system.refresh(ctx); err != nil {
		return nil, "", err
	}
	path := b.system.link("SecureBoot")
	if path == "" {
		return nil, "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC does not report Secure Boot")}
	}
	r, err := b.service.get(ctx, path)
	if kind := bmc.KindOf(wrap(op, err)); err != nil && kind == bmc.NotFound {
		return nil, "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	return r, path, wrap(op, err)
}

// hasSwitch is true for a resource of Secure Boot that can be read and written. NVIDIA's GB300 has one with the key databases only.
func hasSwitch(secureBoot resource) bool { return secureBoot.hasProperty("SecureBootEnable") }

var errNoSwitch = errors.New("the BMC does not report whether Secure Boot is enabled")

// SecureBoot reads the state of Secure Boot.
func (b *secureBoot) SecureBoot(ctx context.Context) (bmc.SecureBoot, error) {
	state, _, err := b.readState(ctx, "Read Secure Boot")
	return state, err
}

// readState reads the state of Secure Boot, and returns the path that changes are written to.
func (b *secureBoot) readState(ctx context.Context, op string) (bmc.SecureBoot, string, error) {
	r, path, err := b.read(ctx, op)
	if err != nil {
		return bmc.SecureBoot{}, "", err
	}
	if !hasSwitch(r) {
		return bmc.SecureBoot{}, "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errNoSwitch}
	}
	state := bmc.SecureBoot{Enabled: r.boolean("SecureBootEnable"), Mode: r.text("SecureBootMode")}
	state.Active = state.Enabled
	if r.has("SecureBootCurrentBoot") {
		state.Active = strings.EqualFold(r.text("SecureBootCurrentBoot"), "Enabled")
	}
	linked := r.settingsObject()
	if linked == "" || linked == path {
		return state, path, nil
	}
	settings, err := b.service.fetch(ctx, linked)
	switch {
	case err == nil:
	case bmc.KindOf(wrap(op, err)) == bmc.NotFound:
		return state, path, nil // the link leads nowhere, so nothing is staged there
	default:
		return bmc.SecureBoot{}, "", wrap(op+": read what is staged", err)
	}
	if staged := settings.boolean("SecureBootEnable"); settings.has("SecureBootEnable") && staged != state.Enabled {
		state.Pending = &staged
	}
	return state, linked, nil
}

// SetSecureBoot enables or disables Secure Boot from the next boot on.
func (b *secureBoot) SetSecureBoot(ctx context.Context, enabled bool) error {
	const op = "Set Secure Boot"
	state, path, err := b.readState(ctx, op)
	if err != nil || state.Next() == enabled {
		return err
	}
	return wrap(op, b.service.patch(ctx, path, map[string]any{"SecureBootEnable": enabled}))
}
