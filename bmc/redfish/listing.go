package redfish

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// listing is a collection with its members, as far as they could be read.
type listing struct {
	// source is the path of the collection; empty if the BMC does not offer it.
	source  string
	members []resource
	// total counts the members that the collection lists.
	total int
	// err is the error of reading the collection.
	err error
	// inconclusive is true if the members do not prove that there is no such part.
	inconclusive bool
}

// list reads a collection and its members. A path of "" means that the BMC does not offer it.
func (s *service) list(ctx context.Context, path string) listing {
	l := listing{source: path}
	if path == "" {
		return l
	}
	paths, inline, err := s.collection(ctx, path)
	l.members, l.total, l.err = s.readAll(ctx, paths), len(unique(paths)), err
	for _, member := range inline { // some services contain members in full, and do not have them at their own paths
		path := member.link("@odata.id")
		if len(l.members) < l.total && !slices.ContainsFunc(l.members, func(r resource) bool { return r.link("@odata.id") == path }) {
			l.members = append(l.members, member)
		}
	}
	return l
}

// isRead is true if the collection and each of its members was read.
func (l listing) isRead() bool { return l.source != "" && l.err == nil && len(l.members) == l.total }

// complete is true if it was read, and if its members prove that there are no others.
func (l listing) complete() bool { return l.isRead() && !l.inconclusive }

// and adds another listing of parts of the same kind.
func (l listing) and(other listing) listing {
	if l.source == "" || len(l.members) == 0 && len(other.members) > 0 {
		l.source = cmp.Or(other.source, l.source)
	}
	l.members, l.total = append(l.members, other.members...), l.total+other.total
	l.err, l.inconclusive = cmp.Or(l.err, other.err), l.inconclusive || other.inconclusive
	return l
}

// fact returns the state of the fact, given the number of parts in the listing. It is Absent if every slot for a part is empty.
func (l listing) fact(parts int) bmc.Fact {
	fact := bmc.Fact{State: bmc.FactKnown, Source: l.source}
	unread := l.total - len(l.members)
	occupied := slices.ContainsFunc(l.members, func(r resource) bool { return !isAbsent(r) })
	switch {
	case parts > 0 && unread > 0:
		fact.Message = fmt.Sprintf("%d of %d resources could not be read", unread, l.total)
	case parts > 0 && l.err != nil:
		fact.Message = wrap("Read "+l.source, l.err).Error() // there may be others
	case parts > 0:
	case l.complete() && !occupied:
		fact.State = bmc.FactAbsent
	default:
		fact.State, fact.Message = bmc.FactUnknown, l.reason()
	}
	return fact
}

// reason is the message of an unknown fact.
func (l listing) reason() string {
	switch {
	case l.source == "":
		return "the BMC does not offer it"
	case l.err != nil:
		return wrap("Read "+l.source, l.err).Error()
	case len(l.members) < l.total:
		return fmt.Sprintf("%d of %d resources could not be read", l.total-len(l.members), l.total)
	default:
		return "the resources that the BMC lists contain too little information"
	}
}
