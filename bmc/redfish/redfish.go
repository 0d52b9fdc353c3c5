// Package redfish speaks Redfish (DMTF DSP0266) to BMCs.
package redfish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The URL schemes of this driver.
const (
	Scheme         = "redfish"
	SchemeInsecure = "redfish+http"
)

// Driver opens connections to Redfish services. They share HTTP transports, one for each way to verify certificates. The
// zero value is ready.
type Driver struct{ transports transports }

// Open connects to the system that the endpoint's URL names:
//
//	redfish://host[:port][/redfish/v1/Systems/ID][?auth=session]
//
// Without a path the service must manage exactly one system. Authentication is HTTP basic, or with auth=session a Redfish
// session that Close ends.
func (d *Driver) Open(ctx context.Context, endpoint bmc.Endpoint) (bmc.Client, error) {
	client, err := d.httpClient(endpoint)
	if err != nil {
		return nil, &bmc.Error{Kind: bmc.BadCertificate, Op: "Read the CA certificates", Err: err}
	}
	api, err := gofish.ConnectContext(ctx, gofish.ClientConfig{
		Endpoint: baseURL(endpoint.URL), Username: endpoint.Username, Password: endpoint.Password,
		BasicAuth:         endpoint.URL.Query().Get("auth") != "session",
		HTTPClient:        client,
		NoModifyTransport: true, ReuseConnections: true,
	})
	if err != nil {
		return nil, wrap("Connect", err)
	}
	c := &conn{api: api}
	if c.system, err = findSystem(api, endpoint.URL.Path); err != nil {
		closeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return nil, errors.Join(err, c.Close(closeCtx))
	}
	return c, nil
}

func baseURL(u *url.URL) string {
	scheme := "https"
	if u.Scheme == SchemeInsecure {
		scheme = "http"
	}
	return scheme + "://" + u.Host
}

func findSystem(api *gofish.APIClient, path string) (*schemas.ComputerSystem, error) {
	if path = strings.TrimSuffix(path, "/"); path != "" {
		system, err := schemas.GetComputerSystem(api, path)
		return system, wrap("Read system "+path, err)
	}
	systems, err := api.Service.Systems()
	// Collections hold members that are no servers: enclosures, or links that lead nowhere.
	systems = slices.DeleteFunc(systems, func(s *schemas.ComputerSystem) bool {
		return s.ODataID == "" || s.PowerState == ""
	})
	switch {
	case len(systems) == 1:
		return systems[0], nil
	case len(systems) > 1:
		ids := make([]string, len(systems))
		for i, s := range systems {
			ids[i] = s.ODataID
		}
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: fmt.Errorf(
			"the BMC manages %d systems: name one of them in the address: %s", len(ids), strings.Join(ids, ", "))}
	case err != nil:
		return nil, wrap("List systems", err)
	default:
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: errors.New("the BMC manages no system")}
	}
}

// conn is a connection to one system. The system's properties are those of the moment when it was opened: jobs are short.
type conn struct {
	api    *gofish.APIClient
	system *schemas.ComputerSystem
}

// Close ends the session, if there is one.
func (c *conn) Close(ctx context.Context) error {
	session, err := c.api.GetSession()
	if err != nil {
		return nil //nolint:nilerr // basic authentication: there is no session to end
	}
	return wrap("Log out", c.api.WithContext(ctx).Service.DeleteSession(session.ID))
}

// wrap gives an error of gofish its kind. It returns nil for nil.
func wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	// gofish hides the errors of a collection's members, and prints the body of an answer as it came.
	var members *schemas.CollectionError
	if errors.As(err, &members) {
		err = errors.Join(slices.Collect(maps.Values(members.Failures))...)
	}
	kind := bmc.Classify(err)
	var answer *schemas.Error
	if errors.As(err, &answer) {
		switch answer.HTTPReturnedStatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			kind = bmc.Unauthorized
		case http.StatusNotFound, http.StatusGone:
			kind = bmc.NotFound
		case http.StatusMethodNotAllowed, http.StatusNotImplemented:
			kind = bmc.Unsupported
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			kind = bmc.Unreachable
		default:
			kind = bmc.Failed
		}
		err = fmt.Errorf("the BMC answered %d %s: %.200s", answer.HTTPReturnedStatusCode,
			http.StatusText(answer.HTTPReturnedStatusCode), strings.TrimSpace(answer.Message))
	}
	return &bmc.Error{Kind: kind, Op: op, Err: err}
}
