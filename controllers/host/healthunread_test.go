package host

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestFlappingServer: while the health of the server changes with each reading, the inventory shows the worst one, which claims respect, and changes again when nothing changes any more.
func TestFlappingServer(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	h := &hostObservation{hardware: &v1alpha1.Hardware{Health: wire.HealthOK}, inventoryAt: now}
	read := func(server bmc.Health) wire.Health {
		now = now.Add(time.Minute)
		h.health.ReadEvery(time.Minute)
		h.noteHealth(bmc.HealthReading{Rollup: server, Server: server}, now)
		return h.hardware.Health
	}
	for range 2 {
		read(bmc.HealthCritical)
		g.Expect(read(bmc.HealthOK)).To(Equal(wire.HealthOK))
	}
	g.Expect(read(bmc.HealthCritical)).To(Equal(wire.HealthCritical), "no machine gets it")
	g.Expect(h.health.Flapping()).To(BeTrue())
	h.noteInventory(bmc.Inventory{Health: bmc.HealthOK}, &v1alpha1.BMCStatus{}, metav1.NewTime(now))
	g.Expect(h.hardware.Health).To(Equal(wire.HealthCritical), "an inspection sees one state of many")
	for range 30 { // longer than the window
		g.Expect(read(bmc.HealthOK)).To(Equal(wire.HealthCritical), "it still changes")
		g.Expect(h.health.Flapping()).To(BeTrue())
		read(bmc.HealthCritical)
	}
	for range 12 {
		read(bmc.HealthOK)
	}
	g.Expect(h.health.Flapping()).To(BeFalse())
	g.Expect(h.hardware.Health).To(Equal(wire.HealthOK))
}

// TestPartialInventoryKeepsHealth: an inventory that could not read a disk ends no fault of it that a reading found, and one that kept an earlier disk brings no fault back.
func TestPartialInventoryKeepsHealth(t *testing.T) {
	disk := bmc.Part{Class: bmc.PartDisk, Name: "3", Health: bmc.HealthCritical}
	known := bmc.Fact{Name: bmc.FactDisks, State: bmc.FactKnown}
	healthy := func(fact bmc.Fact) bmc.Inventory {
		inventory := bmc.Inventory{Disks: []bmc.Disk{{Name: "1", Health: bmc.HealthOK}}}
		inventory.SetFact(fact)
		return inventory
	}
	for name, fact := range map[string]bmc.Fact{
		"one of them": {Name: bmc.FactDisks, State: bmc.FactKnown, Message: "1 of 8 resources could not be read"},
		"none":        {Name: bmc.FactDisks, State: bmc.FactUnknown, TimedOut: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h, now := &hostObservation{}, time.Now().Add(-24*time.Hour)
			inspect := func(inventory bmc.Inventory) {
				now = now.Add(20 * time.Minute) // no change is one of many
				h.noteInventory(inventory, &v1alpha1.BMCStatus{}, metav1.NewTime(now))
			}
			read := func(parts ...bmc.Part) {
				now = now.Add(20 * time.Minute) // no change is one of many
				h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthOK, Parts: parts, Read: []bmc.PartClass{bmc.PartDisk}}, now)
			}
			inspect(healthy(known))
			read(disk)
			inspect(healthy(fact))
			g.Expect(h.healthStatus(nil).Parts).To(HaveExactElements(HaveField("Name", "3")))
			inspect(healthy(known))
			g.Expect(h.healthStatus(nil)).To(BeNil(), "a complete inventory counts")

			ill := bmc.Inventory{Disks: []bmc.Disk{{Name: "3", Health: bmc.HealthCritical}}}
			ill.SetFact(known)
			inspect(ill)
			read() // the disk was replaced
			inspect(healthy(fact))
			g.Expect(h.healthStatus(nil)).To(BeNil())
		})
	}
}

// TestPartialSummary: a better summary does not count while another one cannot be read.
func TestPartialSummary(t *testing.T) {
	g := NewWithT(t)
	h, now := &hostObservation{hardware: &v1alpha1.Hardware{Health: wire.HealthOK}}, time.Now()
	h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthCritical, Server: bmc.HealthOK}, now)
	for _, partial := range []bool{true, false} {
		now = now.Add(time.Minute)
		h.noteHealth(bmc.HealthReading{Rollup: bmc.HealthOK, Server: bmc.HealthOK, Partial: partial}, now)
		g.Expect(h.healthStatus(nil) != nil).To(Equal(partial))
	}
}

// TestUnreadHealth: readings that fail end what an earlier one said of a server whose inventory has no health. A known fault stays.
func TestUnreadHealth(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{}}}
	reason := func(rollup wire.Health, unread bool) string {
		setHardwareHealthy(host, rollup, unread)
		return conditions.GetReason(host, v1alpha1.HardwareHealthyCondition)
	}
	g.Expect(reason(wire.HealthOK, false)).To(Equal(v1alpha1.ReasonHardwareOK))
	g.Expect(reason("", false)).To(Equal(v1alpha1.ReasonHardwareOK), "after a restart")
	g.Expect(reason(wire.HealthOK, true)).To(Equal(v1alpha1.ReasonHealthUnknown))
	g.Expect(reason("", false)).To(Equal(v1alpha1.ReasonHealthUnknown))
	host.Status.Health = &v1alpha1.HealthStatus{Parts: []v1alpha1.UnhealthyPart{{Class: v1alpha1.PartFan, Name: "1", Health: wire.HealthCritical}}}
	g.Expect(reason(wire.HealthOK, true)).To(Equal(v1alpha1.ReasonFanUnhealthy))
}

// TestLogsDespiteDetails: details that take all of their time leave some for the logs.
func TestLogsDespiteDetails(t *testing.T) {
	g := NewWithT(t)
	r, j := newTestReconciler(t)
	j.action = lifecycle.ReadHealth
	b := &slowDetailsBMC{healthBMC: healthBMC{Fake: &bmctest.Fake{}, logs: []bmc.Log{{LogSource: bmc.LogSource{Name: "SEL"}}}}}
	ctx, cancel := context.WithTimeout(t.Context(), powerReadReserve+300*time.Millisecond)
	defer cancel()
	g.Expect(r.performer.jobs.executor.execute(ctx, j, b)).To(Succeed())
	g.Expect(b.readsLogs).To(BeTrue())
}

// slowDetailsBMC reads details until their time is over.
type slowDetailsBMC struct {
	healthBMC

	readsLogs bool
}

func (b *slowDetailsBMC) ReadHealth(ctx context.Context, _ bmc.HealthRequest) (bmc.HealthReading, error) {
	<-ctx.Done()
	return bmc.HealthReading{Rollup: bmc.HealthCritical}, nil
}

func (b *slowDetailsBMC) ReadLogs(ctx context.Context, sources []bmc.LogSource) ([]bmc.Log, error) {
	b.readsLogs = ctx.Err() == nil
	return b.healthBMC.ReadLogs(ctx, sources)
}
