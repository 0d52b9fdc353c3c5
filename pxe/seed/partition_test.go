package seed_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// TestPartitionIsDeterministic: two boot servers render the same bytes, and another instance has another serial number. cloud-init reads the partitions in
// hack/seedcheck.
func TestPartitionIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		d := data(seed.CloudConfig)
		d.Network = seedtest.Networks().Draw(t, "network")
		source := rapid.SampledFrom([]wire.DataSource{wire.DataSourceNoCloud, wire.DataSourceConfigDrive}).Draw(t, "source")
		sector := rapid.SampledFrom([]int{512, 4096}).Draw(t, "sector size")
		first, err := seed.Partition(d, source, base, sector)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(first.Size).To(Equal(int64(32 << 20)))
		g.Expect(len(first.Head) % sector).To(BeZero())
		g.Expect(seed.Partition(d, source, base, sector)).To(Equal(first))
		d.InstanceID = "i-2"
		second, err := seed.Partition(d, source, base, sector)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(second.Head[39:43]).NotTo(Equal(first.Head[39:43]))
	})
}

func TestPartitionErrors(t *testing.T) {
	for name, c := range map[string]struct {
		source wire.DataSource
		sector int
		change func(*seed.Data)
		want   string
	}{
		"Ignition on NoCloud": {wire.DataSourceNoCloud, 512, func(d *seed.Data) { d.Format = seed.Ignition }, "Ignition reads a disk only as the data source ConfigDrive"},
		"no data source":      {wire.DataSourceNone, 512, func(*seed.Data) {}, `the data source "None" has no partition`},
		"unknown format":      {wire.DataSourceNoCloud, 512, func(d *seed.Data) { d.Format = "powershell" }, "cannot be served"},
		"too much":            {wire.DataSourceNoCloud, 512, func(d *seed.Data) { d.UserData = make([]byte, 8<<20) }, "more than 8388608 bytes"},
		"sector size":         {wire.DataSourceNoCloud, 520, func(*seed.Data) {}, "a sector size of 520 bytes"},
		"name of a bond":      {wire.DataSourceConfigDrive, 512, func(d *seed.Data) { d.Network = seedtest.Static(); d.Network.Bonds[0].Name = "uplink" }, `cloud-init would call it "bond0"`},
		"name of a VLAN":      {wire.DataSourceConfigDrive, 512, func(d *seed.Data) { d.Network = seedtest.Static(); d.Network.VLANs[0].Name = "storage" }, `cloud-init would call it "bond0.100"`},
		"damaged Ignition":    {wire.DataSourceConfigDrive, 512, func(d *seed.Data) { d.Format, d.UserData = seed.Ignition, []byte("secret") }, "not an Ignition config"},
	} {
		t.Run(name, func(t *testing.T) {
			d := data(seed.CloudConfig)
			c.change(&d)
			_, err := seed.Partition(d, c.source, base, c.sector)
			NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring(c.want), Not(ContainSubstring("secret")))))
		})
	}
}

// TestPartitionOfAMebibyte: the largest bootstrap data of a Secret fits.
func TestPartitionOfAMebibyte(t *testing.T) {
	g := NewWithT(t)
	d := data(seed.CloudConfig)
	d.UserData = []byte(strings.Repeat("x", 1<<20))
	p, err := seed.Partition(d, wire.DataSourceNoCloud, base, 4096)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(p.Head)).To(BeNumerically("<", 1<<20+128<<10), "only what is not zero is sent")
}
