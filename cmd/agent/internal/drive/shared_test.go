package drive_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
)

// TestShared: another server may use a drive with several controllers, and one that may have several and does not list them. The controller that answers is 1.
func TestShared(t *testing.T) {
	for name, test := range map[string]struct {
		several     bool
		controllers []uint16
		shared      bool
	}{
		"one port":                      {false, nil, false},
		"one port of two is used":       {true, []uint16{1}, false},
		"two ports":                     {true, []uint16{1, 2}, true},
		"another controller":            {true, []uint16{2}, true},
		"no list":                       {true, nil, true},
		"a list that is not in order":   {true, []uint16{1, 1}, true},
		"a list of a drive of one port": {false, []uint16{1, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fake := drivetest.New(drive.NVMe, 1, 1<<20, 1)
			fake.Several, fake.Controllers = test.several, test.controllers
			d := drive.Drive{Kind: drive.NVMe, Port: fake.Port(0)}
			facts, err := d.Probe(false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(facts.Shared).To(Equal(test.shared))
		})
	}
}
