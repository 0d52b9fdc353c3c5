package bmc_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

func TestMissingForNetworkBoot(t *testing.T) {
	g := NewWithT(t)
	power := []bmc.Capability{bmc.CanForceOff, bmc.CanPowerOn}
	g.Expect(bmc.MissingForNetworkBoot(nil)).To(Equal([]bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff, bmc.CanBootPXE}))
	g.Expect(bmc.MissingForNetworkBoot(power)).To(Equal([]bmc.Capability{bmc.CanBootPXE}))
	g.Expect(bmc.MissingForNetworkBoot(append(power, bmc.CanBootPXE))).To(BeEmpty())
	g.Expect(bmc.MissingForNetworkBoot(append(power, bmc.CanBootHTTP))).To(BeEmpty(), "either will do")
}
