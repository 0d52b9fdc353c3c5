package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Group counts the hosts that have something in common.
type Group struct {
	// Name is what they have in common: the failure domain, the cluster, the phase or the health. It is empty if they do not have it.
	Name  string `json:"name"`
	Hosts int    `json:"hosts"`
	// InUse is the number of hosts that a machine has, and Available the number of those that a machine can claim.
	InUse     int `json:"inUse"`
	Available int `json:"available"`
	// NeedAction is the number of hosts for which a person has to act.
	NeedAction int `json:"needAction"`
	// Unhealthy is the number of hosts whose BMC reports a health other than OK.
	Unhealthy int `json:"unhealthy"`
}

// keys return what hosts have in common.
var keys = map[string]func(*Row) string{
	"domain": func(r *Row) string { return r.Domain }, "cluster": func(r *Row) string { return r.Cluster },
	"phase": func(r *Row) string { return r.Phase }, "health": func(r *Row) string { return r.Health },
}

// Keys are the names by which hosts can be grouped.
func Keys() []string { return slices.Sorted(maps.Keys(keys)) }

// Groups counts the hosts by a key, which is one of Keys. Machines without a host do not count. The group with the most hosts that need action comes first; groups with the
// same number are in the order of their names.
func Groups(rows []Row, key string) ([]Group, error) {
	of, ok := keys[key]
	if !ok {
		return nil, fmt.Errorf("hosts cannot be grouped by %q: use one of %v", key, Keys())
	}
	byName := map[string]*Group{}
	for i := range rows {
		r := &rows[i]
		if r.Kind != why.KindHost {
			continue
		}
		name := of(r)
		g := byName[name]
		if g == nil {
			g = &Group{Name: name}
			byName[name] = g
		}
		g.count(r)
	}
	groups := make([]Group, 0, len(byName))
	for _, g := range byName {
		groups = append(groups, *g)
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.NeedAction, a.NeedAction), cmp.Compare(a.Name, b.Name))
	})
	return groups, nil
}

// Total counts all hosts.
func Total(rows []Row) Group {
	var g Group
	for i := range rows {
		if rows[i].Kind == why.KindHost {
			g.count(&rows[i])
		}
	}
	return g
}

func (g *Group) count(r *Row) {
	g.Hosts++
	if r.Machine != "" {
		g.InUse++
	}
	if r.Phase == string(v1alpha1.PhaseAvailable) {
		g.Available++
	}
	if r.NeedsAction {
		g.NeedAction++
	}
	if r.Unhealthy() {
		g.Unhealthy++
	}
}
