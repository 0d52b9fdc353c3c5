package clusterctl

import (
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
)

func TestMain(m *testing.M) { contracttest.Main(m) }
