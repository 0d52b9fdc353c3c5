package redfish

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// expansion is a service's support for reading a resource together with the resources that it links to (DSP0266, 7.3.2). If the service
// refuses or ignores one kind of it, the driver does not use that kind for the rest of the connection.
type expansion struct {
	// query is appended to the path; empty if the service does not support it.
	query string
	// members expands collections, resources expands other resources.
	members, resources bool
	// checked is true once a resource in the place of a link was compared with the resource itself.
	checked bool
}

func expansionOf(root resource) expansion {
	offered := root.object("ProtocolFeaturesSupported", "ExpandQuery")
	e := expansion{members: true, resources: true}
	switch {
	case offered.boolean("NoLinks"):
		e.query = "?$expand=." // everything except the property Links
	case offered.boolean("ExpandAll"):
		e.query = "?$expand=*"
	}
	if e.query != "" && offered.boolean("Levels") {
		e.query += "($levels=1)"
	}
	return e
}

// getExpanded reads a resource. During an inspection, and if the service supports it, it also reads the linked resources into the cache.
// Resources that the response does not contain are read separately when they are needed.
func (s *service) getExpanded(ctx context.Context, path string, isCollection bool) (resource, error) {
	offered := &s.expand.resources
	if isCollection {
		offered = &s.expand.members
	}
	if s.cache == nil || s.expand.query == "" || !*offered || strings.Contains(path, "?") || s.cache[expandedMark+path] != nil {
		return s.get(ctx, path)
	}
	fatal := s.fatal
	r, err := s.fetch(ctx, path+s.expand.query)
	switch kind := bmc.KindOf(wrap(http.MethodGet, err)); {
	case err == nil:
	case kind == bmc.Unauthorized, kind == bmc.NotFound, ctx.Err() != nil, s.requests > maxRequests:
		return nil, err
	default: // the response may be too large or too slow for the service
		*offered, s.fatal = false, fatal
		return s.get(ctx, path)
	}
	if !s.innerIsComplete(ctx, r) {
		s.expand.members, s.expand.resources = false, false
		return s.get(ctx, path)
	}
	if links := r.links("Members"); !s.cacheExpanded(r) && (len(links) > 0 || !isCollection) {
		*offered = false // the service ignored it
	}
	s.cache[path], s.cache[expandedMark+path] = r, resource{}
	return r, nil
}

// innerIsComplete is false if a resource that the service put in the place of a link lacks properties that the resource itself has. The first one is compared, once for each
// connection.
func (s *service) innerIsComplete(ctx context.Context, r resource) bool {
	inner := firstWhole(map[string]any(r), r.link("@odata.id"))
	if s.expand.checked || inner == nil {
		return true
	}
	s.expand.checked = true
	whole, err := s.fetch(ctx, inner.link("@odata.id"))
	return err != nil || !inner.lacks(whole)
}

// firstWhole returns the first complete resource inside of another one, by the order of the names; nil without one.
func firstWhole(value any, outer string) resource {
	switch v := value.(type) {
	case map[string]any:
		if r := resource(v); r.isWhole() && r.link("@odata.id") != outer && !strings.Contains(r.link("@odata.id"), "#") {
			return r
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if r := firstWhole(v[name], outer); r != nil {
				return r
			}
		}
	case []any:
		for _, inner := range v {
			if r := firstWhole(inner, outer); r != nil {
				return r
			}
		}
	}
	return nil
}

// expandedMark is a prefix of cache keys. It marks the paths of resources that were read with $expand.
const expandedMark = "expanded "

// cacheExpanded adds the complete resources inside another one to the cache. It returns whether there is one.
func (s *service) cacheExpanded(value any) bool {
	found := false
	switch v := value.(type) {
	case resource:
		for _, inner := range v {
			found = s.cacheExpanded(inner) || found
		}
	case map[string]any:
		r := resource(v)
		if path := r.link("@odata.id"); r.isWhole() && !strings.Contains(path, "#") {
			if _, ok := s.cache[path]; !ok {
				s.cache[path] = r
			}
			found = true
		}
		return s.cacheExpanded(r) || found
	case []any:
		for _, inner := range v {
			found = s.cacheExpanded(inner) || found
		}
	}
	return found
}
