package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// event is something that happens to a world.
type event struct {
	name   string
	weight int
	when   func(*world) bool
	do     func(w *world, p uint64)
	// undo ends what a toggle began, if it did; nil for an event that is no toggle.
	undo func(*world)
}

func always(*world) bool       { return true }
func hasMachine(w *world) bool { return w.machine() != nil }
func isFree(w *world) bool     { return !w.v.Host.Claimed() }

// claimContinues is true while the host's machine is not being deleted.
func claimContinues(w *world) bool { return hasMachine(w) && !w.machine().Deleting }

// choose picks a value by a number.
func choose[T any](p uint64, from ...T) T { return from[p%uint64(len(from))] }

// toggle is an event that sets something, or removes it again.
func toggle(name string, weight int, isSet func(*world) bool, set func(w *world, p uint64), unset func(*world)) event {
	undo := func(w *world) {
		if isSet(w) {
			unset(w)
		}
	}
	return event{name, weight, always, func(w *world, p uint64) {
		if isSet(w) {
			unset(w)
		} else {
			set(w, p)
		}
	}, undo}
}

// protections are the events by which users and Cluster API protect a host. All of them can be undone at once.
var protections = []event{
	toggle("maintenance", 3, func(w *world) bool { return w.v.Host.Spec.Maintenance != nil },
		func(w *world, _ uint64) { w.v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} },
		func(w *world) { w.v.Host.Spec.Maintenance = nil }),
	toggle("externally provisioned", 5, func(w *world) bool { return w.v.Host.Spec.ExternallyProvisioned },
		func(w *world, _ uint64) { w.v.Host.Spec.ExternallyProvisioned = true },
		func(w *world) { w.v.Host.Spec.ExternallyProvisioned, w.dirty, w.disk.begun = false, false, false }), // the user checked the server
	toggle("detached", 3, func(w *world) bool { return w.v.Requests.Detached.Set },
		func(w *world, _ uint64) { w.v.Requests.Detached = by("anna: moves racks") },
		func(w *world) { w.v.Requests.Detached = Annotation{} }),
	toggle("the provider runs on the server", 2, func(w *world) bool { return w.v.Provider.RunsHere },
		func(w *world, p uint64) {
			w.v.Provider.RunsHere, w.v.Requests.PowerOffProvider = true, choose(p, Annotation{}, Annotation{}, by("anna: the rack moves"))
		},
		func(w *world) { w.v.Provider.RunsHere, w.v.Requests.PowerOffProvider = false, Annotation{} }),
	toggle("host paused", 2, func(w *world) bool { return w.v.Host.Paused },
		func(w *world, _ uint64) { w.v.Host.Paused = true },
		func(w *world) { w.v.Host.Paused = false }),
	toggle("quarantine", 2, func(w *world) bool { return w.v.Host.Spec.Quarantine != nil },
		func(w *world, _ uint64) { w.v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Broken"} },
		func(w *world) {
			w.v.Host.Spec.Quarantine, w.dirty, w.disk.begun, w.disk.data = nil, false, false, false
		}), // the user checked the server, and wiped its disks
	toggle("machine or Cluster paused", 3, func(w *world) bool { return hasMachine(w) && w.machine().Paused },
		func(w *world, _ uint64) {
			if hasMachine(w) {
				w.change(func(c *Consumer) { c.Paused = true })
			}
		},
		func(w *world) { w.change(func(c *Consumer) { c.Paused = false }) }),
	toggle("the Cluster is missing", 2, func(w *world) bool { return hasMachine(w) && !w.machine().ClusterFound },
		func(w *world, _ uint64) {
			if hasMachine(w) {
				w.change(func(c *Consumer) { c.ClusterFound = false })
			}
		},
		func(w *world) { w.change(func(c *Consumer) { c.ClusterFound = true }) }),
	toggle("the machine is missing", 3, func(w *world) bool { return w.absent != nil }, func(w *world, _ uint64) {
		if hasMachine(w) {
			w.absent, w.v.Consumer = w.v.Consumer, &Consumer{}
		}
	}, func(w *world) { w.v.Consumer, w.absent = w.absent, nil }),
	toggle("the machine has another claim", 1, func(w *world) bool { return hasMachine(w) && w.machine().ProviderID == "baremetal://dc/other/m" },
		func(w *world, _ uint64) {
			if claimContinues(w) {
				w.change(func(c *Consumer) { c.ProviderID = "baremetal://dc/other/m" })
			}
		},
		func(w *world) {
			w.change(func(c *Consumer) {
				c.ProviderID = ""
				if b := cmp.Or(w.lostBoot, w.v.Host.CurrentBoot()); w.seeded && (b == nil || b.ReportedTime != nil) {
					c.ProviderID = "baremetal://dc/host-1/" + w.v.Host.Spec.ConsumerRef.Name
				}
			})
		}),
	toggle("the record of the boot is lost", 2, func(w *world) bool { return w.lostBoot != nil }, (*world).loseBoot, (*world).restoreBoot),
	toggle("a move deletes the machine", 1, func(w *world) bool { return hasMachine(w) && w.machine().DeletedForMove },
		func(w *world, _ uint64) {
			if claimContinues(w) && w.allowsMove() {
				w.change(func(c *Consumer) { c.Deleting, c.DeletedForMove, c.DeletingSince = true, true, w.v.Now })
			}
		},
		func(w *world) { w.move() }),
}

// allowsMove pauses the Cluster, as `clusterctl move` does before it looks, and is true if the host does not block the move then.
func (w *world) allowsMove() bool {
	if w.v.Host.MoveBlocked && hasMachine(w) && w.absent == nil {
		before := w.machine().Paused
		w.change(func(c *Consumer) { c.Paused = true })
		if w.reconcile(); hasMachine(w) {
			w.change(func(c *Consumer) { c.Paused = before })
		}
	}
	return !w.v.Host.MoveBlocked
}

// move is the result of `clusterctl move`: the host and its machine are recreated without a status, and the provider has no readings.
func (w *world) move() {
	if w.v.Host.MoveBlocked {
		return
	}
	if hasMachine(w) && w.machine().DeletedForMove {
		w.change(func(c *Consumer) { c.Deleting, c.DeletedForMove, c.DeletingSince = false, false, time.Time{} })
	}
	w.v.Host.Deleting, w.v.Host.DeletedForMove, w.v.Host.NamespaceDeleting, w.phase = false, false, false, ""
	w.eraseStatus()
	w.restart()
	w.v.BMC.OverrideSet = false
	w.v.Erasure.Request = nil // the host has another UID
}

// events are all other events.
var events = []event{
	{name: "time passes", weight: 40, when: always, do: func(w *world, p uint64) {
		w.pass(choose(p, time.Second, 3*time.Second, 8*time.Second, 8*time.Second, 30*time.Second, time.Minute, 3*time.Minute, 12*time.Minute))
	}},
	{name: "much time passes", weight: 1, when: always, do: func(w *world, _ uint64) { w.pass(40 * time.Minute) }},
	{name: "all interventions end", weight: 14, when: always, do: func(w *world, _ uint64) { w.endInterventions() }},
	{name: "the BMC recovers", weight: 8, when: always, do: func(w *world, _ uint64) { w.bmcRecovers() }},
	{name: "the boot advances", weight: 24, when: always, do: func(w *world, p uint64) {
		for range 1 + p%7 {
			if !w.advanceBoot() {
				return
			}
			w.pass(time.Second)
		}
	}},

	{name: "the boot completes", weight: 12, when: claimContinues, do: func(w *world, p uint64) {
		w.bmcRecovers()
		w.change(func(c *Consumer) { c.BootstrapReady = true })
		w.v.Observed.Image.Ready = true
		for range 10 + p%20 {
			w.reconcile()
			w.pass(2 * time.Second)
			w.advanceBoot()
		}
	}},
	{name: "the server is being cleaned", weight: 5, when: func(w *world) bool { return hasMachine(w) && !claimContinues(w) }, do: func(w *world, _ uint64) {
		w.bmcRecovers()
		w.stuckMedia = true
		for range 60 {
			if w.reconcile(); w.visited == StateCleaning {
				return
			}
			w.pass(2 * time.Second)
		}
	}},

	{name: "a server that reported in goes off in maintenance", weight: 2, when: func(w *world) bool {
		return claimContinues(w) && w.v.Host.CurrentBoot() != nil && w.v.Host.Boot.ReportedTime != nil && w.machine().ProviderID == ""
	}, do: func(w *world, _ uint64) {
		w.bmcRecovers()
		w.endInterventions()
		w.v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"}
		w.switchTo(false, 0)
		w.reconcile()
		w.pass(12 * time.Minute)
		w.v.Host.Spec.Maintenance = nil
		w.reconcile()
		w.advanceBoot()
	}},
	{name: "a free host in quarantine is paused for a moment", weight: 1, when: isFree, do: func(w *world, _ uint64) {
		w.endInterventions()
		w.v.Host.Paused, w.v.Host.Spec.Quarantine = true, &v1alpha1.Quarantine{Reason: "Broken"}
		w.reconcile()
		w.v.Host.Paused = false
	}},
	{name: "a machine claims the host", weight: 30, when: func(w *world) bool { return isFree(w) && w.claimable() }, do: func(w *world, p uint64) { w.claim(p) }},
	{name: "the bootstrap data is ready", weight: 30, when: func(w *world) bool { return hasMachine(w) && !w.machine().BootstrapReady }, do: func(w *world, _ uint64) {
		w.change(func(c *Consumer) { c.BootstrapReady = true })
	}},
	{name: "the machine is deleted", weight: 5, when: claimContinues, do: func(w *world, _ uint64) {
		w.change(func(c *Consumer) { c.Deleting, c.DeletingSince = true, w.v.Now })
	}},
	{name: "the Machine is being deleted", weight: 1, when: claimContinues, do: func(w *world, _ uint64) { w.change(func(c *Consumer) { c.OwnerDeleting = true }) }},
	{name: "the host is moved", weight: 3, when: func(w *world) bool { return !w.v.Host.Deleting }, do: func(w *world, p uint64) {
		if !w.allowsMove() {
			return
		}
		w.move()
		if hasMachine(w) && w.absent == nil && p%2 == 0 {
			w.absent, w.v.Consumer = w.v.Consumer, &Consumer{} // the machine is moved later
		}
	}},
	{name: "a move forgets that the machine is being deleted", weight: 8, when: func(w *world) bool { return hasMachine(w) && !claimContinues(w) }, do: func(w *world, p uint64) {
		if !w.allowsMove() || !hasMachine(w) {
			return
		}
		w.change(func(c *Consumer) { c.Deleting, c.DeletingSince = false, time.Time{} })
		w.move()
		w.reconcile()
		if p%2 == 0 {
			w.pass(time.Minute)
			if hasMachine(w) {
				w.change(func(c *Consumer) { c.Deleting, c.DeletingSince = true, w.v.Now })
			}
		}
	}},
	{name: "a move deletes the host", weight: 2, when: always, do: func(w *world, _ uint64) {
		if w.allowsMove() {
			w.v.Host.Deleting, w.v.Host.DeletedForMove = true, true
		}
	}},
	{name: "the host is deleted", weight: 3, when: always, do: func(w *world, p uint64) {
		w.v.Host.Deleting = true
		if p%3 == 0 {
			w.v.Requests.Detached = by("anna: sold it")
		}
	}},
	{name: "the namespace is deleted", weight: 1, when: func(w *world) bool { return w.v.Host.Deleting }, do: func(w *world, _ uint64) { w.v.Host.NamespaceDeleting = true }},
	{name: "release-unfenced", weight: 1, when: func(w *world) bool { return !isFree(w) }, do: func(w *world, _ uint64) { w.v.Requests.ReleaseUnfenced = by("anna: burnt") }},
	{name: "releaseUnfencedAfterSeconds", weight: 1, when: always, do: func(w *world, p uint64) {
		w.v.Host.Spec.ReleaseUnfencedAfterSeconds = choose(p, nil, nil, new(int32(300)))
	}},
	{name: "cleaningPolicy", weight: 2, when: always, do: func(w *world, p uint64) {
		w.v.Host.Spec.CleaningPolicy = choose(p, wire.PolicyNone, wire.PolicyManual, wire.PolicyMetadata, wire.PolicyClear, wire.PolicyPurge)
	}},
	{name: "spec.power", weight: 4, when: always, do: func(w *world, p uint64) {
		w.v.Host.Spec.Power = choose(p, "", v1alpha1.PowerOff, v1alpha1.PowerOff, v1alpha1.PowerOn)
	}},
	{name: "retry-bmc", weight: 2, when: always, do: func(w *world, _ uint64) { w.v.Requests.RetryBMC = true }},
	toggle("a power hold", 4, func(w *world) bool { return len(w.v.Host.Spec.PowerHolds) > 0 },
		func(w *world, p uint64) {
			w.v.Host.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "remediation", Reason: "r", Force: p%2 == 0}}
		},
		func(w *world) { w.v.Host.Spec.PowerHolds = nil }),
	toggle("a power hold by annotation", 3, func(w *world) bool { return len(w.v.Requests.Power.Holds) > 0 }, func(w *world, p uint64) {
		w.request("hold/anna", func(r *PowerRequests) { r.Holds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "r", Force: p%2 == 0}} })
	}, func(w *world) { w.drop("hold/anna") }),
	{name: "a power cycle", weight: 3, when: always, do: func(w *world, _ uint64) {
		if len(w.v.Requests.Power.Cycles) == 0 {
			w.request("cycle/anna", func(r *PowerRequests) { r.Cycles = []string{"cycle/anna"} })
		}
	}},
	{name: "a power-on request", weight: 3, when: always, do: func(w *world, _ uint64) {
		if len(w.v.Requests.Power.On) == 0 {
			w.request("on/anna", func(r *PowerRequests) { r.On = []string{"on/anna"} })
		}
	}},

	{name: "somebody presses the button", weight: 3, when: always, do: func(w *world, _ uint64) { w.uncertain, w.trueReadings = true, 0; w.switchTo(!w.on, 0) }},
	{name: "the power fails", weight: 2, when: func(w *world) bool { return w.on }, do: func(w *world, _ uint64) { w.switchTo(false, 0) }},
	{name: "the server restarts", weight: 3, when: func(w *world) bool { return w.on }, do: func(w *world, _ uint64) {
		w.switchTo(false, 0)
		w.switchTo(true, 0)
		w.v.Observed.RestartedAt = w.v.Now
	}},
	{name: "the Node is lost", weight: 3, when: func(w *world) bool { return !w.v.Observed.RestartedAt.IsZero() && !w.runs }, do: func(w *world, _ uint64) { w.v.Observed.NodeLostAt = w.v.Now }},
	{name: "the server waits for a network slot", weight: 6, when: (*world).waitsForSlot, do: func(w *world, p uint64) {
		for range 1 + p%20 {
			if !w.waitsForSlot() {
				return
			}
			w.v.Observed.WaitedAt = w.v.Now
			w.v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageWaiting, Time: metav1.NewTime(w.v.Now)}
			w.reconcile()
			w.pass(time.Minute)
		}
	}},
	{name: "the boot server has a problem", weight: 1, when: func(w *world) bool { return w.v.Host.CurrentBoot() != nil }, do: func(w *world, p uint64) {
		w.v.Observed.Problem = choose(p, nil, &v1alpha1.BootFailure{Reason: "NoImage", Message: "there is none"})
	}},

	{name: "the BMC's mood", weight: 8, when: always, do: func(w *world, p uint64) {
		w.mood = choose(p, obeys, obeys, pretends, refuses, away, rejects, garbles, silent)
		w.latency = time.Duration(p/8%16) * time.Second
		w.ignoresShutDown, w.noShutDown, w.stuckMedia, w.showsTransitions = p/128%3 == 0, p/384%4 == 0, p/2048%3 == 0, p/8192%2 == 0
	}},
	{name: "boot methods do not work", weight: 6, when: always, do: func(w *world, p uint64) {
		w.deaf = choose(p, nil, defaultMethods[:1], defaultMethods[1:], defaultMethods[2:], defaultMethods)
		w.fetches = p/8%2 == 0
	}},
	{name: "spec.bootMethods", weight: 2, when: always, do: func(w *world, p uint64) {
		w.v.Host.Spec.BootMethods = choose(p, nil, nil, []v1alpha1.BootMethod{v1alpha1.MethodVirtualMedia, v1alpha1.MethodPXE}, []v1alpha1.BootMethod{v1alpha1.MethodUefiHTTP, v1alpha1.MethodPXE})
	}},
	{name: "no request comes", weight: 4, when: func(w *world) bool { return w.v.Host.Boot != nil && w.v.Provider.MediaURL != "" }, do: func(w *world, _ uint64) {
		w.bmcRecovers()
		w.deaf, w.fetches = defaultMethods, false
		for range 4 {
			w.reconcile()
			w.pass(2 * time.Minute)
		}
	}},
	toggle("the Secret is missing", 2, func(w *world) bool { return w.noSecret }, func(w *world, _ uint64) { w.noSecret = true }, func(w *world) { w.noSecret = false }),
	toggle("the BMC cannot boot it", 1, func(w *world) bool { return len(w.v.BMC.Missing) > 0 },
		func(w *world, _ uint64) { w.v.BMC.Missing = []string{"BootPXE"} }, func(w *world) { w.v.BMC.Missing = nil }),
	toggle("a machine says that it runs there", 1, func(w *world) bool { return w.v.Claims.UnrecordedConsumer != "" },
		func(w *world, _ uint64) { w.v.Claims.UnrecordedConsumer = "m-0" }, func(w *world) { w.v.Claims.UnrecordedConsumer = "" }),
	toggle("another host has the MAC address", 1, func(w *world) bool { return w.v.Identity.MACTakenBy != nil },
		func(w *world, _ uint64) { w.v.Identity.MACTakenBy = otherHost("host-2") }, func(w *world) { w.v.Identity.MACTakenBy = nil }),
	toggle("another host has the BMC", 1, func(w *world) bool { return w.v.Identity.BMCTakenBy != nil },
		func(w *world, _ uint64) { w.v.Identity.BMCTakenBy = otherHost("host-2") }, func(w *world) { w.v.Identity.BMCTakenBy = nil }),
	toggle("the configuration does not permit it", 1, func(w *world) bool { return w.v.Identity.NotPermitted != nil },
		func(w *world, _ uint64) { w.v.Identity.NotPermitted = errNotPermitted }, func(w *world) { w.v.Identity.NotPermitted = nil }),
	toggle("another host has the board", 1, func(w *world) bool { return w.v.Identity.HardwareTakenBy != nil },
		func(w *world, _ uint64) { w.v.Identity.HardwareTakenBy = otherHost("host-2") }, func(w *world) { w.v.Identity.HardwareTakenBy = nil }),
	toggle("the BMC reports another server", 1, func(w *world) bool { return w.v.Identity.Replacement != nil },
		func(w *world, _ uint64) { w.v.Identity.Replacement = anotherServer() }, func(w *world) { w.v.Identity.Replacement = nil }),
	toggle("the machine has another host", 1, func(w *world) bool { return len(w.v.Claims.SharesConsumerWith) > 0 },
		func(w *world, _ uint64) { w.v.Claims.SharesConsumerWith = []string{"host-2"} }, func(w *world) { w.v.Claims.SharesConsumerWith = nil }),
	toggle("the boot queue is full", 3, func(w *world) bool { return w.v.QueuePosition != nil },
		func(w *world, p uint64) { w.v.QueuePosition = &QueuePosition{Number: 1 + int(p%100), Booting: 250} }, func(w *world) { w.v.QueuePosition = nil }),
	{name: "the BareMetalBoot is deleted", weight: 2, when: func(w *world) bool { return w.v.Host.Boot != nil }, do: func(w *world, _ uint64) {
		w.v.Host.BootDeleting = true
		if w.v.Host.StrayBoot() != nil {
			w.dirty = false // the user who deletes it checked the server
		}
	}},
	{name: "somebody clears spec.consumerRef", weight: 1, when: func(w *world) bool { return w.visited == StateBooting && w.absent == nil }, do: func(w *world, _ uint64) {
		w.v.Claims.BootMachinePending = w.seeded
		w.v.Host.Spec.ConsumerRef, w.v.Consumer, w.lostBoot, w.v.Host.MoveBlocked = nil, nil, nil, false
		w.disk.used = false                         // the claim has ended
		w.dirty = w.dirty && !w.v.Host.BootDeleting // the user who also deleted the record took the server from the machine permanently
	}},
	{name: "the machine of a stray boot is deleted", weight: 1, when: func(w *world) bool { return w.v.Claims.BootMachinePending }, do: func(w *world, _ uint64) { w.v.Claims.BootMachinePending = false }},
	{name: "the provider halts after a write", weight: 5, when: always, do: func(w *world, p uint64) { w.halt = 1 + int(p%3) }},
	{name: "the provider restarts", weight: 5, when: always, do: func(w *world, _ uint64) { w.restart() }},
	{name: "the status is erased", weight: 3, when: always, do: func(w *world, _ uint64) { w.eraseStatus(); w.restart(); w.v.BMC.OverrideSet = false }},
}

// weightedEvents are all events, each as often as its weight.
var weightedEvents = func() []event {
	var all []event
	for _, h := range slices.Concat(events, agentEvents, requestEvents, settingsEvents, protections) {
		for range h.weight {
			all = append(all, h)
		}
	}
	return all
}()

// apply applies one event, which a number picks.
func (w *world) apply(lot uint64) {
	lot = mix(lot)
	h := weightedEvents[lot%uint64(len(weightedEvents))]
	if !h.when(w) {
		h = events[0]
	}
	w.applyEvent(h, lot>>16)
}

// applyEvent applies one event, and reconciles the host.
func (w *world) applyEvent(h event, p uint64) {
	w.notef("- %s", h.name)
	h.do(w, p)
	if w.v.Host.NamespaceDeleting && w.v.Host.Claimed() && w.absent == nil && w.v.Consumer.Found && !w.v.Consumer.Deleting {
		w.change(func(c *Consumer) { c.Deleting, c.DeletingSince = true, w.v.Now })
	}
	w.reconcile()
	if w.gone {
		w.recreate()
	}
	w.seen.keep(w)
}

// kind classifies worlds by what decides their next states: the state, the state that the host would have without protections and without the deletion
// of its machine, and some facts.
type kind struct {
	state, beneath                                             State
	memory, off, cleaning, external, blocked, quarantined, run bool
}

func (w *world) kind() kind {
	bare := *w
	bare.endInterventions()
	bare.v.Host.Spec.Quarantine = w.v.Host.Spec.Quarantine
	if c := bare.machine(); c != nil {
		bare.change(func(c *Consumer) { c.Deleting = false })
	}
	v := bare.view()
	memory := v.Consumer != nil && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral
	return kind{w.visited, StateOf(v), memory, v.offLongEnough(), v.Host.Spec.ProviderState.CleaningStartTime != nil, w.v.Host.Spec.ExternallyProvisioned, v.Host.MoveBlocked, w.v.Host.Spec.Quarantine != nil, v.Host.settingsRunOpen()}
}

// perKind is how many worlds of each kind are continued.
const perKind = 3

// keep keeps a world if the pool has fewer than perKind of its kind.
func (t *tally) keep(w *world) {
	k := w.kind()
	if pool := t.pool[k]; len(pool) < perKind {
		t.pool[k] = append(pool, *w)
	}
}

// mix spreads the numbers that rapid draws, which are mostly small, over all numbers.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// recreate continues after the object is gone, with the same host in the cluster that it was moved to, or with a new registration.
func (w *world) recreate() {
	w.gone, w.visited = false, ""
	if w.v.Host.DeletedForMove {
		w.move()
		return
	}
	w.notef("the server is registered again")
	w.v = View{
		Now: w.v.Now, Host: Host{Namespace: w.v.Host.Namespace, Name: w.v.Host.Name, Spec: v1alpha1.BareMetalHostSpec{BootMACAddresses: []string{w.v.Host.Spec.BootMACAddresses[0]}}, Boot: w.v.Host.Boot, BootDeleting: w.v.Host.Boot != nil},
		Claims:  Claims{BootMachinePending: w.v.Claims.BootMachinePending}, // the garbage collector deletes the boot
		Erasure: Erasure{SerialNumber: "SN1"},
	}
	w.lostBoot, w.lostRun, w.disk.used, w.disk.begun, w.firmware.offered = nil, nil, false, false, false // the garbage collector deletes the record
	w.absent, w.job, w.requeueAt, w.dirty, w.seeded, w.runs, w.installed, w.phase, w.netAt = nil, nil, time.Time{}, false, false, false, false, "", time.Time{}
	w.reconcile()
}

func (w *world) request(key string, want func(*PowerRequests)) {
	want(&w.v.Requests.Power)
	w.v.Requests.Power.All = append(slices.Clone(w.v.Requests.Power.All), key)
}

// endInterventions ends everything that protects the host from the provider, or keeps the machine from continuing.
func (w *world) endInterventions() {
	for _, p := range slices.Concat(protections, settingsEvents) {
		if p.undo != nil {
			p.undo(w)
		}
	}
	w.v.Identity.NotPermitted = nil
	w.v.Identity.MACTakenBy, w.v.Identity.BMCTakenBy, w.v.Identity.HardwareTakenBy, w.v.Identity.Replacement, w.v.Claims.SharesConsumerWith, w.v.Claims.UnrecordedConsumer, w.noSecret = nil, nil, nil, nil, nil, "", false
	w.v.Claims.BootMachinePending, w.v.Host.BootHasForeignFinalizer = false, false
	w.v.QueuePosition, w.v.Host.PausedCluster, w.recordFails, w.recordUnproven, w.v.Erasure.Machine, w.v.Erasure.SerialNumber = nil, "", false, false, nil, "SN1"
}

// claimable is true when the host's status and spec allow a claim.
func (w *world) claimable() bool {
	return w.last.Phase == v1alpha1.PhaseAvailable && w.inService()
}

// inService is true for a free host that nobody has taken out of service.
func (w *world) inService() bool { return w.inServiceAt(StateFree) }

// inServiceAt is inService for a host in a state.
func (w *world) inServiceAt(state State) bool {
	s := w.v.Host.Spec
	return w.last.State == state && !w.v.Host.Deleting && !w.v.Requests.Detached.Set && !s.ExternallyProvisioned &&
		s.Maintenance == nil && s.Quarantine == nil && len(s.PowerHolds) == 0 && len(w.v.Requests.Power.Holds) == 0
}

func (w *world) claim(p uint64) {
	w.machines++
	w.v.Host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: fmt.Sprintf("m-%d", w.machines), ClaimID: fmt.Sprintf("claim-%d", w.machines), BootsBefore: w.v.Host.Spec.ProviderState.Boots}
	w.v.Host.Spec.ConsumerRef.CleaningPolicy = choose(p/24, "", "", wire.PolicyMetadata, wire.PolicyPurge)
	w.v.Consumer = &Consumer{
		Found: true, ClusterFound: true, BootstrapReady: p%2 == 0,
		Persistence: choose(p/2, v1alpha1.PersistenceInstalled, v1alpha1.PersistenceEphemeral),
	}
	if p/4%3 == 0 {
		w.v.Consumer.Image, w.v.Consumer.Persistence, w.v.Observed.Image.Ready = true, v1alpha1.PersistenceInstalled, p/12%2 == 0
	}
	w.seeded, w.runs, w.installed, w.disk.bootable, w.disk.ran, w.disk.used = false, false, false, false, 0, false
}

// loseBoot replaces the record of a boot, as a restore does from a backup that lacks it, is older than the host, or has another claim's record.
func (w *world) loseBoot(p uint64) {
	if w.v.Host.Boot == nil || w.v.Host.Spec.ProviderState.Boots == 0 || !w.v.Host.Claimed() || w.v.Host.Boot.Number != w.v.Host.Spec.ProviderState.Boots || w.absent != nil {
		return
	}
	w.lostBoot = w.v.Host.Boot
	w.v.Host.Boot = choose(p, nil, &v1alpha1.BareMetalBootSpec{Number: w.v.Host.Boot.Number - 1},
		&v1alpha1.BareMetalBootSpec{Number: w.v.Host.Boot.Number, ClaimID: "claim-0", MachineName: "m-0", PoweredOffTime: &metav1.Time{Time: w.v.Now}})
	// Nothing else shows that the disks of an earlier machine were not erased.
	w.disk.data = w.disk.data && w.v.Consumer.Image && w.view().mayHaveBooted()
}

// restoreBoot restores the record of a boot whose claim still exists.
func (w *world) restoreBoot() {
	lost := w.lostBoot
	w.lostBoot = nil
	if now := w.v.Host.Boot; w.v.Host.Claimed() && (now == nil || now.Number < lost.Number || now.ClaimID == "claim-0" && now.VoidedTime == nil) {
		w.v.Host.Boot = lost
	}
}

// bmcRecovers makes the BMC obey from now on.
func (w *world) bmcRecovers() {
	w.deaf, w.fetches = nil, true
	w.mood, w.latency, w.ignoresShutDown, w.noShutDown, w.stuckMedia, w.noSecret, w.v.BMC.Missing = obeys, 3*time.Second, false, false, false, false, nil
}
