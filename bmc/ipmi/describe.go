package ipmi

import (
	"context"
	"fmt"
	"slices"

	"github.com/bougou/go-ipmi/pkg/command/app"
	"github.com/bougou/go-ipmi/pkg/command/storage"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Describe returns the BMC's device ID, model and capabilities. IPMI has no command that lists the available chassis controls, so all of
// them are listed, and an unavailable one is Unsupported when it is used. The other capabilities are those whose commands the BMC answers.
func (c *conn) Describe(ctx context.Context) (bmc.Description, error) {
	device, err := c.deviceID(ctx)
	if err != nil {
		return bmc.Description{}, err
	}
	f, err := c.readFRU(ctx)
	if err != nil {
		return bmc.Description{}, err
	}
	c.setQuirks(device, f.model)
	d := bmc.Description{
		Protocol:        fmt.Sprintf("IPMI %d.%d, cipher suite %d", device.MajorIPMIVersion, device.MinorIPMIVersion, c.suite),
		Vendor:          vendorOf(device, f),
		Model:           f.model,
		FirmwareVersion: firmwareOf(device),
		Capabilities: []bmc.Capability{
			bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanNMI, bmc.CanInventory,
		},
		Quirks: c.quirks,
	}
	for _, ask := range []struct {
		what  func(context.Context) (bool, error)
		gives []bmc.Capability
	}{
		{c.hasBootFlags, []bmc.Capability{bmc.CanBootPXE, bmc.CanBootDisk, bmc.CanBootCD}},
		{c.hasSensors, []bmc.Capability{bmc.CanSensors}},
		{c.hasEvents, []bmc.Capability{bmc.CanEventLog}},
		{c.hasClock, []bmc.Capability{bmc.CanClock}},
	} {
		has, err := ask.what(ctx)
		if err := ignoreOptional(err); err != nil {
			return bmc.Description{}, err
		}
		if has && err == nil {
			d.Capabilities = append(d.Capabilities, ask.gives...)
		}
	}
	slices.Sort(d.Capabilities)
	return d, nil
}

func (c *conn) hasBootFlags(ctx context.Context) (bool, error) {
	_, err := c.bootFlags(ctx)
	return true, err
}

func (c *conn) hasSensors(ctx context.Context) (bool, error) {
	info := &storage.GetSDRRepoInfoResponse{}
	err := c.do(ctx, "Read the sensor repository", &storage.GetSDRRepoInfoRequest{}, info)
	return info.RecordCount > 0, err
}

func (c *conn) hasEvents(ctx context.Context) (bool, error) {
	return true, c.do(ctx, "Read the event log", &storage.GetSELInfoRequest{}, &storage.GetSELInfoResponse{})
}

func (c *conn) hasClock(ctx context.Context) (bool, error) {
	_, err := c.Clock(ctx)
	return true, err
}

// vendorOf returns the vendor of the manufacturer ID, an IANA enterprise number. If the ID is unknown, it returns the FRU's manufacturer.
func vendorOf(device *app.GetDeviceIDResponse, f fru) string {
	if name := types.OEM(device.ManufacturerID).String(); name != "Unknown" {
		return name
	}
	return f.manufacturer
}

// firmwareOf returns the BMC's firmware version. The minor part is BCD with two digits (IPMI 2.0, 20.1).
func firmwareOf(device *app.GetDeviceIDResponse) string {
	return fmt.Sprintf("%d.%02d", device.MajorFirmwareRevision, device.MinorFirmwareRevision)
}

// findQuirks sets the BMC's quirks. It reads the FRU only if an entry needs the model.
func (c *conn) findQuirks(ctx context.Context) error {
	if c.quirk != nil {
		return nil
	}
	device, err := c.deviceID(ctx)
	if err := ignoreOptional(err); err != nil {
		return err
	}
	if err != nil {
		c.quirk = &quirk{}
		return nil //nolint:nilerr // no entry matches a BMC without a device ID
	}
	var f fru
	if needsModel(vendorOf(device, f), firmwareOf(device)) {
		if f, err = c.readFRU(ctx); err != nil {
			return err
		}
	}
	c.setQuirks(device, f.model)
	return nil
}

func (c *conn) setQuirks(device *app.GetDeviceIDResponse, model string) {
	found, names := quirksOf(vendorOf(device, fru{}), model, firmwareOf(device))
	c.quirk, c.quirks = &found, names
}
