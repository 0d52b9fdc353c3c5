package ipmi

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/bougou/go-ipmi/pkg/command/app"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Inspect reads the manufacturer, model and serial number from the FRU, the UUID, and the BMC's firmware version. IPMI does not offer
// processors, memory, disks and network interfaces.
func (c *conn) Inspect(ctx context.Context) (bmc.Inventory, error) {
	inventory := bmc.Inventory{}
	device, err := c.deviceID(ctx)
	if err := ignoreOptional(err); err != nil {
		return bmc.Inventory{}, err
	}
	f, fruErr := c.readFRU(ctx)
	if fruErr != nil {
		return bmc.Inventory{}, fruErr
	}
	inventory.Manufacturer, inventory.Model, inventory.SerialNumber = f.manufacturer, f.model, f.serial
	if err == nil {
		inventory.BMCFirmwareVersion = firmwareOf(device)
		if inventory.Manufacturer == "" {
			inventory.Manufacturer = vendorOf(device, f)
		}
	}
	guid := &app.GetSystemGUIDResponse{}
	if err := ignoreOptional(c.do(ctx, "Read the system GUID", &app.GetSystemGUIDRequest{}, guid)); err != nil {
		return bmc.Inventory{}, err
	}
	inventory.SystemUUID = systemUUID(guid.GUID)
	inventory.SetFact(fact(bmc.FactSerialNumber, inventory.SerialNumber, "FRU 0"))
	inventory.SetFact(fact(bmc.FactSystemUUID, inventory.SystemUUID, "Get System GUID"))
	inventory.SetFact(fact(bmc.FactBMCFirmwareVersion, inventory.BMCFirmwareVersion, "Get Device ID"))
	inventory.SetNotOffered("IPMI does not offer it")
	return inventory, nil
}

// fact is Known if the value is not empty. source is the command that reads it.
func fact(name bmc.FactName, value, source string) bmc.Fact {
	f := bmc.Fact{Name: name, State: bmc.FactKnown, Source: source}
	if value == "" {
		f.State, f.Message = bmc.FactUnknown, "the BMC does not have it, or its value is invalid"
	}
	return f
}

// systemUUID converts the response to Get System GUID (IPMI 2.0, 22.14) to the UUID that the firmware reports, or to "" if the byte
// order is ambiguous.
//
// BMCs send it in three byte orders and do not report which (ipmitool#25, ipmitool#239): that of IPMI (20.8), with the last byte first;
// that of the SMBIOS table, with the first three fields little-endian; or that of RFC 4122. A UUID contains a version from 1 to 5 and
// the variant 10b, at positions that differ between the orders:
//
//   - The orders of IPMI and SMBIOS exclude each other: the byte of the version in one is the byte of the variant in the other, and no
//     byte is both.
//   - The orders of SMBIOS and RFC 4122 have the same position of the variant, and both fit by chance in a third of the cases. SMBIOS is
//     more common and wins, unless only RFC 4122 gives version 4, which is the most common version.
//
// A GUID that fits no order is omitted, because a wrong UUID is worse than no UUID. The UUIDs of some vendors do not follow RFC 4122.
func systemUUID(guid [16]byte) string {
	reversed := guid
	slices.Reverse(reversed[:])
	var fits [][16]byte
	for _, candidate := range [][16]byte{swapFields(guid), reversed, guid} {
		if v := versionOf(candidate); candidate[8]>>6 == 0b10 && v >= 1 && v <= 5 {
			fits = append(fits, candidate)
		}
	}
	if len(fits) == 0 {
		return ""
	}
	u := fits[0]
	if i := slices.IndexFunc(fits, func(u [16]byte) bool { return versionOf(u) == 4 }); i > 0 {
		u = fits[i]
	}
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}

// versionOf returns the version of a UUID in the byte order of RFC 4122.
func versionOf(u [16]byte) uint8 { return u[6] >> 4 }

// swapFields reverses the bytes of the first three fields of a UUID, which are little-endian in SMBIOS (DSP0134, 7.2.1).
func swapFields(guid [16]byte) (u [16]byte) {
	u = guid
	binary.BigEndian.PutUint32(u[0:], binary.LittleEndian.Uint32(guid[0:]))
	binary.BigEndian.PutUint16(u[4:], binary.LittleEndian.Uint16(guid[4:]))
	binary.BigEndian.PutUint16(u[6:], binary.LittleEndian.Uint16(guid[6:]))
	return u
}
