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

// IdentityOf returns what identifies the server of a host. hardware is its inventory, or nil.
func IdentityOf(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) v1alpha1.HostIdentity {
	identity := v1alpha1.HostIdentity{BootMACAddress: host.Spec.BootMACAddress, BMC: systemAt(host)}
	if _, shared := host.Annotations[v1alpha1.SharedHardwareAnnotation]; !shared {
		identity.Hardware = HardwareIdentity(hardware)
	}
	return identity
}

// HardwareIdentity stands for the system UUID and the serial number of a server. It is empty unless both are known.
func HardwareIdentity(hardware *v1alpha1.Hardware) string {
	if hardware == nil || hardware.SerialNumber == "" || inventory.HardwareID(hardware.SystemUUID) == "" {
		return ""
	}
	return inventory.Fingerprint(hardware.SystemUUID, hardware.SerialNumber)
}

// mostSystem bounds what identifies a BMC in a status.
const mostSystem = 256

// systemAt returns what identifies the system behind the BMC of a host, shortened where the status has no room for it.
func systemAt(host *v1alpha1.BareMetalHost) string {
	system := BMCOf(host) + systemOf(host)
	if len(system) <= mostSystem {
		return system
	}
	sum := sha256.Sum256([]byte(system))
	return hex.EncodeToString(sum[:])
}

// IdentityConflict is about something that identifies the server of a host and may be that of other hosts too. One of them keeps it.
type IdentityConflict struct {
	host         *v1alpha1.BareMetalHost
	index, value string
	same         func(other *v1alpha1.BareMetalHost) bool
	part         func(v1alpha1.HostIdentity) string
	hardware     *v1alpha1.Hardware // that of host
	tenants      bootconfig.Tenants
}

// Permitted returns why the tenants of the configuration do not permit a host what identifies its server; nil if they do.
func Permitted(tenants bootconfig.Tenants, host *v1alpha1.BareMetalHost) error {
	address, err := url.Parse(host.Spec.BMC.Address)
	if err != nil {
		return nil //nolint:nilerr // the BMC's condition reports an address that is no URL, and nothing connects to it
	}
	return tenants.CheckHost(host.Namespace, host.Spec.BootMACAddress, address.Hostname())
}

// Among returns the rivalry without the hosts whose namespaces may not have what they have.
func (r IdentityConflict) Among(tenants bootconfig.Tenants) IdentityConflict {
	r.tenants = tenants
	return r
}

// MACRivalry is about a host's boot MAC address.
func MACRivalry(host *v1alpha1.BareMetalHost) IdentityConflict {
	return IdentityConflict{
		host: host, index: MACIndex, value: host.Spec.BootMACAddress,
		same: func(*v1alpha1.BareMetalHost) bool { return true },
		part: func(i v1alpha1.HostIdentity) string { return i.BootMACAddress },
	}
}

// BMCRivalry is about a host's BMC: a command to one host would be obeyed by the server of both.
func BMCRivalry(host *v1alpha1.BareMetalHost) IdentityConflict {
	return IdentityConflict{
		host: host, index: BMCIndex, value: BMCOf(host),
		same: func(other *v1alpha1.BareMetalHost) bool { return SameServer(host, other) },
		part: func(i v1alpha1.HostIdentity) string { return i.BMC },
	}
}

// HardwareRivalry is about the system UUID and the serial number that a host's BMC reports: it may be one server with two addresses. hardware is the inventory of
// the host. Hosts of which a person said that their boards share both with others take no part.
func HardwareRivalry(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) IdentityConflict {
	r := IdentityConflict{host: host, index: HardwareIndex, hardware: hardware, part: func(i v1alpha1.HostIdentity) string { return i.Hardware }}
	own := IdentityOf(host, hardware).Hardware
	if own != "" {
		r.value = inventory.HardwareID(hardware.SystemUUID)
	}
	r.same = func(other *v1alpha1.BareMetalHost) bool {
		return IdentityOf(other, other.Status.Hardware).Hardware == own
	}
	return r
}

// Keeper returns the other host that keeps what both have; nil if there is none. It must not be changed.
func (r IdentityConflict) Keeper(ctx context.Context, c client.Reader) (*v1alpha1.BareMetalHost, error) {
	if r.value == "" {
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	hosts, err := HostsWith(ctx, c, r.index, r.value)
	if err != nil || len(hosts) == 0 || len(hosts) == 1 && sameObject(&hosts[0], r.host) {
		return nil, err
	}
	first, err := r.standing(ctx, c, r.host, r.hardware)
	if err != nil {
		return nil, err
	}
	var keeper *v1alpha1.BareMetalHost
	for i := range hosts {
		other := &hosts[i]
		if sameObject(other, r.host) || !r.same(other) || Permitted(r.tenants, other) != nil {
			continue
		}
		s, err := r.standing(ctx, c, other, other.Status.Hardware)
		if err != nil {
			return nil, err
		}
		if s.compare(first) < 0 {
			keeper, first = other, s
		}
	}
	return keeper, nil
}

// KeeperOfMAC returns the host that keeps a MAC address; nil if no host that may use it has it. It must not be changed.
func KeeperOfMAC(ctx context.Context, c client.Reader, tenants bootconfig.Tenants, mac string) (*v1alpha1.BareMetalHost, error) {
	hosts, err := HostsWith(ctx, c, MACIndex, mac)
	hosts = slices.DeleteFunc(hosts, func(h v1alpha1.BareMetalHost) bool { return Permitted(tenants, &h) != nil })
	if err != nil || len(hosts) == 0 {
		return nil, err
	}
	keeper, err := MACRivalry(&hosts[0]).Among(tenants).Keeper(ctx, c)
	if keeper == nil {
		keeper = &hosts[0]
	}
	return keeper, err
}

// HostsWith returns the hosts of the cache with a value of an index, which must not be changed.
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

// standing is what decides whether a host keeps what others have too. The API server or the provider writes all of it: a user gains no precedence by what is
// written to a host.
type standing struct {
	booted   bool // the server was booted, with what is shared, for the machine that has the host
	accepted bool // the provider accepted what is shared as this host's
	created  int64
	host     types.NamespacedName
}

func (r IdentityConflict) standing(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) (standing, error) {
	s := standing{host: client.ObjectKeyFromObject(host), created: host.CreationTimestamp.Unix()}
	wanted := r.part(IdentityOf(host, hardware))
	s.accepted = host.Status.Identity != nil && r.part(*host.Status.Identity) == wanted
	if host.Spec.ConsumerRef == nil {
		return s, nil
	}
	boot, err := GetBoot(ctx, c, s.host)
	if boot != nil && boot.Spec.Identity != nil {
		s.booted = lifecycle.IsOpen(&boot.Spec) && boot.Spec.ClaimID == host.Spec.ConsumerRef.ClaimID && r.part(*boot.Spec.Identity) == wanted
	}
	return s, err
}

// compare is negative if s keeps what o has too. No two hosts are equal.
func (s standing) compare(o standing) int {
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

// NameFor names a host in a message to those who can read a namespace. They may not be able to read the namespace of the host.
func NameFor(namespace string, host types.NamespacedName) string {
	if host.Namespace != namespace {
		return "a host of another namespace"
	}
	return "host " + host.Name
}
