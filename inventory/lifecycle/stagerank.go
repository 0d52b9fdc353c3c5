package lifecycle

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

var stageOrder = []v1alpha1.BootStage{
	v1alpha1.StageStarted, v1alpha1.StageMedia, v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageWaiting, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent,
	v1alpha1.StageData, v1alpha1.StageCommitted, v1alpha1.StageAgentDone, v1alpha1.StageReportedIn, v1alpha1.StageNode, v1alpha1.StageBootstrapSucceeded, v1alpha1.StageBootstrapFailed,
	v1alpha1.StageRestarted, v1alpha1.StageNodeLost,
}

// StageRank orders the stages of a boot. No stage ranks below the first.
func StageRank(stage v1alpha1.BootStage) int { return slices.Index(stageOrder, stage) }
