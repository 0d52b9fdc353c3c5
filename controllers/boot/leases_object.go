package boot

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// A Lease object is one address that DHCP leased to a server. Its name is the address, so that the API server lets only one boot
// server create it. Its holder has the address until the object has a duration: then the address has been released, and no host
// gets it before the duration has passed since renewTime.

// NetworkLabel is on the Lease objects of DHCP, and on no others. Its value is the network's name.
const NetworkLabel = "infrastructure.cluster.x-k8s.io/dhcp-network"

// leaseIndex finds the Lease objects of a MAC address.
const leaseIndex = "spec.holderIdentity.mac"

// LeaseSelector selects the Lease objects of DHCP, and not those of leader elections.
func LeaseSelector() labels.Selector {
	has, err := labels.NewRequirement(NetworkLabel, selection.Exists, nil)
	if err != nil {
		panic(err) // the label is a constant
	}
	return labels.NewSelector().Add(*has)
}

// IndexLeases adds the index of Lease objects that a Booter needs.
func IndexLeases(ctx context.Context, indexer client.FieldIndexer) error {
	return indexer.IndexField(ctx, &coordinationv1.Lease{}, leaseIndex, func(o client.Object) []string {
		lease := o.(*coordinationv1.Lease) //nolint:forcetypeassert // the index is of Leases
		return []string{parseHolder(ptr.Deref(lease.Spec.HolderIdentity, "")).mac}
	})
}

// holder identifies a host with one of its MAC addresses. The UID distinguishes the host from a later one of the same name: a holder that
// is gone never comes back.
type holder struct {
	host types.NamespacedName
	mac  string
	uid  string
}

func holderOf(host *v1alpha1.BareMetalHost, mac string) holder {
	return holder{client.ObjectKeyFromObject(host), mac, string(host.UID)}
}

// firstMAC returns the first boot MAC address of a host, for texts and for what needs any of them; empty without one.
func firstMAC(host *v1alpha1.BareMetalHost) string {
	if len(host.Spec.BootMACAddresses) == 0 {
		return ""
	}
	return host.Spec.BootMACAddresses[0]
}

// has is true for the Lease object of an address that the holder has.
func (h holder) has(l *coordinationv1.Lease) bool {
	return !isReleased(l) && ptr.Deref(l.Spec.HolderIdentity, "") == h.String()
}

func (h holder) String() string { return h.host.String() + "/" + h.mac + "/" + h.uid }

// parseHolder returns an empty holder for an identity that this provider did not write.
func parseHolder(identity string) holder {
	parts := strings.Split(identity, "/")
	if len(parts) != 4 {
		return holder{}
	}
	return holder{types.NamespacedName{Namespace: parts[0], Name: parts[1]}, parts[2], parts[3]}
}

// leaseName names the Lease object of an address. IPv6 is written in full, so that a name has one address.
func leaseName(a netip.Addr) string {
	return "dhcp-" + strings.NewReplacer(".", "-", ":", "-").Replace(a.StringExpanded())
}

// leaseAddress is the reverse of leaseName. It returns an invalid address for other names.
func leaseAddress(name string) netip.Addr {
	groups := strings.Split(strings.TrimPrefix(name, "dhcp-"), "-")
	separator := ":"
	if len(groups) == 4 {
		separator = "."
	}
	a, err := netip.ParseAddr(strings.Join(groups, separator))
	if err != nil || leaseName(a) != name {
		return netip.Addr{}
	}
	return a
}

// probationEnd returns when the probation of a released address ends. It is the zero time for an address with a holder.
func probationEnd(l *coordinationv1.Lease) time.Time {
	if l.Spec.LeaseDurationSeconds == nil || l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
}

// isReleased is true for an address without a holder, on probation or not.
func isReleased(l *coordinationv1.Lease) bool { return !probationEnd(l).IsZero() }

// onProbation is true for an address that no host gets at present.
func onProbation(l *coordinationv1.Lease) bool { return time.Now().Before(probationEnd(l)) }

// release takes an address from its holder. No host gets it before the probation has passed.
func release(l *coordinationv1.Lease, duration time.Duration) {
	l.Spec.RenewTime = new(metav1.NowMicro())
	l.Spec.LeaseDurationSeconds = new(int32(duration / time.Second)) //nolint:gosec // a day at most
}

// setHolder makes a host the holder of an address.
func setHolder(l *coordinationv1.Lease, to holder, network string) {
	if l.Labels == nil {
		l.Labels = map[string]string{}
	}
	l.Labels[NetworkLabel] = network
	if l.Spec.HolderIdentity != nil {
		l.Spec.LeaseTransitions = new(ptr.Deref(l.Spec.LeaseTransitions, 0) + 1)
	}
	l.Spec.HolderIdentity = new(to.String())
	l.Spec.AcquireTime = new(metav1.NowMicro())
	l.Spec.RenewTime, l.Spec.LeaseDurationSeconds = nil, nil
}

// addressError is the reason why a host gets no address. An operator has to fix it, so the host shows it.
type addressError string

func (e addressError) Error() string { return string(e) }

func isAddressError(err error) bool {
	var e addressError
	return errors.As(err, &e)
}
