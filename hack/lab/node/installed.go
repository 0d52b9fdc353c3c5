package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Install is the word on a kernel's command line that makes the emulated system install itself. The server's disk then boots it.
const Install = "lab.install"

// RunInstalled runs the system that Run left on the server's disk, after the server was switched off and on, until ctx ends. As on a real disk the
// bootstrap data is not used again: a worker's kubelet has the credentials that it got before. The lab does this only with workers.
func (n *Node) RunInstalled(ctx context.Context, system *pxetest.System, stage func(string)) error {
	n.name, n.address = system.MetaData["hostname"], system.Address
	defer n.stop()
	if n.exists(initConfig) {
		return errors.New("the lab does not boot the disk of a control plane server")
	}
	const kubeconfig = "/var/lib/kubelet/kubelet.conf"
	if !n.exists(kubeconfig) {
		return fmt.Errorf("the disk %s holds no system that joined a cluster", filepath.Base(n.Dir))
	}
	if err := n.startKubelet(ctx, "--kubeconfig="+n.path(kubeconfig), "--provider-id="+system.MetaData["provider_id"]); err != nil {
		return err
	}
	stage("runs from its disk")
	<-ctx.Done()
	return nil
}
