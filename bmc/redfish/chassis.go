package redfish

import (
	"context"
	"errors"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// ownership finds the chassis and the baseboards that are a part of this server and of no other one.
type ownership struct {
	service *service
	system  *system
	// ownChassis are the chassis that contain only this system; nil until they are read. unreadChassis is a chassis that could not be read.
	ownChassis    []resource
	unreadChassis listing
	// baseboards are the systems that are a part of this server; nil until they are read.
	baseboards []resource
	// onlyServer is true if the BMC manages no other server; nil until it is read.
	onlyServer *bool
}

// maxChassis limits the number of chassis whose parts are read. A server with accelerators has some dozens.
const maxChassis = 64

// readOwnChassis reads the chassis that contain only this system: those that it links to, and the chassis inside them. It omits chassis
// that the system shares with other systems.
func (o *ownership) readOwnChassis(ctx context.Context) []resource {
	if o.ownChassis != nil {
		return o.ownChassis
	}
	o.ownChassis = []resource{}
	linked := o.withBackLinks(ctx, o.system.chassis(ctx))
	if paths := o.system.links("Links", "Chassis"); len(paths) > len(linked) {
		o.unreadChassis = listing{source: paths[0], err: errors.New("the chassis cannot be read")}
	}
	named := len(o.system.links("Links", "Chassis")) > 0
	seen := map[string]bool{}
	for queue := linked; len(queue) > 0 && len(seen) < maxChassis; queue = queue[1:] {
		box := queue[0]
		path := box.link("@odata.id")
		if seen[path] {
			continue
		}
		seen[path] = true
		inner := o.service.readAll(ctx, box.links("Links", "Contains"))
		systems := box.links("Links", "ComputerSystems")
		isOther := func(system string) bool { return system != o.system.path }
		shared := !named && len(systems) == 0 || slices.ContainsFunc(systems, isOther) || slices.ContainsFunc(inner, o.system.belongsToOthers)
		if shared && !o.isOnlyServer(ctx) {
			continue
		}
		o.ownChassis, queue = append(o.ownChassis, box), append(queue, inner...)
	}
	return o.ownChassis
}

// withBackLinks adds the chassis that link to this system, although the system does not link to them.
func (o *ownership) withBackLinks(ctx context.Context, linked []resource) []resource {
	if len(o.system.links("Links", "Chassis")) == 0 {
		return linked // all chassis were read
	}
	paths, _, _ := o.service.collection(ctx, o.service.root.chassis) // after an error, the list is empty
	paths = paths[:min(len(paths), maxChassis)]
	all := o.service.readAll(ctx, paths)
	if len(all) < len(unique(paths)) && o.unreadChassis.source == "" {
		o.unreadChassis = listing{source: paths[0], err: errors.New("a chassis cannot be read")}
	}
	for _, box := range all {
		isKnown := slices.ContainsFunc(linked, func(r resource) bool { return r.link("@odata.id") == box.link("@odata.id") })
		if !isKnown && slices.Contains(box.links("Links", "ComputerSystems"), o.system.path) {
			linked = append(linked, box)
		}
	}
	return linked
}

// isOnlyServer is true if the BMC manages no other server.
func (o *ownership) isOnlyServer(ctx context.Context) bool {
	if o.onlyServer == nil {
		only := o.system.onlySystemListed
		if !only {
			servers, err := o.system.servers(ctx)
			known := err == nil || bmc.KindOf(err) == bmc.NotFound // a server that could not be read may be another one
			only = known && (len(servers) == 0 || len(servers) == 1 && servers[0].link("@odata.id") == o.system.path)
		}
		o.onlyServer = &only
	}
	return *o.onlyServer
}

// enclosure returns the chassis that contain the system's own ones and no other system.
func (o *ownership) enclosure(ctx context.Context) []resource {
	var around []resource
	for _, box := range o.readOwnChassis(ctx) {
		path := box.link("Links", "ContainedBy")
		isOwn := func(path string) bool {
			return slices.ContainsFunc(o.ownChassis, func(own resource) bool { return own.link("@odata.id") == path })
		}
		if path == "" || isOwn(path) {
			continue
		}
		outer := o.service.readOptional(ctx, path)
		contains := outer.links("Links", "Contains")
		if outer == nil || o.system.belongsToOthers(outer) || slices.ContainsFunc(contains, func(inner string) bool { return !isOwn(inner) }) || !o.isOnlyServer(ctx) {
			continue
		}
		around = append(around, outer.at(path))
	}
	return around
}
