// Package rack has the emulated servers of the lab: each has a Redfish or an IPMI BMC, and an operating system that becomes a real Node.
package rack

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/balancer"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Rack is a rack of emulated servers.
type Rack struct {
	*emulated.Site
	// Options are for servers that are added from now on. Add sets what differs between servers. New sets a PowerDelay of one second and DiskBytes of 8 GiB.
	// An agent that erases all of a disk writes and reads each byte.
	emulated.Options

	Bin string
	// Event, if not nil, gets the events of a server: those of package emulated, what happens to its operating system, or an error.
	Event func(server, what string)
	// Seeded, if not nil, gets what a server booted with once the server has its bootstrap data.
	Seeded func(server string, system *pxetest.System)
	// ImageBytes is how much data a disk image has. New sets 1 MiB.
	ImageBytes int64
	// IPMIEvery selects the servers whose BMC has IPMI: every nth. New sets 3. The others have Redfish.
	IPMIEvery int
	// Extras are what control plane servers run that are switched on from now on, besides what each cluster of the lab needs.
	Extras node.Extras

	ports    map[string]uint16 // of etcd and of the endpoints of clusters
	etcd     *etcd
	balancer *balancer.Balancer
	// beside is a network that boot servers serve beside the rack; nil for none.
	beside *Network

	mu        sync.Mutex
	servers   []*Server
	endpoints uint8 // how many were assigned
}

// networks is the number of networks from 127.64.0.0/16 on, of which a rack takes one.
const networks = 128

// New makes a rack without servers, and the etcd of its clusters. Close it, also after an error.
func New(ctx context.Context, dir, bin string, event func(server, what string)) (*Rack, error) {
	r := &Rack{Bin: bin, Event: event, IPMIEvery: 3, ImageBytes: 1 << 20, ports: map[string]uint16{}, balancer: balancer.New(checkInterval, serves)}
	r.Username, r.Password, r.PowerDelay, r.DiskBytes, r.RetryDelay = Username, Password, time.Second, 8<<30, 3*time.Second
	r.Installs = func(system *pxetest.System) bool { return strings.Contains(system.CommandLine, node.Install) }
	var err error
	r.Site, err = emulated.NewSite(ctx, emulated.SiteOptions{Dir: dir, UEFI: true, First: netip.MustParsePrefix("127.64.0.0/16"), Count: networks})
	if err != nil {
		return r, err
	}
	for _, name := range []string{"etcd", "etcd-peer", "api"} {
		if r.ports[name], err = pxetest.FreePort(r.Address(1)); err != nil {
			return r, err
		}
	}
	for name, address := range map[string]netip.Addr{bootConfig: r.Address(1), otherBootConfig: r.Address(4)} {
		if err := r.writeBootConfig(name, address, r.leases()); err != nil {
			return r, err
		}
	}
	r.etcd, err = startEtcd(ctx, r)
	return r, err
}

// Close switches all servers off.
func (r *Rack) Close() {
	_ = r.Site.Close() // it may have been closed
	if r.etcd != nil {
		r.etcd.process.Stop()
	}
}

// TemplateVariables are those of the cluster templates.
func (r *Rack) TemplateVariables() ([]string, error) {
	endpoint := r.Endpoint()
	vars := []string{
		"CONTROL_PLANE_ENDPOINT_HOST=" + endpoint.Host, fmt.Sprintf("CONTROL_PLANE_ENDPOINT_PORT=%d", endpoint.Port),
		"BOOT_PERSISTENCE=Ephemeral", "ETCD_ENDPOINT=" + r.etcd.endpoint, fmt.Sprintf("EXTERNAL_ETCD_ENDPOINTS=[%q]", r.etcd.endpoint), "KUBE_VIP_ENABLED=false",
	}
	kernel, initrd := r.Origin.Kernel(), r.Origin.Initrd("")
	image, err := r.DiskImage("")
	if err != nil {
		return nil, err
	}
	return append(vars, "KERNEL_URL="+kernel.URL, "KERNEL_CHECKSUM="+kernel.Checksum, "INITRD_URL="+initrd.URL, "INITRD_CHECKSUM="+initrd.Checksum,
		"IMAGE_URL="+image.URL, "IMAGE_CHECKSUM="+image.Checksum), nil
}

// Image returns the files of a network boot of a version of Kubernetes. The server runs the same programs in every version, and its kubelet reports this
// version. It may therefore differ from theirs only behind the patch version, as in v1.36.3+2.
func (r *Rack) Image(version string) v1alpha1.BootSource {
	return v1alpha1.BootSource{Kernel: r.Origin.Kernel(), Initrds: []v1alpha1.Artifact{r.Origin.Initrd(version)}}
}

// DiskImage returns the disk image of a version of Kubernetes, as Image does. It has ImageBytes of data.
func (r *Rack) DiskImage(version string) (*v1alpha1.Image, error) {
	return r.Origin.DiskImage(version, r.ImageBytes)
}
