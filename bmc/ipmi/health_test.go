package ipmi_test

import (
	"context"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// TestHealth: the faults of the chassis status are the summary, and the sensors are read only when they change. The log ends at the newest known entry.
func TestHealth(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t, options())
	client, err := driver.Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close(context.WithoutCancel(t.Context()))).To(Succeed()) }()
	reader, err := bmc.As[bmc.HealthReader](client, "")
	g.Expect(err).NotTo(HaveOccurred())

	reading, err := reader.ReadHealth(t.Context(), bmc.HealthRequest{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reading).To(Equal(bmc.HealthReading{Rollup: bmc.HealthOK}))
	machine.SetHealth(bmctest.PartPowerSupply, bmc.HealthCritical)
	reading, err = reader.ReadHealth(t.Context(), bmc.HealthRequest{Rollup: bmc.HealthOK})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reading.Rollup).To(Equal(bmc.HealthCritical))
	g.Expect(reading.Parts).To(Equal([]bmc.Part{{Class: bmc.PartPowerSupply, Name: "main power", Health: bmc.HealthCritical}}))
	g.Expect(reading.Read).To(ConsistOf(bmc.PartPowerSupply, bmc.PartDisk, bmc.PartChassis, bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage))
	reading, err = reader.ReadHealth(t.Context(), bmc.HealthRequest{Rollup: bmc.HealthCritical})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reading).To(Equal(bmc.HealthReading{Rollup: bmc.HealthCritical}), "no details")

	logs, err := reader.ReadLogs(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(logs).To(HaveLen(1))
	g.Expect(logs[0].Name).To(Equal("SEL"))
	g.Expect(logs[0].Count).To(Equal(2))
	g.Expect(logs[0].Max).To(BeNumerically(">", 1000))
	g.Expect(logs[0].Entries).To(HaveLen(2))
	g.Expect(logs[0].Entries[0].ID).To(Equal("2"))
	again, err := reader.ReadLogs(t.Context(), []bmc.LogSource{{Name: "SEL", Newest: "2"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again[0].Entries).To(HaveLen(1), "nothing is newer")
	machine.Log(bmc.HealthCritical, "NMI")
	again, err = reader.ReadLogs(t.Context(), []bmc.LogSource{{Name: "SEL", Newest: "2"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again[0].Entries).To(HaveLen(2))

	g.Expect(machine.Misbehave(bmctest.PartsAre501, -1)).To(Succeed())
	_, err = reader.ReadLogs(t.Context(), nil)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
}

// TestHealthWithoutSensors: the faults of the chassis status count, whether the BMC has no sensors or does not answer when they are read.
func TestHealthWithoutSensors(t *testing.T) {
	every := []bmc.PartClass{bmc.PartPowerSupply, bmc.PartDisk, bmc.PartChassis}
	for name, c := range map[string]struct {
		unsupported, silent bool
		cooling             bmc.PartClass
		read                []bmc.PartClass
	}{
		"with sensors":  {cooling: bmc.PartFan, read: append(every, bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage)},
		"no sensors":    {unsupported: true, cooling: bmc.PartFan, read: append(every, bmc.PartFan)},
		"they time out": {silent: true, cooling: bmc.PartChassis, read: every},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var left atomic.Int64 // the answers until the BMC is silent
			left.Store(1 << 30)
			machine, endpoint := newMachine(t, options(), saying(func(packet []byte) [][]byte {
				if left.Add(-1) < 0 {
					return nil
				}
				return [][]byte{packet}
			}))
			client, err := hasty.Open(t.Context(), endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			defer func() {
				left.Store(1 << 30)
				g.Expect(client.Close(context.WithoutCancel(t.Context()))).To(Succeed())
			}()
			reader, err := bmc.As[bmc.HealthReader](client, "")
			g.Expect(err).NotTo(HaveOccurred())
			machine.SetHealth(bmctest.PartFan, bmc.HealthCritical)
			if c.unsupported {
				g.Expect(machine.Misbehave(bmctest.PartsAre501, -1)).To(Succeed())
			}
			if c.silent {
				left.Store(1)
			}
			reading, err := reader.ReadHealth(t.Context(), bmc.HealthRequest{})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reading.Rollup).To(Equal(bmc.HealthCritical))
			g.Expect(reading.Parts).To(ContainElement(bmc.Part{Class: c.cooling, Name: "cooling", Health: bmc.HealthCritical}))
			g.Expect(reading.Read).To(ConsistOf(c.read))
		})
	}
}
