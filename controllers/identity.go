package controllers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// IdentityOf returns what identifies the server of a host. hardware is the inventory of the host, or nil.
func IdentityOf(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) v1alpha1.HostIdentity {
	identity := v1alpha1.HostIdentity{BootMACAddresses: host.Spec.BootMACAddresses, BMC: bmcIdentity(host)}
	if _, shared := host.Annotations[v1alpha1.SharedHardwareAnnotation]; !shared {
		identity.Hardware = HardwareIdentity(hardware)
	}
	return identity
}

// HardwareIdentity returns a fingerprint of the system UUID and the serial number of a server. It is empty unless both are known.
func HardwareIdentity(hardware *v1alpha1.Hardware) string {
	if hardware == nil || hardware.SerialNumber == "" || inventory.HardwareID(hardware.SystemUUID) == "" {
		return ""
	}
	return inventory.Fingerprint(hardware.SystemUUID, hardware.SerialNumber)
}

// maxBMCIdentity is the maximum length of the BMC identity in a status.
const maxBMCIdentity = 256

// bmcIdentity returns what identifies the system behind the BMC of a host. A value that does not fit the status is hashed.
func bmcIdentity(host *v1alpha1.BareMetalHost) string {
	system := BMCOf(host) + systemPath(host)
	if len(system) <= maxBMCIdentity {
		return system
	}
	sum := sha256.Sum256([]byte(system))
	return hex.EncodeToString(sum[:])
}

// IdentityConflict is one value that identifies the server of a host: one of its boot MAC addresses, its BMC or its hardware. Other hosts may have the same
// value; at most one of them keeps it (docs/decisions/0005-who-keeps-an-identity.md).
type IdentityConflict struct {
	host         *v1alpha1.BareMetalHost
	index, value string
	sharedWith   func(other *v1alpha1.BareMetalHost) bool
	same         func(recorded, current v1alpha1.HostIdentity) bool // whether a recorded identity has the value that the host has now
	hardware     *v1alpha1.Hardware                                 // the inventory of host
	tenants      bootconfig.Tenants
}

// CheckPermitted returns an error if the tenants of the configuration do not permit the boot MAC address or the BMC of a host.
func CheckPermitted(tenants bootconfig.Tenants, host *v1alpha1.BareMetalHost) error {
	address, err := url.Parse(host.Spec.BMC.Address)
	if err != nil {
		return nil //nolint:nilerr // the condition BMCReady reports an invalid address, and nothing connects to it
	}
	return tenants.CheckHost(host.Namespace, host.Spec.BootMACAddresses, address.Hostname())
}

// PermittedBy returns the conflict without the hosts whose namespaces the tenants do not permit to have the value.
func (r IdentityConflict) PermittedBy(tenants bootconfig.Tenants) IdentityConflict {
	r.tenants = tenants
	return r
}

// MACConflict is the conflict over one of the boot MAC addresses of a host.
func MACConflict(host *v1alpha1.BareMetalHost, mac string) IdentityConflict {
	return IdentityConflict{
		host: host, index: MACIndex, value: mac,
		sharedWith: func(*v1alpha1.BareMetalHost) bool { return true },
		same:       func(recorded, _ v1alpha1.HostIdentity) bool { return slices.Contains(recorded.BootMACAddresses, mac) },
	}
}

// BMCConflict is the conflict over the BMC of a host: the server of both hosts would obey a command to one of them.
func BMCConflict(host *v1alpha1.BareMetalHost) IdentityConflict {
	return IdentityConflict{
		host: host, index: BMCIndex, value: BMCOf(host),
		sharedWith: func(other *v1alpha1.BareMetalHost) bool { return SameServer(host, other) },
		same:       func(recorded, current v1alpha1.HostIdentity) bool { return recorded.BMC == current.BMC },
	}
}

// HardwareConflict is the conflict over the system UUID and the serial number that the BMC of a host reports: the hosts may be one server with two
// addresses. hardware is the inventory of the host. Hosts with the annotation for shared hardware take no part.
func HardwareConflict(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) IdentityConflict {
	r := IdentityConflict{host: host, index: HardwareIndex, hardware: hardware}
	r.same = func(recorded, current v1alpha1.HostIdentity) bool { return recorded.Hardware == current.Hardware }
	own := IdentityOf(host, hardware).Hardware
	if own != "" {
		r.value = inventory.HardwareID(hardware.SystemUUID)
	}
	r.sharedWith = func(other *v1alpha1.BareMetalHost) bool {
		return IdentityOf(other, other.Status.Hardware).Hardware == own
	}
	return r
}

// Keeper returns the other host that keeps the value, nil if there is none. The host must not be changed.
func (r IdentityConflict) Keeper(ctx context.Context, c client.Reader) (*v1alpha1.BareMetalHost, error) {
	if r.value == "" {
		return nil, nil //nolint:nilnil // no keeper is a valid answer
	}
	hosts, err := HostsWith(ctx, c, r.index, r.value)
	if err != nil || len(hosts) == 0 || len(hosts) == 1 && sameObject(&hosts[0], r.host) {
		return nil, err
	}
	first, err := r.precedenceOf(ctx, c, r.host, r.hardware)
	if err != nil {
		return nil, err
	}
	var keeper *v1alpha1.BareMetalHost
	for i := range hosts {
		other := &hosts[i]
		if sameObject(other, r.host) || !r.sharedWith(other) || CheckPermitted(r.tenants, other) != nil {
			continue
		}
		s, err := r.precedenceOf(ctx, c, other, other.Status.Hardware)
		if err != nil {
			return nil, err
		}
		if s.compare(first) < 0 {
			keeper, first = other, s
		}
	}
	return keeper, nil
}

// KeeperOfMAC returns the host that keeps a MAC address, nil if no permitted host has it. The host must not be changed.
func KeeperOfMAC(ctx context.Context, c client.Reader, tenants bootconfig.Tenants, mac string) (*v1alpha1.BareMetalHost, error) {
	hosts, err := HostsWith(ctx, c, MACIndex, mac)
	hosts = slices.DeleteFunc(hosts, func(h v1alpha1.BareMetalHost) bool { return CheckPermitted(tenants, &h) != nil })
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	keeper, err := MACConflict(&hosts[0], mac).PermittedBy(tenants).Keeper(ctx, c)
	if keeper == nil {
		keeper = &hosts[0]
	}
	return keeper, err
}

// HostsWith returns the hosts of the cache that have a value of an index. The hosts must not be changed.
func HostsWith(ctx context.Context, c client.Reader, index, value string) ([]v1alpha1.BareMetalHost, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := c.List(ctx, &hosts, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the hosts with the same %s: %w", index, err)
	}
	return hosts.Items, nil
}

func sameObject(a, b client.Object) bool {
	return client.ObjectKeyFromObject(a) == client.ObjectKeyFromObject(b)
}

// precedence decides whether a host keeps a value that other hosts have too. Only the API server and the provider write what it is made of, so a user
// gains no precedence by writing to a host.
type precedence struct {
	booted   bool // the server was booted with the value for the current machine of the host
	accepted bool // the provider accepted the value for this host
	created  int64
	host     types.NamespacedName
}

func (r IdentityConflict) precedenceOf(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) (precedence, error) {
	s := precedence{host: client.ObjectKeyFromObject(host), created: host.CreationTimestamp.Unix()}
	current := IdentityOf(host, hardware)
	s.accepted = host.Status.Identity != nil && r.same(*host.Status.Identity, current)
	if host.Spec.ConsumerRef == nil {
		return s, nil
	}
	boot, err := GetBoot(ctx, c, s.host)
	if boot != nil && boot.Spec.Identity != nil {
		s.booted = lifecycle.IsOpen(&boot.Spec) && boot.Spec.ClaimID == host.Spec.ConsumerRef.ClaimID && r.same(*boot.Spec.Identity, current)
	}
	return s, err
}

// compare is negative if s keeps the value that o has too. No two hosts are equal.
func (s precedence) compare(o precedence) int {
	return cmp.Or(compareFlags(s.booted, o.booted), compareFlags(s.accepted, o.accepted),
		cmp.Compare(s.created, o.created), cmp.Compare(s.host.String(), o.host.String()))
}

// compareFlags is negative if a is set and b is not.
func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}
