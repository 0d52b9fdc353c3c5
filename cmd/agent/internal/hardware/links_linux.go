package hardware

import (
	"fmt"

	"github.com/safchain/ethtool"
)

// Drivers asks network drivers by ethtool's ioctls.
type Drivers struct{}

// Link implements Links.
func (Drivers) Link(name string) (Link, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return Link{}, fmt.Errorf("ethtool: %w", err)
	}
	defer tool.Close()
	info, err := tool.DriverInfo(name)
	if err != nil {
		return Link{}, fmt.Errorf("ethtool: driver information: %w", err)
	}
	link := Link{Driver: info.Driver, Firmware: info.FwVersion}
	// Not every driver knows the permanent address, such as that of a tap. The current one is taken then.
	if address, err := tool.PermAddr(name); err == nil && address != "00:00:00:00:00:00" {
		link.PermanentMAC = address
	}
	return link, nil
}
