package rack

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

const (
	// checkInterval is the time between two checks of an API server by the balancer.
	checkInterval = time.Second
	// variableEndpoint is the last byte of the address of Endpoint. The addresses of NextEndpoint end with endpointBlock and 1 to lastEndpoint.
	variableEndpoint, endpointBlock, lastEndpoint = 10, 199, 250
)

// serves is a check of an API server by the balancer.
func serves(ctx context.Context, address string) error {
	return proc.Healthy("https://" + address + "/readyz")(ctx)
}

// Endpoint is the control plane endpoint in TemplateVariables. Only one cluster at a time may have it.
func (r *Rack) Endpoint() v1alpha1.APIEndpoint {
	return v1alpha1.APIEndpoint{Host: r.Address(variableEndpoint).String(), Port: int32(r.ports["api"])}
}

// NextEndpoint returns a control plane endpoint that no other cluster of the rack has. The balancer opens it when the first control plane server of the cluster
// serves.
func (r *Rack) NextEndpoint() (v1alpha1.APIEndpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endpoints == lastEndpoint {
		return v1alpha1.APIEndpoint{}, fmt.Errorf("all %d control plane endpoints of the rack are assigned", lastEndpoint)
	}
	r.endpoints++
	return v1alpha1.APIEndpoint{Host: r.Address(endpointBlock, r.endpoints).String(), Port: int32(r.ports["api"])}, nil
}

// listens returns a check that a program listens.
func listens(host string, port uint16) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}
