package nodetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
)

// machine is a virtual machine, with the time line of what happens to it.
type machine struct {
	peertest.Machine

	rig     *rig
	libvirt *peertest.Libvirt
	bmc     bmc.Endpoint
	// address is its static address; empty for that of DHCP.
	address string

	host v1alpha1.BareMetalHost
	boot v1alpha1.BareMetalBoot

	// start is when the time line began, and seen has what is in it.
	start time.Time
	seen  map[string]bool
	line  []string
	// from is how much of the console is of before the time line.
	from int
}

// begin begins a time line.
func (m *machine) begin() {
	m.start, m.seen, m.line, m.from = time.Now(), map[string]bool{}, nil, len(m.console())
}

// note adds to the time line what is not in it.
func (m *machine) note(t *testing.T, what string) {
	t.Helper()
	if m.seen[what] {
		return
	}
	m.seen[what] = true
	entry := fmt.Sprintf("%6.1f s  %s", time.Since(m.start).Seconds(), what)
	m.line = append(m.line, entry)
	t.Logf("%s  %s", m.Name, entry)
}

// console returns what the machine wrote to its serial line.
func (m *machine) console() string {
	content, err := os.ReadFile(m.Console)
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		return err.Error()
	}
	return qemu.Printable(content)
}

// milestones are what the console shows, by a text that it has then so many times.
var milestones = []struct {
	text  string
	count int
	what  string
}{
	{"Linux version", 1, "the kernel of the agent starts"},
	{"Linux version", 2, "the kernel from the disk starts"},
	{"Welcome to Debian", 1, "systemd starts"},
	{"Cloud-init v.", 1, "cloud-init starts"},
	{"Running pre-flight checks", 1, "kubeadm starts"},
	{"Starting the kubelet", 1, "kubeadm starts the kubelet"},
	{"This node has joined the cluster", 1, "kubeadm join has ended"},
	{"initialized successfully", 1, "kubeadm init has ended"},
}

// stages are the names of the stages of a boot in the time line.
var stages = map[v1alpha1.BootStage]string{
	v1alpha1.StageDHCP: "the firmware asks for its boot", v1alpha1.StageAgent: "the agent has its plan", v1alpha1.StageData: "the image is written",
	v1alpha1.StageCommitted: "the disk is read back, and may become bootable", v1alpha1.StageAgentDone: "the agent is done, and restarts the machine",
	v1alpha1.StageReportedIn: "the operating system has reported",
}

// observe reads the host, its boot and the console, and adds to the time line.
func (m *machine) observe(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	key := types.NamespacedName{Namespace: site.Namespace, Name: m.Name}
	c := m.rig.plane.Client
	g.Expect(client.IgnoreNotFound(c.Get(m.rig.ctx, key, &m.host))).To(Succeed())
	g.Expect(client.IgnoreNotFound(c.Get(m.rig.ctx, key, &m.boot))).To(Succeed())
	if on := m.boot.Spec.PoweredOnTime; on != nil && on.After(m.start) {
		m.note(t, fmt.Sprintf("powered on for boot %d, attempt %d", m.boot.Spec.Number, m.boot.Spec.Attempt))
	}
	for _, s := range m.boot.Status.Stages {
		what := stages[s.Stage]
		if what == "" || m.seen[what] || s.Number != m.boot.Spec.Number || s.Time.Before(&metav1.Time{Time: m.start}) {
			continue
		}
		m.note(t, what)
		if s.Stage == v1alpha1.StageAgent {
			// Otherwise the firmware would try the network again after the agent, and wait for minutes.
			g.Expect(m.libvirt.EndOverride(m.rig.ctx, m.Name, peertest.NetworkCard)).To(Succeed())
		}
	}
	console := m.console()
	if len(console) < m.from {
		m.from = 0 // libvirt empties the file when it starts the machine
	}
	console = console[m.from:]
	for _, stone := range milestones {
		if strings.Count(console, stone.text) >= stone.count {
			m.note(t, stone.what)
		}
	}
}

// await waits until a check is nil, and keeps the time line meanwhile.
func (m *machine) await(t *testing.T, timeout time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	end := time.Now().Add(timeout)
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for {
		m.observe(t)
		err := check(m.rig.ctx)
		if err == nil {
			m.note(t, what)
			return
		}
		if failure := m.boot.Spec.Failure; failure != nil && m.boot.Spec.VoidedTime == nil {
			err = fmt.Errorf("the boot failed: %v", *failure)
			end = time.Time{}
		}
		if time.Now().After(end) || m.rig.ctx.Err() != nil {
			console := m.console()
			t.Fatalf("not seen in %.0f s: %s: %v\nthe end of the console of %s:\n%s", time.Since(m.start).Seconds(), what, err, m.Name, console[max(0, len(console)-12000):])
		}
		<-look.C
	}
}

// phase is a check of the phase of the host.
func (m *machine) phase(want v1alpha1.HostPhase) func(context.Context) error {
	return func(context.Context) error {
		if m.host.Status.Phase != want {
			return fmt.Errorf("host %s is %s", m.Name, m.host.Status.Phase)
		}
		return nil
	}
}

// free is nil when the host is offered again.
func (m *machine) free(context.Context) error {
	if m.host.Spec.ConsumerRef != nil || m.host.Status.Phase != v1alpha1.PhaseAvailable || m.host.Status.Power != v1alpha1.PowerOff {
		return fmt.Errorf("host %s is %s, and its power is %s", m.Name, m.host.Status.Phase, m.host.Status.Power)
	}
	return nil
}

// expectErased checks that the disk has neither a partition table nor the bootstrap data.
func (m *machine) expectErased(t *testing.T, written v1alpha1.WrittenDisk) {
	t.Helper()
	g := NewWithT(t)
	disk, err := os.Open(m.Disk)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = disk.Close() }()
	const mib = 1 << 20
	for what, span := range map[string][2]int64{
		"the partition table": {0, mib}, "the backup of the partition table": {int64(m.DiskGiB)<<30 - mib, mib}, "the bootstrap data": {written.DataOffset, written.DataLength},
	} {
		content := make([]byte, span[1])
		_, err := disk.ReadAt(content, span[0])
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Trim(string(content), "\x00")).To(BeEmpty(), "%s is on the disk", what)
	}
}
