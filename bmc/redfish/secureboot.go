package redfish

import (
	"context"
	"errors"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// readSecureBoot reads the resource of Secure Boot and returns its path.
func (c *conn) readSecureBoot(ctx context.Context, op string) (resource, string, error) {
	if err := c.refresh(ctx); err != nil {
		return nil, "", err
	}
	path := c.system.link("SecureBoot")
	if path == "" {
		return nil, "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC does not report Secure Boot")}
	}
	r, err := c.get(ctx, path)
	if kind := bmc.KindOf(wrap(op, err)); err != nil && kind == bmc.NotFound {
		return nil, "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	return r, path, wrap(op, err)
}

// SecureBoot reads the state of Secure Boot.
func (c *conn) SecureBoot(ctx context.Context) (bmc.SecureBoot, error) {
	r, _, err := c.readSecureBoot(ctx, "Read Secure Boot")
	if err != nil {
		return bmc.SecureBoot{}, err
	}
	state := bmc.SecureBoot{Enabled: r.boolean("SecureBootEnable")}
	state.Active = state.Enabled
	if r.has("SecureBootCurrentBoot") {
		state.Active = strings.EqualFold(r.text("SecureBootCurrentBoot"), "Enabled")
	}
	return state, nil
}

// SetSecureBoot enables or disables Secure Boot from the next boot on.
func (c *conn) SetSecureBoot(ctx context.Context, enabled bool) error {
	const op = "Set Secure Boot"
	r, path, err := c.readSecureBoot(ctx, op)
	if err != nil || r.boolean("SecureBootEnable") == enabled {
		return err
	}
	if settings := r.link("@Redfish.Settings", "SettingsObject"); settings != "" {
		path = settings
	}
	return wrap(op, c.patch(ctx, path, map[string]any{"SecureBootEnable": enabled}))
}
