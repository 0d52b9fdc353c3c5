package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// The disks of servers that get an image.
var (
	virtioDisk = blankDisk{4, []string{"-device", "virtio-blk-pci,drive=disk,serial=VIRTIO1BOOTINDEX"}}
	ahciDisk   = blankDisk{4, []string{"-device", "ahci,id=sata", "-device", "ide-hd,bus=sata.0,drive=disk,serial=AHCI1BOOTINDEX"}}
	nvmeDisk   = blankDisk{4, []string{"-device", "nvme,drive=disk,serial=NVME1BOOTINDEX"}}
	scsi4Kn    = blankDisk{1, []string{ // all of it is overwritten
		"-device", "virtio-scsi-pci,id=scsi", "-device", "scsi-hd,bus=scsi.0,drive=disk,serial=SCSI1,logical_block_size=4096,physical_block_size=4096BOOTINDEX",
	}}
)

// makeBlankDisk makes an empty disk in the folder, and returns the properties of its -drive.
func makeBlankDisk(t *testing.T, folder string, gib int64) string {
	t.Helper()
	path := filepath.Join(folder, "disk.raw")
	NewWithT(t).Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
	NewWithT(t).Expect(os.Truncate(path, gib<<30)).To(Succeed())
	return "format=raw,discard=unmap,file=" + path
}

// osImage is an image of hack/osimage.sh.
func osImage(t *testing.T, name string) *v1alpha1.Image {
	t.Helper()
	a := serve(t, filepath.Join(controllerstest.Root(), ".cache", "osimage", name), "make osimage builds the images")
	return &v1alpha1.Image{URL: a.URL, Checksum: a.Checksum, DataSource: wire.DataSourceNoCloud}
}

// imagingStages are the stages of a boot that writes an image.
var imagingStages = []v1alpha1.BootStage{
	v1alpha1.StageDHCP, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageCommitted, v1alpha1.StageAgentDone,
	v1alpha1.StageReportedIn,
}

// imagingTimeout is how long an image with its boot may take, five times what it takes on a quiet machine with two processors.
const imagingTimeout = 25 * time.Minute

// TestImaging: servers get an image on an empty disk, boot it, and are erased at their release. All of one disk is erased, with a proof.
func TestImaging(t *testing.T) {
	s := startSite(t, authoritative(newSegment(t, "10.79.0.0/24")))
	cases := []imagingCase{
		{name: "BIOS on AHCI", image: "small-mbr.raw", machine: bios().onBlankDisk(ahciDisk), again: true},
		{name: "UEFI on SCSI with sectors of 4096 bytes", image: "small-gpt4096.raw", machine: uefi(noIPv6...).onBlankDisk(scsi4Kn), policy: wire.PolicyClear},
		{name: "Debian by UEFI", image: "debian.qcow2", machine: uefi(noIPv6...).onBlankDisk(virtioDisk), source: wire.DataSourceConfigDrive, cut: true},
		{name: "UEFI on virtio", image: "small-gpt.qcow2", machine: uefi(noIPv6...).onBlankDisk(virtioDisk), again: true},
		{name: "Secure Boot on NVMe", image: "small-gpt.raw", machine: secureUEFI(noIPv6...).onBlankDisk(nvmeDisk), mode: v1alpha1.BootModeUEFISecureBoot},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := s.emulateBlank(t, strings.ToLower(strings.ReplaceAll(c.name, " ", "-")), c.machine)
			if c.mode != "" {
				r.host.Spec.BootMode = c.mode
			}
			r.host.Spec.CleaningPolicy = c.policy
			if c.policy != "" {
				r.chassis.plant(t)
			}
			r.register(t)
			r.provisionAndErase(t, c)
			if c.again {
				r.seen = map[v1alpha1.BootStage]bool{}
				r.provisionAndErase(t, c)
			}
		})
	}
}

// imagingCase is an image on a kind of server.
type imagingCase struct {
	name, image string
	machine     machine
	// mode is the boot mode of the host. Defaults to that of hosts that name none.
	mode v1alpha1.BootMode
	// policy is the cleaning policy of the host. Empty erases what the provider wrote.
	policy wire.ErasePolicy
	// source is how the system finds its bootstrap data. Empty is NoCloud.
	source wire.DataSource
	// cut is true if the server loses its power while the image is written, and again if the host is claimed twice.
	cut, again bool
}

// provisionAndErase writes the image, boots it, and releases the host.
func (r *emulated) provisionAndErase(t *testing.T, c imagingCase) {
	t.Helper()
	image := osImage(t, c.image)
	if c.policy != "" { // its disk is smaller than one that is taken without hints
		image.RootDevice = &v1alpha1.RootDeviceHints{SerialNumber: "SCSI1"}
	}
	if c.source != "" {
		image.DataSource = c.source
	}
	r.writeImage(t, image)
	if c.cut {
		r.await(t, imagingTimeout, "the image is being written", func() bool { return r.chassis.diskUsage(t) > 32<<20 })
		NewWithT(t).Expect(r.record.Spec.CommitAllowedTime).To(BeNil())
		r.bmc.SetPower(false)
		r.lostAttempts = 1
	}
	r.awaitProvisioned(t, imagingTimeout, r.observed(v1alpha1.StageDHCP).Client, imagingStages...)
	if c.machine.mode() == v1alpha1.BootModeUEFI {
		r.chassis.bootsAgentEntry(t, r.record.Spec.MachineName)
	}
	if c.source == wire.DataSourceConfigDrive {
		// cloud-init reports in before it writes its last message.
		NewWithT(t).Eventually(r.console, bootTimeout).Should(ContainSubstring("Datasource DataSourceConfigDrive"))
	}
	if c.mode == v1alpha1.BootModeUEFISecureBoot {
		// The agent's kernel and the image's.
		NewWithT(t).Expect(strings.Count(r.console(), "secureboot: Secure boot enabled")).To(BeNumerically(">=", 2))
	}
	r.releaseErased(t)
	if c.policy != "" {
		r.proven(t, c.policy)
	}
}

// diskUsage is how many bytes of a blank disk were written.
func (c *chassis) diskUsage(t *testing.T) int64 {
	t.Helper()
	var stat syscall.Stat_t
	NewWithT(t).Expect(syscall.Stat(c.file("disk.raw"), &stat)).To(Succeed())
	return stat.Blocks * 512
}

// emulateBlank is emulate for a server with an empty disk, whose systems restart it and switch it off.
func (s *site) emulateBlank(t *testing.T, name string, m machine) *emulated {
	t.Helper()
	r := s.emulate(t, name, m)
	r.silent, r.mayGoOff = true, true
	return r
}

// writeImage creates a machine with an image for the server, and waits for its first stage.
func (r *server) writeImage(t *testing.T, image *v1alpha1.Image) {
	t.Helper()
	r.boot(t, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot, c.BareMetalMachine.Spec.Image = v1alpha1.BootSource{}, image
	})
	r.await(t, bootTimeout, "the server asks for its boot", func() bool { return r.observed(v1alpha1.StageDHCP) != nil && r.record.Spec.Agent })
}

// releaseErased is releaseErasedDisk for the server's blank disk.
func (r *emulated) releaseErased(t *testing.T) {
	t.Helper()
	r.releaseErasedDisk(t, r.chassis.file("disk.raw"))
}

// releaseErasedDisk deletes the machine, and waits until the disk, given by its file, is erased and the host is offered again.
func (r *server) releaseErasedDisk(t *testing.T, file string) {
	t.Helper()
	g := NewWithT(t)
	r.start = time.Now()
	written := r.record.Spec.WrittenDisks
	g.Expect(written).To(HaveLen(1))
	g.Expect(env.Client.Delete(t.Context(), r.claim.BareMetalMachine, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	r.await(t, imagingTimeout, "the disk is erased, and the host is Available again", func() bool {
		return r.host.Spec.ConsumerRef == nil && r.host.Status.Phase == v1alpha1.PhaseAvailable && r.host.Status.Power == v1alpha1.PowerOff
	})
	g.Expect(r.host.Spec.Quarantine).To(BeNil())
	g.Expect(r.record.Spec.Purpose).To(Equal(v1alpha1.PurposeClean))
	g.Expect(r.record.Spec.WrittenDisks).To(BeEmpty())
	info, err := os.Stat(file)
	g.Expect(err).NotTo(HaveOccurred())
	disk, err := os.Open(file)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = disk.Close() }()
	const mib = 1 << 20
	for what, span := range map[string][2]int64{
		"the first MiB": {0, mib}, "the bootstrap data": {written[0].DataOffset, written[0].DataLength}, "the last MiB, with the backup of a GPT,": {info.Size() - mib, mib},
	} {
		content := make([]byte, span[1])
		_, err := disk.ReadAt(content, span[0])
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(strings.Trim(string(content), "\x00")).To(BeEmpty(), what+" of the disk has data")
	}
}
