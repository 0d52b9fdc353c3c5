package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/recording"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

// firmware is what a BMC reports of the firmware settings of its server.
type firmware struct {
	description bmc.Description
	bios        bmc.BIOS
	registry    *settings.Registry // nil without one
	current     settings.Values
	pending     settings.Values
	// invalid are the attributes whose value is neither a text nor a number nor a boolean.
	invalid []string
	// secureBoot and keys are nil if the BMC does not report them.
	secureBoot *bmc.SecureBoot
	keys       *bmc.SecureBootKeys
}

// firmwareFlags are the flags of the commands that read firmware settings.
type firmwareFlags struct {
	connection

	system string
}

func (f *firmwareFlags) flags(set *pflag.FlagSet) {
	f.connection.flags(set)
	set.StringVar(&f.system, "system", "", "`Path` of the system in a recording that has several, like /redfish/v1/Systems/1.")
}

// source returns the BMC at an address, or the recorded service in a file. A recording needs no credentials.
func (f *firmwareFlags) source(ctx context.Context, from string, c console) (*target, error) {
	if strings.Contains(from, "://") {
		if f.system != "" {
			return nil, usageErrorf("--system is for a recording: name the system in the address, like %s%s", strings.TrimSuffix(from, "/"), f.system)
		}
		return f.target(ctx, from, c)
	}
	if f.timeout <= 0 {
		return nil, usageErrorf("--timeout must be positive: omit it for a minute")
	}
	service, err := recording.Open(from)
	if err != nil {
		return nil, usageErrorf("%q is neither the URL of a BMC, like redfish://192.0.2.10, nor a recording: %v", from, err)
	}
	driver := &redfish.Driver{Permit: anywhere, Wrap: func(http.RoundTripper) http.RoundTripper { return service }}
	address := &url.URL{Scheme: redfish.SchemeInsecure, Host: "recording", Path: f.system}
	return &target{Endpoint: bmc.Endpoint{URL: address}, open: driver.Open}, nil
}

// readFirmware reads the firmware settings. Secure Boot is optional.
func readFirmware(ctx context.Context, t *target, timeout time.Duration) (f *firmware, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	client, err := t.open(ctx, t.Endpoint)
	if err != nil {
		return nil, err
	}
	defer func() {
		closeCtx, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancelClose()
		err = errors.Join(err, client.Close(closeCtx))
	}()
	f = &firmware{}
	if f.description, err = client.Describe(ctx); err != nil {
		return nil, err
	}
	configurer, err := bmc.As[bmc.BIOSConfigurer](client, "Read the BIOS attributes")
	if err != nil {
		return nil, err
	}
	if f.bios, err = configurer.BIOS(ctx); err != nil {
		return nil, err
	}
	if f.bios.Registry != nil {
		if f.registry, err = settings.ParseRegistry(f.bios.Registry); err != nil {
			return nil, err
		}
	}
	f.current, f.invalid = settings.ValuesOf(f.bios.Attributes)
	f.pending, _ = settings.ValuesOf(f.bios.Pending) // those that are not valid have names in f.invalid
	return f, f.readSecureBoot(ctx, client)
}

// readSecureBoot reads Secure Boot and its keys, as far as the BMC shows them.
func (f *firmware) readSecureBoot(ctx context.Context, client bmc.Client) error {
	booter, err := bmc.As[bmc.SecureBooter](client, "Read Secure Boot")
	if err != nil {
		return ignoreUnsupported(err)
	}
	state, err := booter.SecureBoot(ctx)
	if err != nil {
		return ignoreUnsupported(err)
	}
	f.secureBoot = &state
	reader, err := bmc.As[bmc.SecureBootKeyReader](client, "Read the keys of Secure Boot")
	if err != nil {
		return ignoreUnsupported(err)
	}
	keys, err := reader.SecureBootKeys(ctx)
	if err == nil {
		f.keys = &keys
		return nil
	}
	if kind := bmc.KindOf(err); kind == bmc.Unreachable || kind == bmc.Unauthorized {
		return err
	}
	return nil // keys that cannot be read are unknown, as the plan says
}

// ignoreUnsupported returns nil for what a BMC does not offer.
func ignoreUnsupported(err error) error {
	if bmc.KindOf(err) == bmc.Unsupported {
		return nil
	}
	return err
}

// registryText describes the registry.
func (f *firmware) registryText() string {
	if f.registry == nil {
		return "none: " + f.bios.RegistryProblem
	}
	return fmt.Sprintf("%s, %d attributes, %d dependencies", cmp.Or(f.registry.ID, f.bios.RegistryPath), len(f.registry.Names()), f.registry.Dependencies())
}
