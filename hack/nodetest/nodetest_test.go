// Package nodetest makes Nodes of virtual machines: the real managers of Cluster API, real firmware with a BMC of sushy-tools, an image of hack/nodeimage.sh on
// an empty disk, cloud-init, kubeadm, kubelet and containerd. It needs root, and what hack/e2e.sh and hack/nodeimage.sh install; it fails where either is missing.
package nodetest

import (
	"fmt"
	"os"
	"testing"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make e2e-node", "out/agent/amd64/ramdisk", ".cache/nodeimage", ".cache/peers/stamp", ".cache/bin/kubeadm")
	os.Exit(netns.Main(m, func() int {
		err := netns.Do("ip link set lo up",
			// libvirt opens taps as a user without rights, which not every system lets it.
			"mount --make-rprivate /", "mount -t tmpfs none /dev/net", "mknod -m 666 /dev/net/tun c 10 200")
		if err != nil {
			fmt.Fprintf(os.Stderr, "nodetest: %v (hack/e2e.sh installs what is needed)\n", err)
			return 1
		}
		ctrl.SetLogger(klog.Background())
		return m.Run()
	}))
}
