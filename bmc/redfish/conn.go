package redfish

import (
	"context"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// conn is a connection to one system. It has one struct for each capability. All of them use the same service and system. Inspect and
// Describe read what belongs to several capabilities.
type conn struct {
	power
	overrides
	media
	secureBoot
	bios
	monitor

	service  *service
	system   *system
	software software
}

var (
	_ bmc.Client              = &conn{}
	_ bmc.VirtualMedia        = &conn{}
	_ bmc.SecureBooter        = &conn{}
	_ bmc.SecureBootKeyReader = &conn{}
	_ bmc.BIOSConfigurer      = &conn{}
	_ bmc.Monitor             = &conn{}
	_ bmc.BootRecorder        = &conn{}
	_ bmc.CacheResetter       = &conn{}
)

// newConn returns a connection that is not logged in and has no system yet.
func newConn(driver *Driver, endpoint bmc.Endpoint) *conn {
	s := &service{driver: driver, endpoint: endpoint, sessions: withSession(endpoint.URL)}
	server := &system{service: s}
	return &conn{
		power:      power{service: s, system: server},
		overrides:  overrides{service: s, system: server, order: bootOrder{service: s, system: server, orders: &driver.orders}},
		media:      media{service: s, system: server, timeout: driver.mediaTimeout()},
		secureBoot: secureBoot{service: s, system: server},
		bios:       bios{service: s, system: server},
		monitor:    monitor{service: s, system: server},
		service:    s, system: server, software: software{service: s},
	}
}

// ResetCache drops the resources that were read, which have tens of KiB on real servers and are stale in the next job, and the connections of a first login.
func (c *conn) ResetCache() {
	c.service.wire.transport.endJob()
	c.service.resetCache()
	c.system.resetCache()
}

// Close ends the session, if there is one.
func (c *conn) Close(ctx context.Context) error {
	defer c.service.wire.transport.endJob()
	return c.service.wire.closeSession(ctx)
}
