package capispecs

import (
	"github.com/onsi/ginkgo/v2"
	"sigs.k8s.io/cluster-api/test/e2e"
)

// scaleClusters is the number of clusters of ScaleSpec, each with one control plane machine and one worker. Their programs fill two processors.
const scaleClusters = 3

var _ = ginkgo.Describe("ScaleSpec", ginkgo.Label("scale", nightly), func() {
	e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:       new(flavorTopology),
			ClusterCount: new(int64(scaleClusters)), Concurrency: new(int64(scaleClusters)),
			ControlPlaneMachineCount: new(int64(1)), MachineDeploymentCount: new(int64(1)), WorkerPerMachineDeploymentCount: new(int64(1)),
			AdditionalClusterClassCount: new(int64(2)), ClusterClassName: "baremetal",
			DeployClusterInSeparateNamespaces: new(false), UseCrossNamespaceClusterClass: new(false),
			SkipUpgrade: true, FailFast: true, DumpResources: true,
			PostNamespaceCreated: withHosts(2 * scaleClusters),
		}
	})
})
