package redfish

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// chassis reads the chassis that contain the system.
func (c *conn) chassis(ctx context.Context) []resource {
	collection := cmp.Or(c.root.link("Chassis"), "/redfish/v1/Chassis")
	paths := c.system.links("Links", "Chassis")
	if len(paths) == 0 || c.cache != nil && c.expand.query != "" {
		all, _, _ := c.collection(ctx, collection) // with $expand, one request reads all chassis
		if len(paths) == 0 {
			return slices.DeleteFunc(c.readAll(ctx, all), func(box resource) bool { return c.belongsToOthers(box) })
		}
	}
	return c.readAll(ctx, paths)
}

// belongsToOthers is true for a chassis that contains only other systems.
func (c *conn) belongsToOthers(box resource) bool {
	systems := box.links("Links", "ComputerSystems")
	return len(systems) > 0 && !slices.Contains(systems, c.path)
}

// maxChassis limits the number of chassis whose parts are read. A server with accelerators has some dozens.
const maxChassis = 64

// readOwnChassis reads the chassis that contain only this system: those that it links to, and the chassis inside them. It omits chassis
// that the system shares with other systems.
func (n *inspection) readOwnChassis(ctx context.Context) []resource {
	if n.ownChassis != nil {
		return n.ownChassis
	}
	n.ownChassis = []resource{}
	linked := n.withBackLinks(ctx, n.chassis(ctx))
	if paths := n.system.links("Links", "Chassis"); len(paths) > len(linked) {
		n.unreadChassis = listing{source: paths[0], err: errors.New("the chassis cannot be read")}
	}
	named := len(n.system.links("Links", "Chassis")) > 0
	seen := map[string]bool{}
	for queue := linked; len(queue) > 0 && len(seen) < maxChassis; queue = queue[1:] {
		box := queue[0]
		path := box.link("@odata.id")
		if seen[path] {
			continue
		}
		seen[path] = true
		inner := n.readAll(ctx, box.links("Links", "Contains"))
		systems := box.links("Links", "ComputerSystems")
		shared := !named && len(systems) == 0 || slices.ContainsFunc(systems, func(s string) bool { return s != n.path }) || slices.ContainsFunc(inner, n.belongsToOthers)
		if shared && !n.isOnlyServer(ctx) {
			continue
		}
		n.ownChassis, queue = append(n.ownChassis, box), append(queue, inner...)
	}
	return n.ownChassis
}

// withBackLinks adds the chassis that link to this system, although the system does not link to them.
func (n *inspection) withBackLinks(ctx context.Context, linked []resource) []resource {
	if len(n.system.links("Links", "Chassis")) == 0 {
		return linked // all chassis were read
	}
	paths, _, _ := n.collection(ctx, cmp.Or(n.root.link("Chassis"), "/redfish/v1/Chassis")) // after an error, the list is empty
	paths = paths[:min(len(paths), maxChassis)]
	all := n.readAll(ctx, paths)
	if len(all) < len(unique(paths)) && n.unreadChassis.source == "" {
		n.unreadChassis = listing{source: paths[0], err: errors.New("a chassis cannot be read")}
	}
	for _, box := range all {
		isKnown := slices.ContainsFunc(linked, func(r resource) bool { return r.link("@odata.id") == box.link("@odata.id") })
		if !isKnown && slices.Contains(box.links("Links", "ComputerSystems"), n.path) {
			linked = append(linked, box)
		}
	}
	return linked
}

// isOnlyServer is true if the BMC manages no other server.
func (n *inspection) isOnlyServer(ctx context.Context) bool {
	if n.onlyServer == nil {
		only := n.onlySystemListed
		if !only {
			servers, err := n.servers(ctx)
			known := err == nil || bmc.KindOf(err) == bmc.NotFound // a server that could not be read may be another one
			only = known && (len(servers) == 0 || len(servers) == 1 && servers[0].link("@odata.id") == n.path)
		}
		n.onlyServer = &only
	}
	return *n.onlyServer
}

// enclosure returns the chassis that contain the system's own ones and no other system.
func (n *inspection) enclosure(ctx context.Context) []resource {
	var around []resource
	for _, box := range n.readOwnChassis(ctx) {
		path := box.link("Links", "ContainedBy")
		isOwn := func(path string) bool {
			return slices.ContainsFunc(n.ownChassis, func(own resource) bool { return own.link("@odata.id") == path })
		}
		if path == "" || isOwn(path) {
			continue
		}
		outer := n.readOptional(ctx, path)
		contains := outer.links("Links", "Contains")
		if outer == nil || n.belongsToOthers(outer) || slices.ContainsFunc(contains, func(inner string) bool { return !isOwn(inner) }) || !n.isOnlyServer(ctx) {
			continue
		}
		around = append(around, outer.at(path))
	}
	return around
}
