package osimagetest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
)

// The kinds of disks, as arguments of QEMU. The last one is the disk.
var (
	virtioBlk  = []string{"-device", "virtio-blk-pci"}
	ahci       = []string{"-device", "ide-hd"} // the chipset q35 has AHCI
	nvme       = []string{"-device", "nvme,serial=nvme1"}
	virtioSCSI = []string{"-device", "virtio-scsi-pci", "-device", "scsi-hd"}
)

// sectors4096 is a kind of disk with sectors of 4096 bytes.
func sectors4096(bus []string) []string {
	last := len(bus) - 1
	return append(append([]string{}, bus[:last]...), bus[last]+",logical_block_size=4096,physical_block_size=4096")
}

// dataSource is how cloud-init finds the data, by the name that it has there.
type dataSource string

const (
	noCloud     dataSource = "DataSourceNoCloud"
	configDrive dataSource = "DataSourceConfigDrive"
)

// hostName is what the data names the host.
const hostName = "node-1"

// machine is a PC with a disk that has an image.
type machine struct {
	*qemu.Machine

	id, url string
	reports chan url.Values
	args    []string
	// dataAt is where the data partition is on the disk, in bytes; 0 for data on a disk of its own.
	dataAt int64
}

// build returns a PC whose disk has so many MiB and begins with the image. It is off.
func build(t *testing.T, image string, mib int, firmware qemu.Firmware, bus []string) *machine {
	t.Helper()
	g := NewWithT(t)
	m := &machine{Machine: qemu.New(t.TempDir()), id: "i-" + strconv.FormatInt(time.Now().UnixNano(), 36), reports: make(chan url.Values, 1)}
	g.Expect(firmware.Prepare(m.File(""))).To(Succeed())
	from, err := filepath.Abs(filepath.Join("..", "..", ".cache", "osimage", image))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(from).To(BeARegularFile(), "hack/osimage.sh makes it")
	run(t, "cp", "--sparse=always", from, m.File("disk"))
	g.Expect(os.Truncate(m.File("disk"), int64(mib)<<20)).To(Succeed())
	last := len(bus) - 1
	m.args = append(append([]string{}, firmware.Args...), "-drive", "if=none,id=disk,format=raw,file=FOLDER/disk")
	m.args = append(append(m.args, bus[:last]...), bus[last]+",drive=disk,bootindex=1")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil {
			t.Errorf("the report is no form: %v", err)
			return
		}
		select {
		case m.reports <- r.PostForm:
		default: // the first counts
		}
	}))
	t.Cleanup(func() {
		m.Off()
		server.Close()
		if t.Failed() {
			t.Logf("the console:\n%s", m.Console())
		}
	})
	// QEMU's own network has its host at 10.0.2.2, where the loopback addresses of this namespace are.
	m.url = strings.Replace(server.URL, "127.0.0.1", "10.0.2.2", 1)
	m.args = append(m.args, "-netdev", "user,id=net0", "-device", "virtio-net-pci,netdev=net0,romfile=")
	return m
}

// dataMiB is the size of the data partition.
const dataMiB = 40

// writeData puts bootstrap data at the end of the disk, as the agent does, or on a disk of its own.
func (m *machine) writeData(t *testing.T, source dataSource, userData string, own bool) {
	t.Helper()
	m.makeFileSystem(t, source, userData)
	if own {
		m.args = append(m.args, "-drive", "if=none,id=data,format=raw,file=FOLDER/data", "-device", "virtio-blk-pci,drive=data")
		return
	}
	// -e moves the backup of the table to the end of the larger disk.
	run(t, "sgdisk", "--move-second-header", "--new", fmt.Sprintf("3:-%dM:+%dM", dataMiB+1, dataMiB), "--typecode", "3:0700", m.File("disk"))
	m.dataAt = m.partitionStart(t, 3)
	run(t, "dd", "if="+m.File("data"), "of="+m.File("disk"), "bs=1M", fmt.Sprintf("seek=%d", m.dataAt>>20), "conv=notrunc,sparse", "status=none")
}

// makeFileSystem writes the file system with the data to a file.
func (m *machine) makeFileSystem(t *testing.T, source dataSource, userData string) {
	t.Helper()
	label, files := "CIDATA", map[string]string{
		"user-data": "#cloud-config\n" + userData,
		"meta-data": "instance-id: " + m.id + "\nlocal-hostname: " + hostName + "\n",
	}
	if source == configDrive {
		label, files = "CONFIG-2", map[string]string{
			"openstack/latest/user_data":      "#cloud-config\n" + userData,
			"openstack/latest/meta_data.json": fmt.Sprintf(`{"uuid": %q, "hostname": %q}`, m.id, hostName),
		}
	}
	folder := t.TempDir()
	for name, content := range files {
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600)).To(Succeed())
	}
	run(t, "truncate", "-s", fmt.Sprintf("%dM", dataMiB), m.File("data"))
	run(t, "mkfs.vfat", "-n", label, m.File("data"))
	found, err := filepath.Glob(filepath.Join(folder, "*"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	run(t, "mcopy", append(append([]string{"-s", "-i", m.File("data")}, found...), "::")...)
}

var firstSector = regexp.MustCompile(`First sector: (\d+)`)

// partitionStart is where a partition of the disk begins, in bytes.
func (m *machine) partitionStart(t *testing.T, number int) int64 {
	t.Helper()
	out := run(t, "sgdisk", "--info", strconv.Itoa(number), m.File("disk"))
	found := firstSector.FindStringSubmatch(out)
	NewWithT(t).Expect(found).NotTo(BeNil(), out)
	sector, err := strconv.ParseInt(found[1], 10, 64)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return sector * 512
}

// expectData checks that the table is valid and that the data partition is where and as it was.
func (m *machine) expectData(t *testing.T) {
	t.Helper()
	NewWithT(t).Expect(run(t, "sgdisk", "--verify", m.File("disk"))).To(ContainSubstring("No problems found"))
	NewWithT(t).Expect(m.partitionStart(t, 3)).To(Equal(m.dataAt))
	run(t, "cmp", "--bytes", strconv.Itoa(dataMiB<<20), fmt.Sprintf("--ignore-initial=%d:0", m.dataAt), m.File("disk"), m.File("data"))
}

func (m *machine) start(t *testing.T, memory int) <-chan struct{} {
	t.Helper()
	exited, err := m.On(append(m.args, "-m", strconv.Itoa(memory))...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return exited
}

// boot switches the PC on and returns its report.
func (m *machine) boot(t *testing.T, memory int, timeout time.Duration) url.Values {
	t.Helper()
	began := time.Now()
	exited := m.start(t, memory)
	select {
	case report := <-m.reports:
		t.Logf("%.1f s from power-on to the report", time.Since(began).Seconds())
		return report
	case <-exited:
		t.Fatal("the PC switched itself off")
	case <-time.After(timeout):
		t.Fatalf("no report in %s", timeout)
	}
	return nil
}

// run runs a program, and returns what it says.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s (hack/osimage.sh installs what is needed)", program, strings.Join(args, " "), out)
	return string(out)
}
