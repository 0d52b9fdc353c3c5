package contracttest

import (
	"os"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// Main runs the tests of a suite of the contract. It gives conditions more time than Gomega's second, which a busy machine may take, and skips the suite if the
// programs of the lab are missing.
func Main(m *testing.M) {
	if os.Getenv("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT") == "" {
		gomega.SetDefaultEventuallyTimeout(30 * time.Second)
	}
	var programs []string
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubeadm", "hollow-kubelet", "capi-core", "clusterctl"} {
		programs = append(programs, ".cache/bin/"+name)
	}
	controllerstest.Need(m, "make lab-programs", programs...)
	os.Exit(m.Run())
}
