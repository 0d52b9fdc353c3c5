package drive_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
)

// TestShared: another server may use a drive with several controllers, and one that may have several and does not list them, or has namespaces that this server does not
// have. The controller that answers is 1.
func TestShared(t *testing.T) {
	for name, test := range map[string]struct {
		several     bool
		controllers []uint16
		unattached  int
		shared      bool
	}{
		"a single controller":                   {false, nil, 0, false},
		"only itself":                           {true, []uint16{1}, 0, false},
		"two controllers":                       {true, []uint16{1, 2}, 0, true},
		"another controller":                    {true, []uint16{2}, 0, true},
		"no list":                               {true, nil, 0, true},
		"a list that is not in order":           {true, []uint16{1, 1}, 0, true},
		"a list of a single controller":         {false, []uint16{1, 2}, 0, false},
		"only itself, and others' namespaces":   {true, []uint16{1}, 1, true},
		"a single controller, namespaces apart": {false, nil, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			fake := drivetest.New(drive.NVMe, 1, 1<<20, 1)
			fake.Several, fake.Controllers, fake.Unattached = test.several, test.controllers, test.unattached
			d := drive.Drive{Kind: drive.NVMe, Port: fake.Port(0)}
			facts, err := d.Probe(false)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(facts.Shared).To(Equal(test.shared))
		})
	}
}
