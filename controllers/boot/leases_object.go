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

// A Lease object stands for one address that DHCP gave to a server. It is named by the address, so that the API server lets
// only one boot server create it. Its holder has the address until the object says that it is withheld: then it has a
// duration, and nobody gets the address before that has passed since renewTime.

// NetworkLabel is on the Lease objects of DHCP, and on no others. Its value is the network's name.
const NetworkLabel = "infrastructure.cluster.x-k8s.io/dhcp-network"

// leaseIndex finds the Lease objects of a MAC address.
const leaseIndex = "spec.holderIdentity.mac"

// LeaseSelector selects the Lease objects of DHCP. Those of leader elections are not among them.
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

// holder is who has an address: a host with a MAC address. The UID tells the host from a later one of the same name: so a
// holder that is gone never comes back.
type holder struct {
	host types.NamespacedName
	mac  string
	uid  string
}

func holderOf(host *v1alpha1.BareMetalHost) holder {
	return holder{client.ObjectKeyFromObject(host), host.Spec.BootMACAddress, string(host.UID)}
}

func (h holder) String() string { return h.host.String() + "/" + h.mac + "/" + h.uid }

// parseHolder returns an empty holder for what none wrote.
func parseHolder(identity string) holder {
	parts := strings.Split(identity, "/")
	if len(parts) != 4 {
		return holder{}
	}
	return holder{types.NamespacedName{Namespace: parts[0], Name: parts[1]}, parts[2], parts[3]}
}

// leaseName names the object of an address. IPv6 is written in full: so a name has one address.
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

// withheldUntil returns until when an address is given to nobody. It is the zero time for one that somebody has.
func withheldUntil(l *coordinationv1.Lease) time.Time {
	if l.Spec.LeaseDurationSeconds == nil || l.Spec.RenewTime == nil {
		return time.Time{}
	}
	return l.Spec.RenewTime.Add(time.Duration(*l.Spec.LeaseDurationSeconds) * time.Second)
}

// withheld is true for an address that nobody has, whether or not its time has passed.
func withheld(l *coordinationv1.Lease) bool { return !withheldUntil(l).IsZero() }

// withheldNow is true for an address that nobody gets.
func withheldNow(l *coordinationv1.Lease) bool { return time.Now().Before(withheldUntil(l)) }

// withhold takes an address from its holder, and gives it to nobody for a while.
func withhold(l *coordinationv1.Lease, duration time.Duration) {
	l.Spec.RenewTime = new(metav1.NowMicro())
	l.Spec.LeaseDurationSeconds = new(int32(duration / time.Second)) //nolint:gosec // a day at most
}

// give makes somebody the holder of an address.
func give(l *coordinationv1.Lease, to holder, network string) {
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

// addressError is why a host gets no address. A person must mend it: it is told on the host.
type addressError string

func (e addressError) Error() string { return string(e) }

func isAddressError(err error) bool {
	var e addressError
	return errors.As(err, &e)
}
