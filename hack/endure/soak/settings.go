package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// settingsLabel is the label that the profiles select hosts by. Its values are those of workloads.
const settingsLabel = "settings"

// workloads are the values of the BIOS attribute WorkloadProfile, by the label of the hosts that are to have them.
var workloads = map[string]string{"fast": "LowLatency", "slow": "Custom"}

// profilesYAML is a profile for each of the workloads. Their hosts are those under the whole of Cluster API: their servers have disks, and run the agent.
func profilesYAML() string {
	var text strings.Builder
	for name, value := range workloads {
		fmt.Fprintf(&text, `---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: BareMetalProfile
metadata: {name: %s, namespace: %s}
spec:
  hosts: {selector: {matchLabels: {%s: %s}}}
  biosSettings: [{name: WorkloadProfile, value: %s}]
  rollout: {state: Active, scope: AvailableHosts, maxUnavailable: 4, maxFailures: 10000}
`, name, whole, settingsLabel, name, value)
	}
	return text.String()
}

// configureOne lets another profile select a free host, so that its server gets other firmware settings by one restart. The host is not busy meanwhile: other operations
// may meet the run, and the operator helps if it fails.
func (s *soak) configureOne(ctx context.Context) bool {
	h := s.pick("settings changed", func(h *host, seen *v1alpha1.BareMetalHost) bool { return h.namespace == whole && isUnclaimed(seen) })
	if h == nil {
		return false
	}
	s.task("settings of "+h.Name, func() error {
		defer s.free(h)
		_, err := s.changeFree(ctx, h, func(h *v1alpha1.BareMetalHost) {
			next := "fast"
			if h.Labels[settingsLabel] == next {
				next = "slow"
			}
			if h.Labels == nil {
				h.Labels = map[string]string{}
			}
			h.Labels[settingsLabel] = next
		})
		return err
	})
	return true
}
