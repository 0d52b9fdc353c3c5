package bmctest_test

import (
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// TestFake: the fake passes the conformance suite.
func TestFake(t *testing.T) {
	fake := &bmctest.Fake{}
	bmctest.Test(t, bmctest.Subject{
		Open: fake.Open, SkipWrongPassword: true, Boots: true, Image: "http://192.0.2.1/image.iso",
		Must: []bmc.Capability{bmc.CanBootPXE, bmc.CanCycle, bmc.CanVirtualMedia},
	})
	if open := fake.Opened(); open != 0 {
		t.Errorf("%d connections were left open", open)
	}
}
