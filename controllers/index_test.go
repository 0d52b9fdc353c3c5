package controllers

import (
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestSameServer: which addresses may name the same server.
func TestSameServer(t *testing.T) {
	host := func(address string) *v1alpha1.BareMetalHost {
		h := &v1alpha1.BareMetalHost{}
		h.Spec.BMC.Address = address
		return h
	}
	for _, c := range []struct {
		one, other string
		same       bool
	}{
		{"redfish://10.0.0.1", "redfish://10.0.0.1/", true},
		{"redfish://10.0.0.1", "redfish://10.0.0.1:443/redfish/v1/Systems/1", true},
		{"redfish://10.0.0.1/redfish/v1/Systems/1", "redfish+http://10.0.0.1/redfish/v1/Systems/1/", true},
		{"redfish://10.0.0.1/redfish/v1/Systems/1", "ipmi://10.0.0.1", true},
		{"redfish://BMC-1.example", "ipmi://bmc-1.example:623", true},
		{"redfish://[fd00::1]/redfish/v1/Systems/1?auth=session", "ipmi://[FD00::1]", true},
		{"redfish://10.0.0.1/redfish/v1/Systems/1", "redfish://10.0.0.1/redfish/v1/Systems/2", false},
		{"redfish://10.0.0.1", "redfish://[::ffff:10.0.0.1]", true},
		{"redfish://[2001:db8::7]", "redfish://[2001:db8:0:0::7]:443", true},
		{"redfish://bmc-1.example", "redfish://bmc-1.example.", true},
		{"redfish://10.0.0.1", "redfish://10.0.0.2", false},
		{"ipmi://10.0.0.1:6230", "ipmi://10.0.0.1:6231", false},
		{"rpc+https://hook.example/rpc?host=a", "rpc+https://hook.example/rpc?host=b", false},
		{"rpc+https://hook.example/rpc?host=a", "rpc+https://HOOK.example/rpc?host=a", true},
	} {
		one, other := host(c.one), host(c.other)
		if same := BMCOf(one) == BMCOf(other) && SameServer(one, other); same != c.same {
			t.Errorf("%s and %s: %t", c.one, c.other, same)
		}
	}
}
