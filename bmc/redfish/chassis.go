package redfish

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// chassis reads the chassis that the system is in.
func (c *conn) chassis(ctx context.Context) []resource {
	collection := cmp.Or(c.root.link("Chassis"), "/redfish/v1/Chassis")
	paths := c.system.links("Links", "Chassis")
	if len(paths) == 0 || c.cache != nil && c.expand.query != "" {
		all, _, _ := c.collection(ctx, collection) // where it is expanded, one request brings all chassis
		if len(paths) == 0 {
			return slices.DeleteFunc(c.all(ctx, all), func(box resource) bool { return c.isOthers(box) })
		}
	}
	return c.all(ctx, paths)
}

// isOthers is true for a chassis that holds other systems only.
func (c *conn) isOthers(box resource) bool {
	systems := box.links("Links", "ComputerSystems")
	return len(systems) > 0 && !slices.Contains(systems, c.path)
}

// mostBoxes bounds the chassis whose parts are read: a server with accelerators has some dozens.
const mostBoxes = 64

// ownBoxes reads the chassis that hold nothing but this system: those that it links to, and what they contain. One that it
// shares with other systems is none of them.
func (n *inspection) ownBoxes(ctx context.Context) []resource {
	if n.boxes != nil {
		return n.boxes
	}
	n.boxes = []resource{}
	linked := n.chassis(ctx)
	if paths := n.system.links("Links", "Chassis"); len(paths) > len(linked) {
		n.unread = listing{source: paths[0], err: errors.New("the chassis cannot be read")}
	}
	named := len(n.system.links("Links", "Chassis")) > 0
	seen := map[string]bool{}
	for queue := linked; len(queue) > 0 && len(seen) < mostBoxes; queue = queue[1:] {
		box := queue[0]
		path := box.link("@odata.id")
		if seen[path] {
			continue
		}
		seen[path] = true
		inner := n.all(ctx, box.links("Links", "Contains"))
		systems := box.links("Links", "ComputerSystems")
		shared := !named && len(systems) == 0 || slices.ContainsFunc(systems, func(s string) bool { return s != n.path }) || slices.ContainsFunc(inner, n.isOthers)
		if shared && !n.isAlone(ctx) {
			continue
		}
		n.boxes, queue = append(n.boxes, box), append(queue, inner...)
	}
	return n.boxes
}

// isAlone is true where the BMC manages no other server.
func (n *inspection) isAlone(ctx context.Context) bool {
	if n.alone == nil {
		alone := n.only
		if !alone {
			servers, err := n.servers(ctx)
			alone = len(servers) == 1 || err == nil && len(servers) == 0
		}
		n.alone = &alone
	}
	return *n.alone
}

// enclosure returns the chassis around the system's own ones, where it holds no other system.
func (n *inspection) enclosure(ctx context.Context) []resource {
	var around []resource
	for _, box := range n.ownBoxes(ctx) {
		path := box.link("Links", "ContainedBy")
		isOwn := func(path string) bool {
			return slices.ContainsFunc(n.boxes, func(own resource) bool { return own.link("@odata.id") == path })
		}
		if path == "" || isOwn(path) {
			continue
		}
		outer := n.try(ctx, path)
		contains := outer.links("Links", "Contains")
		if outer == nil || n.isOthers(outer) || slices.ContainsFunc(contains, func(inner string) bool { return !isOwn(inner) }) || !n.isAlone(ctx) {
			continue
		}
		around = append(around, outer.at(path))
	}
	return around
}
