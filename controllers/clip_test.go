package controllers

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestClipReport: texts are clipped, lists are cut and negative numbers are 0, also behind pointers and in lists.
func TestClipReport(t *testing.T) {
	g := NewWithT(t)
	report := wire.Inspection{
		AgentRelease: "v1\x00", CPU: wire.InspectedCPU{Threads: -1, Cores: 8, Features: []string{"a", "b", "c"}}, BMC: &wire.InspectedBMC{Address: "\x1b[2J" + strings.Repeat("x", 20)},
		NICs:  []wire.InspectedNIC{{NUMANode: new(int32(-1)), LinkUp: true}},
		Disks: []wire.InspectedDisk{{SizeBytes: -7, Signatures: []string{"gpt\n"}}, {}, {}},
	}
	ClipReport(&report, 10, 2)
	g.Expect(report).To(Equal(wire.Inspection{
		AgentRelease: "v1", CPU: wire.InspectedCPU{Cores: 8, Features: []string{"a", "b"}}, BMC: &wire.InspectedBMC{Address: "[2Jxxxx..."},
		NICs:  []wire.InspectedNIC{{NUMANode: new(int32(0)), LinkUp: true}},
		Disks: []wire.InspectedDisk{{Signatures: []string{"gpt"}}, {}},
	}))
}

// TestOneOf: what is no word of the API is unknown, also one that differs only in case.
func TestOneOf(t *testing.T) {
	g := NewWithT(t)
	g.Expect(HealthOf("Warning")).To(Equal(wire.HealthWarning))
	for _, text := range []string{"", "warning", "Warning\n", "Fine"} {
		g.Expect(HealthOf(text)).To(BeEmpty(), "%q", text)
	}
}
