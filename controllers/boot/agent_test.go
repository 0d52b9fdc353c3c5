package boot_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// images has one image, or fails as the test wants.
type images struct {
	dir         string
	err         error
	credentials image.Credentials
	prepared    int // calls of Prepare
}

func (i *images) Prepare(_ context.Context, _ string, _ image.Source, credentials image.Credentials) (image.Info, error) {
	i.credentials = credentials
	i.prepared++
	return image.Info{ManifestDigest: "sha256:manifest", Header: manifest.Header{Size: 3 << 30}, DataBytes: 1 << 20}, i.err
}

func (i *images) Open(string, image.Source) (*image.Opened, error) {
	if i.err != nil {
		return nil, i.err
	}
	data, err := os.Open(filepath.Join(i.dir, "data"))
	return &image.Opened{
		Manifest: func() ([]byte, error) { return []byte("the manifest"), nil }, Info: image.Info{DataBytes: int64(len("the image"))}, Data: data,
	}, err
}

var debian = &v1alpha1.Image{URL: "https://images.example.com/debian.qcow2", Checksum: "sha256:" + strings.Repeat("0", 64), DataSource: wire.DataSourceNoCloud}

// newAgentWorld is newWorld for a machine with an image.
func newAgentWorld(t *testing.T, networks ...bootconfig.Network) (*world, *images) {
	t.Helper()
	w, i := newWorld(networks...), &images{dir: t.TempDir()}
	g := NewWithT(t)
	g.Expect(os.WriteFile(filepath.Join(i.dir, "data"), []byte("the image"), 0o600)).To(Succeed())
	g.Expect(os.Truncate(filepath.Join(i.dir, "data"), 1<<20)).To(Succeed()) // the rest of the disk is a hole
	w.restart(func(b *boot.Booter) { b.Images = i })
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot, m.Spec.Image = v1alpha1.BootSource{}, debian.DeepCopy()
	})
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Agent = true })).To(Succeed())
	return w, i
}

func (w *world) updateMachine(g *WithT, change func(*v1alpha1.BareMetalMachine)) {
	m := &v1alpha1.BareMetalMachine{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, m)).To(Succeed())
	change(m)
	g.Expect(w.Client.Update(ctx, m)).To(Succeed())
}

func (w *world) updateHost(g *WithT, change func(*v1alpha1.BareMetalHost)) {
	h := &v1alpha1.BareMetalHost{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "h"}, h)).To(Succeed())
	change(h)
	g.Expect(w.Client.Update(ctx, h)).To(Succeed())
}

// agentRequest is the request of the agent of the current boot, whose script it fetches.
func (w *world) agentRequest(g *WithT) pxe.AgentRequest {
	script, err := w.Script(ctx, booting, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(script.Agent).NotTo(BeNil())
	g.Expect(script.SeedPath).To(BeEmpty(), "an agent gets no token for the seed")
	return pxe.AgentRequest{Version: agent.Version, Host: script.Agent.Host, Token: script.Agent.Token, From: honest}
}

var (
	hello = agent.Hello{Release: "v1, rc", Firmware: wire.FirmwareUEFI, SecureBoot: wire.SecureBootEnabled}
	sda   = agent.DataRequest{Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 100 << 30}, Name: "sda", Offset: 99 << 30, SectorSize: 512}
)

// TestAgentProvisions: the whole life of an agent that writes an image.
func TestAgentProvisions(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Storage = &v1alpha1.HostStorage{RootDevice: &v1alpha1.RootDeviceHints{SerialNumber: "host"}, Keep: []wire.KeptDisk{{Label: "ceph-1"}}}
	})
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Image.RootDevice = &v1alpha1.RootDeviceHints{SerialNumber: "machine", MinSize: new(resource.MustParse("10Gi"))}
	})
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Boot).To(Equal(pxe.Network))
	g.Expect(answer.Agent).To(Equal("amd64"))
	r := w.agentRequest(g)

	_, err = w.Image(ctx, r)
	g.Expect(err).To(MatchError(pxe.ErrNotYet), "before the plan binds the agent to its address")
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Purpose).To(Equal(agent.Provision))
	g.Expect(plan.Provision.Manifest).To(Equal("sha256:manifest"))
	g.Expect(plan.Provision.RootDevice).To(Equal(agent.RootDevice{SerialNumber: "host", MinSize: 10 << 30}), "the host's hints take precedence field by field")
	g.Expect(plan.Provision.Keep).To(Equal([]wire.KeptDisk{{Label: "ceph-1"}}))
	g.Expect(plan.Provision.CommittedGUID).To(BeEmpty())
	g.Expect(plan.Provision.PartitionGUID).To(MatchRegexp(`^[0-9a-f-]{36}$`))
	g.Expect(w.boot().Spec.DataAddress).To(Equal(honest.String()))

	opened, err := w.Image(ctx, r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Data.Close()).To(Succeed())
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused), "before the bootstrap data")
	partition, err := w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(partition.Head)).To(And(ContainSubstring("CIDATA"), ContainSubstring("the bootstrap data")))
	boot := w.boot().Spec
	g.Expect(boot.DataServedTime).NotTo(BeNil())
	g.Expect(boot.WrittenDisks).To(ConsistOf(v1alpha1.WrittenDisk{
		Disk: wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 100 << 30}, Number: 3, PartitionGUID: plan.Provision.PartitionGUID, DataOffset: 99 << 30, DataLength: agent.DataPartitionSize,
	}))
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred(), "an answer may be lost")
	g.Expect(w.boot().Spec.WrittenDisks).To(HaveLen(1))

	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).To(MatchError(pxe.ErrRefused), "before the permission")
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	allowed := w.boot().Spec.CommitAllowedTime
	g.Expect(allowed).NotTo(BeNil())
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	g.Expect(w.boot().Spec.CommitAllowedTime).To(Equal(allowed))
	again, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Provision.CommittedGUID).To(Equal(plan.Provision.PartitionGUID), "an agent that starts again checks the disk first")
	g.Expect(again.Provision.CommittedDisk).To(Equal(sda.Disk))
	_, err = w.Plan(ctx, pxe.AgentRequest{Version: agent.Version, Host: r.Host, Token: r.Token, From: stranger}, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure).To(BeNil(), "after the permission a second client does not fail a machine that may run")

	bytes, images, seconds := count(t, "capbm_image_written_bytes_total", nil), count(t, "capbm_image_write_duration_seconds", nil), imageWriteSeconds(g)
	for range 2 { // the answer to the first may be lost
		next, err := w.Result(ctx, r, agent.Result{Written: &agent.Written{Name: "sda", ImageBytes: 1e9, Seconds: 8}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(next.Next).To(Equal(agent.Reboot))
	}
	g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
	g.Expect(count(t, "capbm_image_written_bytes_total", nil)-bytes).To(BeEquivalentTo(1e9), "it is counted once")
	g.Expect(count(t, "capbm_image_write_duration_seconds", nil)-images).To(BeEquivalentTo(1), "it is counted once")
	g.Expect(imageWriteSeconds(g) - seconds).To(BeEquivalentTo(8))
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused), "nothing is written again")
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused))
	answer, err = w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.Boot).To(Equal(pxe.Disk))
}

// imageWriteSeconds returns the sum of capbm_image_write_duration_seconds.
func imageWriteSeconds(g *WithT) float64 {
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		if family.GetName() == "capbm_image_write_duration_seconds" {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	g.Fail("there is no metric capbm_image_write_duration_seconds")
	return 0
}

// TestReportOfEarlierBoot: the system on a disk that an earlier attempt completed has the token of that attempt. It reports once the agent of the next attempt has found
// the disk complete, and not before.
func TestReportOfEarlierBoot(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	partition, err := w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	token := regexp.MustCompile(`/report/[^/]+/[^/]+/([A-Za-z0-9_-]+)`).FindSubmatch(partition.Head)
	g.Expect(token).NotTo(BeNil(), "%s", partition.Head)
	report := func() error { return w.Report(ctx, r.Host, string(token[1]), pxe.Up, honest) }
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())

	number := w.boot().Spec.Number
	next := func(b *v1alpha1.BareMetalBootSpec) {
		b.Number, b.Attempt, b.CommittedNumber = number+1, 2, number
		b.DataServedTime, b.CommitAllowedTime = nil, nil
	}
	g.Expect(w.changeBoot(next)).To(Succeed())
	g.Expect(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots = number + 1 })).To(Succeed())
	g.Expect(report()).To(MatchError(pxe.ErrRefused), "the server may be off: its next attempt began")
	again := w.agentRequest(g)
	plan, err := w.Plan(ctx, again, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Provision.CommittedDisk).To(Equal(sda.Disk))
	g.Expect(report()).To(MatchError(pxe.ErrRefused), "the agent checks the disk")
	_, err = w.Result(ctx, again, agent.Result{Written: &agent.Written{Disk: sda.Disk, Committed: true}})
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(report()).To(Succeed())
	g.Expect(w.boot().Spec.ReportedTime).NotTo(BeNil())
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).To(MatchError(pxe.ErrRefused), "the token of its agent is not valid")
}

// TestAgentRefused: who else gets nothing.
func TestAgentRefused(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	requests := func(r pxe.AgentRequest) []error {
		_, plan := w.Plan(ctx, r, hello)
		_, data := w.Data(ctx, r, sda, "http://boot")
		_, result := w.Result(ctx, r, agent.Result{})
		_, img := w.Image(ctx, r)
		return []error{plan, data, w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk}), w.Progress(ctx, r, agent.Progress{}), result, img}
	}
	wrong := r
	wrong.Token = strings.Repeat("A", len(r.Token))
	g.Expect(requests(wrong)).To(HaveEach(MatchError(pxe.ErrRefused)), "a guess")
	other := r
	other.Host = "dc/other"
	g.Expect(requests(other)).To(HaveEach(MatchError(pxe.ErrRefused)), "the token of another host")
	g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())

	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(requests(wrong)).To(HaveEach(MatchError(pxe.ErrRefused)))
	g.Expect(w.boot().Spec.AgentRefusedTime).To(BeNil(), "a guess ends nothing")
	g.Expect(w.boot().Spec.Failure).To(BeNil())
}

// TestAgentOfAnotherVersion: it is refused at each request, also if the boot server was upgraded after it gave the plan, and the condition names both versions.
func TestAgentOfAnotherVersion(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	older := r
	older.Version = agent.Version - 1
	_, err := w.Plan(ctx, older, hello)
	g.Expect(err).To(And(MatchError(pxe.ErrVersion), MatchError(ContainSubstring("protocol version %d, and the boot server has %d", agent.Version-1, agent.Version))))
	g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.CheckToken(ctx, older)).To(MatchError(pxe.ErrVersion), "after the plan, before the body of a request is read")
	g.Expect(w.CheckToken(ctx, r)).To(Succeed())
	older.From = stranger
	g.Expect(w.CheckToken(ctx, older)).To(Succeed(), "a stranger with the token does not end the attempt by it")
	older.From = honest
	for name, request := range map[string]func() error{
		"inventory": func() error { return w.Inventory(ctx, older, wire.Inspection{}) },
		"data":      func() error { _, err := w.Data(ctx, older, sda, "http://boot"); return err },
		"commit":    func() error { return w.Commit(ctx, older, agent.CommitRequest{Disk: sda.Disk}) },
		"result":    func() error { _, err := w.Result(ctx, older, agent.Result{}); return err },
	} {
		g.Expect(request()).To(MatchError(pxe.ErrVersion), name)
	}
	g.Expect(w.boot().Spec.AgentDoneTime).To(BeNil())
}

// TestAgentNamesNoDisk: what cannot be erased at the release is not written.
func TestAgentNamesNoDisk(t *testing.T) {
	for name, where := range map[string]agent.DataRequest{
		"no name":          {Disk: wire.DiskIdentity{SizeBytes: 100 << 30}, Offset: 99 << 30, SectorSize: 512},
		"outside":          {Disk: wire.DiskIdentity{SerialNumber: "s", SizeBytes: 1 << 30}, Offset: 99 << 30, SectorSize: 512},
		"at the beginning": {Disk: wire.DiskIdentity{SerialNumber: "s", SizeBytes: 1 << 30}, SectorSize: 512},
		"sector size":      {Disk: wire.DiskIdentity{SerialNumber: "s", SizeBytes: 100 << 30}, Offset: 99 << 30, SectorSize: 520},
		"long":             {Disk: wire.DiskIdentity{SerialNumber: strings.Repeat("s", 300), SizeBytes: 100 << 30}, Offset: 99 << 30, SectorSize: 512},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w, _ := newAgentWorld(t)
			r := w.agentRequest(g)
			_, err := w.Plan(ctx, r, hello)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = w.Data(ctx, r, where, "http://boot")
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			g.Expect(w.boot().Spec.DataServedTime).To(BeNil())
		})
	}
}

// TestAgentFails: the reason and the last lines of the log are in the status of the boot. An unknown reason does not become a condition's reason. A result that
// is repeated counts once.
func TestAgentFails(t *testing.T) {
	for given, want := range map[string]string{wire.ReasonDiskTooSmall: wire.ReasonDiskTooSmall, "Whatever": wire.ReasonPlanInvalid} {
		g := NewWithT(t)
		w, _ := newAgentWorld(t)
		r := w.agentRequest(g)
		problems := func() float64 { return count(t, "capbm_boot_problems_total", map[string]string{"reason": want}) }
		failures := func() float64 {
			return count(t, "capbm_agent_failures_total", map[string]string{"purpose": "Provision", "reason": want})
		}
		problemsBefore, failuresBefore, recorded := problems(), failures(), len(w.events)
		for range 2 { // the answer to the first may be lost
			answer, err := w.Result(ctx, r, agent.Result{Failure: &agent.Failure{Reason: given, Message: "the disk has 1 GiB"}, Log: "one\ntwo\nthree\nfour\nfive\nsix\n"})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Next).To(Equal(agent.Wait))
		}
		g.Expect(problems()-problemsBefore).To(BeEquivalentTo(1), "it is counted once")
		g.Expect(failures()-failuresBefore).To(BeEquivalentTo(1), "it is counted once")
		g.Expect(w.events).To(HaveLen(recorded + 1))
		problem := w.boot().Status.Problem
		g.Expect(problem.Reason).To(Equal(want))
		g.Expect(problem.Message).To(Equal("the disk has 1 GiB. The last lines of the agent's log: two | three | four | five | six"))
		g.Expect(w.boot().Spec.Failure).To(BeNil(), "the lifecycle decides")
	}
}

// TestFailuresOfAnAgentAreBounded: the holder of a token that reports one failure after the other does not fill the log, the events and the status.
func TestFailuresOfAnAgentAreBounded(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.agentRequest(g)
	before, recorded := len(w.events), 0
	for n := range 30 {
		_, err := w.Result(ctx, r, agent.Result{Failure: &agent.Failure{Reason: wire.ReasonNoDiskMatches, Message: strconv.Itoa(n)}, Log: strings.Repeat("x", agent.MaxLog)})
		if err == nil {
			recorded++
			continue
		}
		g.Expect(err).To(MatchError(pxe.ErrNotYet), "its own failure must not be refused for ever")
	}
	g.Expect(recorded).To(Equal(4))
	g.Expect(w.events).To(HaveLen(before + recorded))
}

// TestAgentCleans: the agent of a release erases the recorded disks, and the record is empty only afterwards.
func TestAgentCleans(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	started := w.boot().Spec.StartTime
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Purpose = v1alpha1.PurposeClean
		b.WrittenDisks = []v1alpha1.WrittenDisk{{Disk: wire.DiskIdentity{SerialNumber: "S1"}, DataOffset: 99 << 30, DataLength: 32 << 20}}
	})).To(Succeed())
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.CleaningStartTime = &started })
	m := &v1alpha1.BareMetalMachine{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, m)).To(Succeed())
	g.Expect(w.Client.Delete(ctx, m)).To(Succeed())
	secret := &corev1.Secret{}
	secret.Namespace, secret.Name = "dc", "data"
	g.Expect(w.Client.Delete(ctx, secret)).To(Succeed(), "a machine that is being deleted may have no bootstrap data any more")
	r := w.agentRequest(g)
	plan, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Purpose).To(Equal(agent.Clean))
	g.Expect(plan.Clean.Ranges).To(ConsistOf(agent.DiskRange{Disk: wire.DiskIdentity{SerialNumber: "S1"}, Offset: 99 << 30, Length: 32 << 20}))
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).To(MatchError(pxe.ErrRefused), "a release gives out no bootstrap data")
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(MatchError(pxe.ErrRefused))
	erasures := erasureCount(t, wire.PolicyMetadata, "Succeeded")
	for range 2 { // the answer to the first may be lost
		answer, err := w.Result(ctx, r, agent.Result{Disks: []agent.ErasedDisk{erasedDisk("S1", wire.PolicyMetadata)}})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Next).To(Equal(agent.PowerOff))
	}
	g.Expect(erasureCount(t, wire.PolicyMetadata, "Succeeded")-erasures).To(BeEquivalentTo(1), "it is counted once, and without a policy as Metadata")
	g.Expect(w.boot().Spec.WrittenDisks).To(BeEmpty())
	g.Expect(w.boot().Spec.AgentDoneTime).NotTo(BeNil())
}

// erasureCount returns how many erasures with a policy had an outcome.
func erasureCount(t *testing.T, policy wire.ErasePolicy, outcome string) float64 {
	t.Helper()
	return count(t, "capbm_erasures_total", map[string]string{"policy": string(policy), "outcome": outcome})
}

// TestImageProblems: an image that cannot be used gives no plan, and the condition has the reason.
func TestImageProblems(t *testing.T) {
	g := NewWithT(t)
	w, i := newAgentWorld(t)
	r := w.agentRequest(g)
	i.err = &image.NotReady{Step: "downloading"}
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrNotYet))
	i.err = &image.Error{Reason: v1alpha1.ReasonImageNotFound, Message: "404"}
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(MatchError(pxe.ErrNotYet), "an image that is published later saves the attempt")

	i.err = nil
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) { m.Spec.Image.PullSecret = "pull" })
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(And(MatchError(pxe.ErrNotYet), MatchError(ContainSubstring("pullSecret"))))
	secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{}")}}
	secret.Namespace, secret.Name = "dc", "pull"
	secret.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{"` + strings.Repeat("x", 64<<10) + `":{}}}`)
	g.Expect(w.Client.Create(ctx, secret)).To(Succeed())
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).To(And(MatchError(pxe.ErrNotYet), MatchError(ContainSubstring("more than 65536"))), "the image service keeps one for each image")
	secret.Data[corev1.DockerConfigJsonKey] = []byte("{}")
	g.Expect(w.Client.Update(ctx, secret)).To(Succeed())
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(i.credentials)).To(Equal("{}"))
}

// TestAgentProgress: the status has the progress of the agent, with percent, rate and estimate. It is written at most every 15 seconds for a step. Impossible values are
// bounded, because the agent is not trusted.
func TestAgentProgress(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	stop, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.Start(stop) }()
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	// written reports a progress, and returns what the status then has, without its time.
	written := func(p agent.Progress) v1alpha1.AgentProgress {
		g.Expect(w.Progress(ctx, r, p)).To(Succeed())
		g.Eventually(func(g Gomega) {
			g.Expect(w.boot().Status.Agent).NotTo(BeNil())
			g.Expect(w.boot().Status.Agent.Step).To(BeEquivalentTo(p.Step))
		}).Should(Succeed())
		out := *w.boot().Status.Agent
		g.Expect(out.Time.IsZero()).To(BeFalse())
		out.Time = metav1.Time{}
		return out
	}

	g.Expect(written(agent.Progress{Step: wire.StepWriting, Done: 15_000_000_000, Total: 20_000_000_000, Rate: 10_000_000})).To(Equal(v1alpha1.AgentProgress{
		Number: 3, Step: "Writing", DoneBytes: 15_000_000_000, TotalBytes: 20_000_000_000, Percent: 75, BytesPerSecond: 10_000_000, SecondsLeft: 500,
	}))
	g.Expect(w.boot().Status.Progress).To(Equal("Writing 75 %, 10 MB/s, 8m20s left"))
	g.Expect(written(agent.Progress{Step: wire.StepData, Total: 1 << 50, Rate: 1})).To(Equal(v1alpha1.AgentProgress{
		Number: 3, Step: "Data", TotalBytes: 1 << 50, BytesPerSecond: 1, SecondsLeft: 30 * 24 * 60 * 60,
	}), "an estimate is at most 30 days")
	verifying := v1alpha1.AgentProgress{Number: 3, Step: "Verifying", DoneBytes: 200, TotalBytes: 200, Percent: 100}
	g.Expect(written(agent.Progress{Step: wire.StepVerifying, Done: 300, Total: 200, Rate: -5})).To(Equal(verifying), "more than everything, at a negative rate")
	g.Expect(written(agent.Progress{Step: wire.StepVerifying, Done: 20, Total: 200, Rate: 5})).To(Equal(verifying), "too early")
	g.Expect(w.Progress(ctx, r, agent.Progress{Step: "Dancing"})).To(MatchError(pxe.ErrRefused), "a step that no agent has")
	cancel()
	g.Eventually(done, 10*time.Second).Should(Receive(BeNil()))
	g.Expect(w.boot().Status.Agent.Percent).To(Equal(int32(100)), "too early: it is not written later either")
}
