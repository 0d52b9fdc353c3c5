package ipmi_test

import (
	"context"
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
	g.Expect(reading.Read).To(ConsistOf(bmc.PartPowerSupply, bmc.PartDisk, bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage))
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
