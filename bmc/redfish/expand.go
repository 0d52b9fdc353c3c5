package redfish

import (
	"context"
	"net/http"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// expansion is how a service takes requests for a resource together with those that it links to (DSP0266, 7.3.2). Each kind is given up
// for the rest of the connection when the service refuses or ignores it.
type expansion struct {
	// query stands behind the path; empty where the service offers none.
	query string
	// Whether collections are asked for with their members, and other resources with what they link to.
	members, resources bool
}

func expansionOf(root resource) expansion {
	offered := root.object("ProtocolFeaturesSupported", "ExpandQuery")
	e := expansion{members: true, resources: true}
	switch {
	case offered.boolean("NoLinks"):
		e.query = "?$expand=." // all but the property Links
	case offered.boolean("ExpandAll"):
		e.query = "?$expand=*"
	}
	if e.query != "" && offered.boolean("Levels") {
		e.query += "($levels=1)"
	}
	return e
}

// getExpanded reads a resource and, within an inspection and where the service offers it, those that it links to, which are found
// in the cache afterwards. What did not come with it is read separately when it is needed.
func (c *conn) getExpanded(ctx context.Context, path string, isCollection bool) (resource, error) {
	offered := &c.expand.resources
	if isCollection {
		offered = &c.expand.members
	}
	if c.cache == nil || c.expand.query == "" || !*offered || strings.Contains(path, "?") || c.cache[expandedMark+path] != nil {
		return c.get(ctx, path)
	}
	fatal := c.fatal
	r, err := c.fetch(ctx, path+c.expand.query)
	switch kind := bmc.KindOf(wrap(http.MethodGet, err)); {
	case err == nil:
	case kind == bmc.Unauthorized, kind == bmc.NotFound, ctx.Err() != nil, c.requests > maxRequests:
		return nil, err
	default: // it may be too much for the service, also in time
		*offered, c.fatal = false, fatal
		return c.get(ctx, path)
	}
	if links := r.links("Members"); !c.cacheExpanded(r) && (len(links) > 0 || !isCollection) {
		*offered = false // it was ignored
	}
	c.cache[path], c.cache[expandedMark+path] = r, resource{}
	return r, nil
}

// expandedMark stands before the path of what was asked for with all that it links to.
const expandedMark = "expanded "

// cacheExpanded puts the resources that are written out in another one into the cache, and says whether there is any.
func (c *conn) cacheExpanded(value any) bool {
	found := false
	switch v := value.(type) {
	case resource:
		for _, inner := range v {
			found = c.cacheExpanded(inner) || found
		}
	case map[string]any:
		r := resource(v)
		if path := r.link("@odata.id"); r.isWhole() && !strings.Contains(path, "#") {
			if _, ok := c.cache[path]; !ok {
				c.cache[path] = r
			}
			found = true
		}
		return c.cacheExpanded(r) || found
	case []any:
		for _, inner := range v {
			found = c.cacheExpanded(inner) || found
		}
	}
	return found
}
