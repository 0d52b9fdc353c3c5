// Package matrix holds the provider against faults: every fault at every step of a host's life where it makes sense. Each case has a namespace, a
// provider and a server of its own. docs/development/faults.md is the table for readers.
package matrix

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/shard"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

var env *controllerstest.Env

// full is true where every case is to run, and not a shard: some cases take longer then.
var full = os.Getenv("SHARD") == "all"

// faults are the rows of the matrix.
func faults() []fault {
	return slices.Concat(apiFaults, bmcFaults(), lifeFaults, deletions, recordFaults, agentFaults, erasureFaults)
}

// pair is a case of the matrix.
type pair struct {
	fault fault
	step  step
}

func (p pair) String() string { return p.fault.name + " / " + p.step.name }

// coverage is what became of each case.
type coverage struct {
	mu   sync.Mutex
	done map[string]string
}

var covered = &coverage{done: map[string]string{}}

// end notes how a case ended.
func (c *coverage) end(t *testing.T, p pair) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[p.String()] = "ok"
	if t.Failed() {
		c.done[p.String()] = "FAIL"
	}
	fmt.Printf("%4d %-4s %s\n", len(c.done), c.done[p.String()], p)
}

// print prints the table: a row for each fault, a column for each step.
func (c *coverage) print(to io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := map[string]int{}
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "%2d = %s\n", i+1, s.name)
	}
	fmt.Fprintf(&b, "%-42s", "fault / step")
	for i := range steps {
		fmt.Fprintf(&b, "%5d", i+1)
	}
	b.WriteString("\n")
	for _, f := range faults() {
		fmt.Fprintf(&b, "%-42s", f.name)
		for _, s := range steps {
			p := pair{f, s}
			what := cmp.Or(c.done[p.String()], "-")
			if p.na() != "" {
				what = "n/a"
			}
			count[what]++
			fmt.Fprintf(&b, "%5s", what)
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "ok %d, failed %d, not run %d, n/a %d\n", count["ok"], count["FAIL"], count["-"], count["n/a"])
	_, _ = io.WriteString(to, b.String())
}

func (p pair) na() string {
	if p.fault.na == nil {
		return ""
	}
	return p.fault.na(p.step)
}

// cases are the cases that make sense, but those of faults with a test of their own.
func cases() []pair {
	var all []pair
	for _, f := range faults() {
		for _, s := range steps {
			if p := (pair{f, s}); !f.alone && p.na() == "" {
				all = append(all, p)
			}
		}
	}
	return all
}

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

// chosen are the cases that are to run: those whose name contains one of the parts in MATRIX_CASE, or those of the shard that SHARD names, with those in
// testdata/always.txt. SHARD=all is all.
func chosen(t *testing.T) []pair {
	t.Helper()
	all := cases()
	if part := os.Getenv("MATRIX_CASE"); part != "" {
		return slices.DeleteFunc(all, func(p pair) bool {
			return !slices.ContainsFunc(strings.Split(part, ","), func(part string) bool { return strings.Contains(p.String(), part) })
		})
	}
	if shard.Unset() {
		// go test ./... must not take hours: the targets of make set SHARD, and CI runs them.
		t.Skip("SHARD selects a part of the suite, or all: make test-system, or make matrix-full") // minutes of processes: go test ./... stays quick
	}
	always := always(t)
	return slices.DeleteFunc(all, func(p pair) bool { return !always.Selected(p.String()) })
}

// always are the cases that every run has.
func always(t *testing.T) shard.Always {
	t.Helper()
	list, err := shard.ReadAlways("testdata/always.txt")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return list
}

// TestMatrix runs the cases. go test's -parallel says how many at once.
func TestMatrix(t *testing.T) {
	selected := chosen(t)
	startNamespaces(t)
	began := time.Now()
	t.Cleanup(func() { fmt.Printf("%d cases took %s\n", len(covered.done), time.Since(began).Round(time.Second)) })
	for _, p := range selected {
		t.Run(p.String(), func(t *testing.T) {
			t.Parallel()
			t.Cleanup(func() { covered.end(t, p) })
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("rerun: MATRIX_CASE='%s' go test -count=1 ./hack/endure/matrix -run TestMatrix -v", p)
				}
			})
			p.run(t)
		})
	}
}

// run runs a case.
func (p pair) run(t *testing.T) {
	t.Helper()
	persistence := v1alpha1.PersistenceInstalled
	if p.fault.inMemory || p.even() && !p.fault.offIsLoss() && !p.step.is(heldOff) && !p.step.is(withAgent...) {
		persistence = v1alpha1.PersistenceEphemeral
	}
	l := newLife(t, persistence, p.step, p.fault)
	t.Cleanup(l.letGo)
	if p.fault.shape {
		p.fault.inject(l, p.step)
	}
	p.step.bring(l)
	if !p.fault.shape {
		p.fault.inject(l, p.step)
	}
	if p.fault.name == "namespace deleted" && p.step.name != registering {
		l.letGo() // there may be nothing left to change
	} else {
		p.step.proceed(l)
	}
	if p.fault.during != nil {
		p.fault.during(l, p.step)
	}
	if !p.fault.stays {
		l.endFault()
	}
	if p.fault.want != nil {
		p.fault.want(l, p.step)
	} else {
		l.reach(p.step.end)
	}
	l.endFault()
	l.atRest()
	l.check(p.step)
	l.finish()
}

// even splits the cases into two halves.
func (p pair) even() bool {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(p.String()))
	return sum.Sum32()%2 == 0
}

// offIsLoss is true for a fault that costs a machine in memory its life, as holding it off does.
func (f *fault) offIsLoss() bool { return strings.HasPrefix(f.name, "power lost") }

func (l *life) endFault() {
	l.Helper()
	l.api.Clear()
	for _, stop := range l.stops {
		stop()
	}
	l.stops = nil
	l.api.Clear()
}

// atRest waits until nothing is written to the host any more, its BMC is well, and says what it waits for.
func (l *life) atRest() {
	l.Helper()
	if !l.exists(l.server.Host) {
		return
	}
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.BMCReadyCondition)).To(BeTrue())
	})
	version, since := "", time.Now()
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		if h.ResourceVersion != version {
			version, since = h.ResourceVersion, time.Now()
		}
		g.Expect(time.Since(since)).To(BeNumerically(">", 2*time.Second), "%s: something is still written", promise.Ends)
	})
	l.explained()
}

// explained demands that whatever is not well says why.
func (l *life) explained() {
	l.Helper()
	for _, c := range l.host().Status.Conditions {
		tells := slices.Contains([]string{v1alpha1.ReadyCondition, v1alpha1.BootedCondition, v1alpha1.BootProgressCondition}, c.Type)
		if tells && c.Status != metav1.ConditionTrue && c.Reason != v1alpha1.ReasonBMCNotContacted {
			l.Expect(c.Message).NotTo(BeEmpty(), "%s: %s is %s for the reason %s, without a word", promise.Explained, c.Type, c.Status, c.Reason)
		}
	}
}

// check demands what holds after every fault: no command to a server that ran its machine, no power cycle too many, bootstrap data given out once,
// and no machine with two hosts.
func (l *life) check(s step) {
	l.Helper()
	for _, c := range l.server.Commands() {
		for _, w := range l.quiet {
			inside := c.At.After(w.from) && (w.to.IsZero() || c.At.Before(w.to))
			l.Expect(inside && !strings.HasPrefix(c.Name, "Boot=")).To(BeFalse(), "%s: %s at %s, while it ran its machine: %s", promise.Command, c.Name, c.At, l.story())
		}
	}
	erasures := 0
	if s.is(writing, written, bootable) && !l.exists(l.claim.BareMetalMachine) {
		erasures = 1 // the release boots the server once more to erase the disk that the agent wrote
	}
	ons, _ := l.server.Switched()
	l.Expect(ons).To(BeNumerically("<=", s.ons+l.extraOns+l.furtherAttempts()+erasures), "%s: it was switched on too often: %v: %s", promise.PowerCycle, l.ons, l.story())
	l.Expect(len(l.server.Lives())).To(BeNumerically("<=", 1), promise.Data)
	var hosts v1alpha1.BareMetalHostList
	l.Expect(env.Client.List(l.Context(), &hosts, client.InNamespace(l.site.Namespace))).To(Succeed())
	has := map[string]string{}
	for _, h := range hosts.Items {
		if ref := h.Spec.ConsumerRef; ref != nil {
			l.Expect(has[ref.Name]).To(BeEmpty(), "%s: %s has %s too", promise.OneHost, ref.Name, h.Name)
			has[ref.Name] = h.Name
		}
	}
	l.recorded()
	l.proven(s)
}

// recorded demands that the host has the record of the boot that it counts, which is void if no machine has the host.
func (l *life) recorded() {
	l.Helper()
	if !l.exists(l.server.Host) {
		return
	}
	h, boot := l.host(), l.record()
	l.Expect(boot).NotTo(BeNil(), promise.Records)
	l.Expect(boot.Spec.Number).To(Equal(h.Spec.ProviderState.Boots), "%s: %s", promise.Records, l.story())
	l.Expect(boot.Finalizers).To(Or(ContainElement(v1alpha1.BootFinalizer), BeEmpty()))
	if ref := h.Spec.ConsumerRef; ref == nil {
		l.Expect(boot.Spec.ClaimID == "" || boot.Spec.VoidedTime != nil).To(BeTrue(), "%s: %s", promise.Void, l.story())
	} else if boot.Spec.Number > 0 && conditions.IsTrue(h, v1alpha1.BootedCondition) {
		l.Expect(boot.Spec.ClaimID).To(Equal(ref.ClaimID))
		l.Expect(boot.Spec.VoidedTime).To(BeNil())
	}
}

// finish deletes everything, and demands that all of it goes and nothing is left of the provider.
func (l *life) finish() {
	l.Helper()
	if l.claim != nil && l.exists(l.claim.BareMetalMachine) && l.exists(l.server.Host) {
		l.deleteMachine()
		l.machineGone()
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.ConsumerRef).To(BeNil()) })
	}
	for _, server := range l.site.Servers() {
		if l.exists(server.Host) {
			l.remove(server.Host)
			env.Gone(l.T, server.Host.DeepCopy())
		}
	}
	if l.claim != nil && l.exists(l.claim.BareMetalMachine) {
		l.deleteMachine()
		l.machineGone()
	}
	l.collect()
	l.Expect(l.provider.Stop()).To(Succeed(), "something of the provider did not end")
	l.Expect(l.server.Sessions()).To(BeNumerically("<=", l.halts), "a session is left at the BMC")
}

// collect deletes the boots of hosts that are gone, as Kubernetes' garbage collector does, and demands that the provider lets them go.
func (l *life) collect() {
	l.Helper()
	var boots v1alpha1.BareMetalBootList
	l.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(l.Context(), &boots, client.InNamespace(l.site.Namespace))).To(Succeed())
		for _, b := range boots.Items {
			g.Expect(client.IgnoreNotFound(env.Client.Delete(l.Context(), &b))).To(Succeed())
		}
		g.Expect(boots.Items).To(BeEmpty())
	}, stepTimeout, 100*time.Millisecond).Should(Succeed(), "a boot is left")
}

// TestShards: ten consecutive shards run every case once, except the cases that run in each shard. The latter exist.
func TestShards(t *testing.T) {
	g := NewWithT(t)
	t.Setenv("MATRIX_CASE", "")
	always, names, runs := always(t), []string{}, map[string]int{}
	for _, p := range cases() {
		names = append(names, p.String())
	}
	g.Expect(always.Unknown(names)).To(BeEmpty(), "testdata/always.txt names cases that do not exist")
	for number := range shard.Count {
		t.Setenv("SHARD", strconv.Itoa(number))
		for _, p := range chosen(t) {
			runs[p.String()]++
		}
	}
	t.Logf("%d cases", len(names))
	for _, name := range names {
		if always[name] {
			g.Expect(runs[name]).To(Equal(shard.Count), name)
		} else {
			g.Expect(runs[name]).To(Equal(1), name)
		}
	}
}

// startNamespaces starts Kubernetes' controller of namespaces, which deletes what is in one that is deleted.
func startNamespaces(t *testing.T) {
	t.Helper()
	startProgram(t, filepath.Join(controllerstest.Root(), ".cache", "bin", "kube-controller-manager"), env.Kubeconfig(t, "namespaces", "system:masters"))
}
