package host

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// TestSetEndpoint: a new version of a Secret with the same content is not a new endpoint.
func TestSetEndpoint(t *testing.T) {
	g := NewWithT(t)
	endpoint := func(host, password string) *bmc.Endpoint {
		return &bmc.Endpoint{URL: &url.URL{Scheme: "fake", Host: host}, Username: "u", Password: password, CA: []byte("ca")}
	}
	h := &hostObservation{}
	first := endpoint("a", "wrong")
	h.setEndpoint(first, "1")
	h.updateProblem(failed(bmc.Unauthorized, "refused"), time.Now())
	h.setEndpoint(endpoint("a", "wrong"), "2")
	g.Expect(h.secretVersions).To(Equal("2"), "it is not read again")
	g.Expect(h.endpoint).To(BeIdenticalTo(first), "a job that runs is not lost")
	g.Expect(h.bmc.Problem).NotTo(BeNil())
	g.Expect(h.failures).To(Equal(1))

	h.bmc.Inspected = true
	h.setEndpoint(endpoint("a", "right"), "3")
	g.Expect(h.bmc.Problem).To(BeNil())
	g.Expect(h.bmc.Inspected).To(BeTrue())

	h.bmc.Busy, h.initializedAt, h.override = true, time.Now(), &v1alpha1.BootOverrideStatus{}
	h.setEndpoint(endpoint("b", "right"), "4")
	g.Expect(h.bmc).To(Equal(lifecycle.BMC{Busy: true}), "another server, and the job at the old one is not over")
	h.initFromStatus(withStatus(&v1alpha1.BMCStatus{Protocol: "that of the other server"}), nil, time.Now())
	g.Expect(h.bmcStatus()).To(BeNil())
}

// TestLastOperation: an operation is the last operation from its start on. While it is retried, the last error stays visible.
func TestLastOperation(t *testing.T) {
	g := NewWithT(t)
	h, noon := &hostObservation{}, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h.noteJobSubmitted(lifecycle.ReadPower, noon)
	g.Expect(h.bmc.Busy).To(BeTrue())
	g.Expect(h.lastOperation()).To(BeNil(), "a read of the power state is not an operation")
	h.noteJobSubmitted(lifecycle.PowerOn, noon)
	g.Expect(h.lastOperation()).To(Equal(&v1alpha1.Operation{Name: "PowerOn", StartTime: truncateToSecond(noon)}))
	h.noteJobEnded()
	h.noteOperation("PowerOn", noon, noon.Add(time.Second), errors.New("no answer"))
	g.Expect(h.lastOperation().Outcome).To(Equal(v1alpha1.OperationFailed))
	h.noteJobSubmitted(lifecycle.PowerOn, noon.Add(time.Minute))
	g.Expect(h.lastOperation()).To(Equal(&v1alpha1.Operation{Name: "PowerOn", StartTime: truncateToSecond(noon.Add(time.Minute)), Message: "no answer"}))
	h.noteJobSubmitted(lifecycle.ForceOff, noon.Add(time.Minute))
	g.Expect(h.lastOperation().Message).To(BeEmpty())
	h.noteJobEnded()
	g.Expect(h.bmc.Busy).To(BeFalse())
	g.Expect(h.lastOperation().Name).To(Equal("PowerOn"))
}

// TestInitFromStatus: the status is read once, and then written from the observation.
func TestInitFromStatus(t *testing.T) {
	g := NewWithT(t)
	h := &hostObservation{}
	status := &v1alpha1.BMCStatus{Protocol: "p", Capabilities: []string{"BootPXE"}, BootOverride: &v1alpha1.BootOverrideStatus{Boot: 2, Target: "PXE"}}
	h.initFromStatus(withStatus(status), nil, time.Now())
	g.Expect(h.bmcStatus()).To(Equal(status))
	g.Expect(h.bmc.OverrideSet).To(BeTrue())
	view := lifecycle.View{Observed: lifecycle.Observed{Furthest: v1alpha1.ObservedStage{Stage: v1alpha1.StageDHCP}}}
	view.Host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}
	view.Host.Boot = &v1alpha1.BareMetalBootSpec{Number: 1, ClaimID: "c"}
	h.noteOverrideWorked(view)
	g.Expect(h.override.Worked).To(BeFalse(), "it was for another attempt")
	view.Host.Boot.Number = 2
	h.noteOverrideWorked(view)
	g.Expect(h.override.Worked).To(BeTrue())
	h.initFromStatus(withStatus(status), nil, time.Now())
	g.Expect(h.override.Worked).To(BeTrue())
	h.override.Worked, view.Observed = false, lifecycle.Observed{}
	view.Host.Boot.DataServedTime, view.Host.Boot.ReportedTime = new(metav1.Now()), new(metav1.Now())
	h.noteOverrideWorked(view)
	g.Expect(h.override.Worked).To(BeTrue(), "the server reported before the status shows a stage: one write has both")
	g.Expect(status.BootOverride.Worked).To(BeFalse(), "it is the cache's")
}

// TestMissingForNetworkBoot: legacy firmware has no HTTP boot.
func TestMissingForNetworkBoot(t *testing.T) {
	g := NewWithT(t)
	can := []string{"PowerOn", "ForceOff", "BootHTTP"}
	g.Expect(missingForNetworkBoot(can, v1alpha1.BootModeUEFI)).To(BeEmpty())
	g.Expect(missingForNetworkBoot(can, v1alpha1.BootModeUEFISecureBoot)).To(BeEmpty())
	g.Expect(missingForNetworkBoot(can, v1alpha1.BootModeBIOS)).To(ConsistOf("BootPXE"))
	g.Expect(missingForNetworkBoot(append(can, "BootPXE"), v1alpha1.BootModeBIOS)).To(BeEmpty())
}

// verbose is an example of a BMC's text: too long, and not valid UTF-8.
var verbose = strings.Repeat("\xff\u00e4", 2000)

// TestClip: the API server accepts the status, whatever a BMC reports.
func TestClip(t *testing.T) {
	g := NewWithT(t)
	h := hardwareStatus(bmc.Inventory{
		Model: verbose, Facts: []bmc.Fact{{Name: bmc.FactCPU, State: bmc.FactKnown, Source: verbose, Message: verbose}}, DIMMs: make([]bmc.DIMM, 1000),
		Disks: slices.Repeat([]bmc.Disk{{Name: verbose, Health: bmc.Health(verbose)}}, 1000),
		NICs:  make([]bmc.NIC, 1000), Devices: make([]bmc.Device, 1000), PowerSupplies: make([]bmc.PowerSupply, 1000),
	})
	for _, n := range []int{len(h.DIMMs), len(h.Disks), len(h.NICs), len(h.Devices), len(h.PowerSupplies)} {
		g.Expect(n).To(Equal(256))
	}
	for _, text := range []string{h.Model, h.Facts[0].Source, h.Facts[0].Message, h.Disks[0].Name} {
		g.Expect(len(text)).To(And(BeNumerically("<=", 256), BeNumerically(">", 250)))
	}
	g.Expect(h.Disks[0].Health).To(BeEmpty(), "a word that is no health")
	facts := &hostObservation{}
	facts.noteOperation("Inspect", time.Now(), time.Now(), failed(bmc.Failed, verbose))
	g.Expect(len(facts.endedOperation.Message)).To(BeNumerically("<=", 1024))
	facts.updateProblem(failed(bmc.Unauthorized, verbose), time.Now())
	g.Expect(facts.bmc.Problem.Message).To(And(ContainSubstring(v1alpha1.RetryBMCAnnotation), Satisfy(func(s string) bool { return len(s) <= 1024 })))

	host := &v1alpha1.BareMetalHost{}
	host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	setConditions(host, lifecycle.View{Host: lifecycle.Host{Spec: host.Spec}, BMC: lifecycle.BMC{Problem: &lifecycle.BMCProblem{Reason: "R", Message: verbose}}},
		lifecycle.Step{Reason: "R", Message: verbose})
	g.Expect(host.Status.Conditions).NotTo(BeEmpty())
	g.Expect(host.Status.Conditions).To(HaveEach(Satisfy(func(c metav1.Condition) bool { return len(c.Message) <= 1024 })))
}

// TestUnansweredCommand: a command without an answer, or with an error, counts for what it may have caused. A server that was to be powered on does not
// count as off. A server that was to be powered off gets its power-on until it was observed off, or was on for long enough.
func TestUnansweredCommand(t *testing.T) {
	lost, refused := failed(bmc.Unreachable, "no answer"), failed(bmc.Failed, "no")
	for name, test := range map[string]struct {
		command lifecycle.Command
		err     error
		last    lifecycle.Command
		unheard bool
	}{
		"on":           {lifecycle.CommandPowerOn, nil, lifecycle.CommandPowerOn, false},
		"on, lost":     {lifecycle.CommandPowerOn, lost, lifecycle.CommandPowerOn, false},
		"on, refused":  {lifecycle.CommandPowerOn, refused, lifecycle.CommandPowerOn, false},
		"off":          {lifecycle.CommandForceOff, nil, lifecycle.CommandForceOff, false},
		"off, lost":    {lifecycle.CommandForceOff, lost, "", true},
		"off, refused": {lifecycle.CommandForceOff, refused, "", false},
		"down":         {lifecycle.CommandShutDown, nil, lifecycle.CommandShutDown, false},
		"down, lost":   {lifecycle.CommandShutDown, lost, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r, j := newTestReconciler(t)
			renewed := *j.endpoint
			renewed.Password = "new" // rotated in the meantime: the server is the same
			r.observations.update(j.key, func(h *hostObservation) { h.setEndpoint(&renewed, "2") })
			g.Expect(errors.Is(r.performer.jobs.executor.recordCommand(j, test.command, test.err), test.err)).To(BeTrue())
			learned := r.observations.get(j.key).bmc
			g.Expect(learned.LastPower).To(Equal(test.last))
			g.Expect(!learned.OffUnansweredAt.IsZero()).To(Equal(test.unheard))
			r.observations.update(j.key, func(h *hostObservation) { h.notePowerState(bmc.PowerOff, r.Clock.Now()) })
			g.Expect(r.observations.get(j.key).bmc.OffUnansweredAt).To(BeZero())
		})
	}
}

func withStatus(status *v1alpha1.BMCStatus) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{BMC: status}}
}

// TestInitInventoryFromStatus: an inventory from before the start of the process is not read again, unless it may be that of another server.
func TestInitInventoryFromStatus(t *testing.T) {
	now := time.Now()
	read := metav1.NewTime(now.Add(-time.Hour).Truncate(time.Second))
	known := func(change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
		h := withStatus(&v1alpha1.BMCStatus{InspectedTime: &read})
		h.Generation, h.Status.ObservedGeneration, h.Status.Hardware = 7, 7, &v1alpha1.Hardware{SystemUUID: "u"}
		change(h)
		return h
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.BareMetalHost)
		want   time.Time
	}{
		"as it was":                {func(*v1alpha1.BareMetalHost) {}, read.Time},
		"the spec changed since":   {func(h *v1alpha1.BareMetalHost) { h.Generation++ }, time.Time{}},
		"without an inventory":     {func(h *v1alpha1.BareMetalHost) { h.Status.Hardware = nil }, time.Time{}},
		"without the time":         {func(h *v1alpha1.BareMetalHost) { h.Status.BMC.InspectedTime = nil }, time.Time{}},
		"the clock was set back":   {func(h *v1alpha1.BareMetalHost) { h.Status.BMC.InspectedTime = new(metav1.NewTime(now.Add(time.Hour))) }, time.Time{}},
		"the status was erased":    {func(h *v1alpha1.BareMetalHost) { h.Status = v1alpha1.BareMetalHostStatus{} }, time.Time{}},
		"of a host that was moved": {func(h *v1alpha1.BareMetalHost) { h.Status, h.Generation = v1alpha1.BareMetalHostStatus{}, 1 }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			h, host := &hostObservation{}, known(c.change)
			h.initFromStatus(host, nil, now)
			g.Expect(h.bmc.Inspected).To(Equal(!c.want.IsZero()))
			g.Expect(h.bmc.InspectedTime).To(BeTemporally("==", c.want))
			g.Expect(h.hardware).To(Equal(host.Status.Hardware), "the identity of the server is kept even if the inventory is read again")
			if h.description != nil {
				g.Expect(h.description.InspectedTime != nil).To(Equal(h.bmc.Inspected), "the next process reads it again if this process does not")
			}
		})
	}
}

// TestMethodOfModel: the method that worked on a server is known for the other servers of its model.
func TestMethodOfModel(t *testing.T) {
	g := NewWithT(t)
	o, r100 := newObservations(), &v1alpha1.Hardware{Manufacturer: "Example", Model: "R100"}
	g.Expect(o.methodOfModel("a", r100, "")).To(BeEmpty())
	g.Expect(o.methodOfModel("a", r100, v1alpha1.MethodVirtualMedia)).To(Equal(v1alpha1.MethodVirtualMedia))
	g.Expect(o.methodOfModel("a", r100, "")).To(Equal(v1alpha1.MethodVirtualMedia))
	g.Expect(o.methodOfModel("a", &v1alpha1.Hardware{Manufacturer: "Another", Model: "R100"}, "")).To(BeEmpty())
	g.Expect(o.methodOfModel("b", r100, "")).To(BeEmpty(), "a BMC of another tenant may claim any model")
	g.Expect(o.methodOfModel("a", &v1alpha1.Hardware{}, v1alpha1.MethodPXE)).To(BeEmpty(), "without a model")
	g.Expect(o.methodOfModel("a", nil, v1alpha1.MethodPXE)).To(BeEmpty())
}
