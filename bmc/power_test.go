package bmc_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestRestartedSince: a server has restarted if the BMC records another start, or if the boot stage is lower than before.
func TestRestartedSince(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		before, now bmc.LastBoot
		want        bool
	}{
		"nothing is recorded":          {},
		"the same start":               {bmc.LastBoot{ResetAt: at}, bmc.LastBoot{ResetAt: at.In(time.FixedZone("", 3600))}, false},
		"a later start":                {bmc.LastBoot{ResetAt: at}, bmc.LastBoot{ResetAt: at.Add(time.Second)}, true},
		"by a clock that was set back": {bmc.LastBoot{ResetAt: at}, bmc.LastBoot{ResetAt: at.Add(-time.Hour)}, true},
		"the record begins":            {bmc.LastBoot{}, bmc.LastBoot{ResetAt: at}, false},
		"the record ends":              {bmc.LastBoot{ResetAt: at}, bmc.LastBoot{}, false},
		"the boot gets further":        {bmc.LastBoot{Progress: 3}, bmc.LastBoot{Progress: 9}, false},
		"the boot starts again":        {bmc.LastBoot{Progress: 9}, bmc.LastBoot{Progress: 1}, true},
		"the boot is not recorded now": {bmc.LastBoot{Progress: 9}, bmc.LastBoot{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(c.now.RestartedSince(c.before)).To(Equal(c.want))
		})
	}
}
