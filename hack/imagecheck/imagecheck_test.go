// Package imagecheck builds the image of the manager and the files of a release, and hands them to programs that others wrote: skopeo and umoci read the
// image, and runc runs it as the Deployment says, in a network namespace of the test.
package imagecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/pin/tftp/v3"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/netns"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

var env *controllerstest.Env

// The addresses of the boot server.
const (
	device         = "boot0"
	bootAddress    = "10.66.0.1"
	bootAddressV6  = "fd00:66::1"
	imageName      = "registry.example/capbm:v0.0.1"
	imageVersion   = "v0.1.0"
	imageUser      = 65532
	netBindService = 1 << 10
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make imagecheck", ".cache/image/first.tar", ".cache/bin/kubectl")
	os.Exit(netns.Main(m, func() int {
		err := netns.Do("ip link set lo up", "ip link add "+device+" type veth peer name peer0",
			"ip address add "+bootAddress+"/24 dev "+device, "ip address add "+bootAddressV6+"/64 dev "+device+" nodad",
			"ip link set "+device+" up", "ip link set peer0 up", "mount --make-rprivate /")
		if err != nil {
			fmt.Fprintf(os.Stderr, "imagecheck: %v (hack/imagecheck.sh installs what is needed)\n", err)
			return 1
		}
		controllerstest.Main(m, &env)
		return 0
	}))
}

// source is the commit that everything is built from, so that the agent is the one of `make agent` and `make e2e`.
type source struct {
	revision string
	date     time.Time
}

func sourceOf(t *testing.T) source {
	t.Helper()
	g := NewWithT(t)
	words := strings.Fields(must(t, "git", "-C", controllerstest.Root(), "log", "-1", "--format=%H %ct"))
	g.Expect(words).To(HaveLen(2))
	seconds, err := strconv.ParseInt(words[1], 10, 64)
	g.Expect(err).NotTo(HaveOccurred())
	return source{words[0], time.Unix(seconds, 0).UTC()}
}

// environment are the variables for a build without git, and for one with changes that are in no commit.
func (s source) environment() []string {
	return []string{fmt.Sprintf("SOURCE_DATE_EPOCH=%d", s.date.Unix()), "SOURCE_REVISION=" + s.revision}
}

// archive builds the image of amd64, and returns the digest that was printed and the file.
func archive(t *testing.T) (digest, file string) {
	t.Helper()
	g := NewWithT(t)
	file = filepath.Join(t.TempDir(), "image.tar")
	printed := strings.Fields(mustIn(t, controllerstest.Root(), sourceOf(t).environment(), "hack/image.sh", imageName, imageVersion, file, "amd64"))
	g.Expect(printed).To(HaveLen(2))
	return printed[0], file
}

// unpack lets umoci unpack the image of an architecture, and returns the folder of the root.
func unpack(t *testing.T, file, arch string) string {
	t.Helper()
	folder := t.TempDir()
	layout := filepath.Join(folder, "layout")
	must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "--override-arch", arch, "oci-archive:"+file, "oci:"+layout+":v0.0.1")
	must(t, "umoci", "unpack", "--image", layout+":v0.0.1", filepath.Join(folder, "bundle"))
	for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		NewWithT(t).Expect(os.Chmod(dir, 0o711)).To(Succeed())
	}
	return filepath.Join(folder, "bundle", "rootfs")
}

// built is the image that the tests read.
type built struct {
	digest, file string
	// root is the folder that it was unpacked to.
	root string
	pod  corev1.PodSpec
}

// TestManifests: every Deployment has the user of the one that the image is run by here. Those with a boot server have its capability, its image service and the
// node's network. The others have neither.
func TestManifests(t *testing.T) {
	want := deployment(t)
	for folder, count := range map[string]int{"default": 2, "single-pod": 1, "additional-boot": 1} {
		g := NewWithT(t)
		all := deployments(t, folder)
		g.Expect(all).To(HaveLen(count), folder)
		for _, d := range all {
			pod := d.Spec.Template.Spec
			boots := !slices.Contains(pod.Containers[0].Args, "--components=controllers")
			g.Expect(pod.HostNetwork).To(Equal(boots), d.Name)
			g.Expect(pod.SecurityContext).To(Equal(want.SecurityContext))
			if boots {
				g.Expect(pod.Containers[0].SecurityContext).To(Equal(want.Containers[0].SecurityContext))
				g.Expect(pod.Containers[1]).To(Equal(want.Containers[1]))
				continue
			}
			g.Expect(pod.Containers).To(HaveLen(1))
			g.Expect(pod.Containers[0].SecurityContext).To(Equal(want.Containers[1].SecurityContext), "no capability")
		}
	}
}

func TestImage(t *testing.T) {
	b := &built{pod: only(t, deployment(t), "manager")}
	b.digest, b.file = archive(t)
	b.root = unpack(t, b.file, "amd64")
	t.Run("others read it", b.testOthersReadIt)
	t.Run("SBOM", b.testSBOM)
	t.Run("agents", b.testAgents)
	t.Run("privileges", b.testPrivileges)
	t.Run("programs", b.testPrograms)
	t.Run("boot server", b.testBootServer)
	t.Run("image service", b.testImageService)
	t.Run("it needs both", b.testItNeedsBoth) // spoils the root
}

// The SBOM names the image by its digest, and lists the packages and boot loaders that are in it, and the modules of the manager as Go reads them.
func (b *built) testSBOM(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(strings.TrimSuffix(b.file, ".tar") + "-amd64.spdx.json")
	g.Expect(err).NotTo(HaveOccurred())
	type component struct {
		Name    string `json:"name"`
		Version string `json:"versionInfo"`
		Purpose string `json:"primaryPackagePurpose"`
		Sums    []struct {
			Value string `json:"checksumValue"`
		} `json:"checksums"`
	}
	var bom struct {
		Version  string      `json:"spdxVersion"`
		Packages []component `json:"packages"`
	}
	g.Expect(json.Unmarshal(content, &bom)).To(Succeed())
	g.Expect(bom.Version).To(Equal("SPDX-2.3"))
	g.Expect(bom.Packages[0].Purpose).To(Equal("CONTAINER"))
	g.Expect("sha256:" + bom.Packages[0].Sums[0].Value).To(Equal(b.digest))
	var names []string
	for _, c := range bom.Packages {
		g.Expect(c.Version).NotTo(BeEmpty(), c.Name)
		names = append(names, c.Name)
	}
	licences := 0
	for _, folder := range []string{"var/lib/dpkg/status.d", "usr/lib/capbm/loaders"} {
		entries, err := os.ReadDir(filepath.Join(b.root, folder))
		g.Expect(err).NotTo(HaveOccurred())
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "copyright-") {
				licences++
			} else if e.Name() != "SHA256SUMS" {
				g.Expect(names).To(ContainElement(e.Name()))
			}
		}
	}
	g.Expect(licences).To(Equal(5), "iPXE, shim, and GRUB for BIOS, amd64 and arm64")
	for line := range strings.Lines(must(t, "go", "version", "-m", filepath.Join(b.root, "manager"))) {
		if fields := strings.Fields(line); fields[0] == "dep" {
			g.Expect(bom.Packages).To(ContainElement(And(HaveField("Name", fields[1]), HaveField("Version", fields[2]))))
		}
	}
}

// agentKernels are the files of the agents' kernels that a network boot loads, by the architecture of servers.
var agentKernels = map[string]string{"amd64": "kernel", "arm64": "kernel.gz"}

// maxAgent is the maximum size of kernel and ramdisk together.
const maxAgent = 40e6

// The image has the agents as `make agent` writes them, with their checksums and licences, at the place that the boot server reads by default. They are as
// small as they must be.
func (b *built) testAgents(t *testing.T) {
	g := NewWithT(t)
	for arch, kernel := range agentKernels {
		folder := filepath.Join(b.root, bootconfig.DefaultAgentDir, arch)
		must(t, "diff", "--recursive", "--exclude=.stamp", filepath.Join(controllerstest.Root(), "out", "agent", arch), folder)
		mustIn(t, folder, nil, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
		var size int64
		for _, name := range []string{kernel, "ramdisk"} {
			info, err := os.Stat(filepath.Join(folder, name))
			g.Expect(err).NotTo(HaveOccurred())
			size += info.Size()
		}
		g.Expect(size).To(BeNumerically("<=", maxAgent), arch)
		for _, name := range []string{"packages", "licenses/linux"} {
			g.Expect(filepath.Join(folder, name)).To(BeARegularFile())
		}
	}
}

// Skopeo finds the image in both forms, checks the digests of all of its parts, and reads what is written about it.
func (b *built) testOthersReadIt(t *testing.T) {
	g := NewWithT(t)
	digest, file := b.digest, b.file
	g.Expect(strings.TrimSpace(must(t, "skopeo", "inspect", "--format", "{{.Digest}}", "oci-archive:"+file))).To(Equal(digest))
	must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "oci-archive:"+file+":v0.0.1", "dir:"+t.TempDir())
	must(t, "skopeo", "--insecure-policy", "copy", "--quiet", "docker-archive:"+file+":"+imageName, "dir:"+t.TempDir())
	var config struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
		Created      string `json:"created"`
		Config       struct {
			User       string            `json:"User"`
			Entrypoint []string          `json:"Entrypoint"`
			Labels     map[string]string `json:"Labels"`
		} `json:"config"`
	}
	g.Expect(json.Unmarshal([]byte(must(t, "skopeo", "inspect", "--config", "oci-archive:"+file)), &config)).To(Succeed())
	g.Expect(config.Architecture + "/" + config.OS).To(Equal("amd64/linux"))
	from := sourceOf(t)
	g.Expect(config.Created).To(Equal(from.date.Format(time.RFC3339)))
	g.Expect(config.Config.User).To(Equal("65532:65532"))
	g.Expect(config.Config.Entrypoint).To(Equal([]string{"/manager"}))
	g.Expect(config.Config.Labels).To(And(
		HaveKeyWithValue("org.opencontainers.image.revision", from.revision), HaveKeyWithValue("org.opencontainers.image.version", imageVersion),
		HaveKeyWithValue("org.opencontainers.image.licenses", "Apache-2.0")))
}

// One file of the image has capabilities, and no other than the one; none changes the user; the user may write nothing but
// what is meant for it; and the loaders are those that the list says.
func (b *built) testPrivileges(t *testing.T) {
	g := NewWithT(t)
	root := b.root
	capable, writable := []string{}, []string{}
	g.Expect(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		name := strings.TrimPrefix(path, root)
		var stat unix.Stat_t
		if err := unix.Stat(path, &stat); err != nil {
			return err
		}
		if stat.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
			t.Errorf("%s changes the user or the group", name)
		}
		if stat.Mode&0o002 != 0 || stat.Uid == imageUser && stat.Mode&0o200 != 0 || stat.Gid == imageUser && stat.Mode&0o020 != 0 {
			writable = append(writable, name)
		}
		if n, err := unix.Getxattr(path, "security.capability", nil); err == nil && n > 0 {
			capable = append(capable, name)
		}
		return nil
	})).To(Succeed())
	g.Expect(capable).To(Equal([]string{"/manager"}))
	g.Expect(writable).To(Equal([]string{"/tmp", "/var/cache/capbm", "/var/cache/capbm-images"}))
	g.Expect(must(t, "/usr/sbin/getcap", filepath.Join(root, "manager"))).To(HaveSuffix(" cap_net_bind_service=p\n"))
	mustIn(t, filepath.Join(root, "usr/lib/capbm/loaders"), nil, "sha256sum", "--check", "--strict", "SHA256SUMS")
	must(t, "openssl", "crl2pkcs7", "-nocrl", "-certfile", filepath.Join(root, "etc/ssl/certs/ca-certificates.crt"), "-out", "/dev/null")
}

// The manager runs, and ipmitool reads the power of a server, both as the Deployment says.
func (b *built) testPrograms(t *testing.T) {
	g := NewWithT(t)
	pod := b.pod
	root := b.root

	out, err := newContainer(t, root, pod, "--help").run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("--boot-config"))
	out, err = newContainer(t, root, pod, "--version").run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(HavePrefix("manager " + imageVersion + " (commit " + sourceOf(t).revision + ", go1."))

	folder := t.TempDir()
	config(t, folder, pod, `
networks:
- {name: v4, mode: "off", address: 10.66.0.1, subnet: 10.66.0.0/24}
`)
	printed := newContainer(t, root, pod, "--boot-config=/etc/capbm/boot.yaml", "--print-dhcp-config=dnsmasq")
	printed.mount(t, folder, "/etc/capbm", *pod.SecurityContext.FSGroup, false)
	out, err = printed.run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("dhcp-"))

	out, err = newContainer(t, root, pod, "/usr/bin/ipmitool", "-V").run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(HavePrefix("ipmitool version 1.8"))

	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	server := bmctest.NewMachine(bmctest.Options{Name: "m", UUID: "6f2a1b34-0c5d-4e6f-8a9b-0c1d2e3f4a5b", MAC: "52:54:00:00:00:01", Username: "admin", Password: "pass-Word-1"})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.ServeIPMI(conn)
	}()
	t.Cleanup(func() { _ = conn.Close(); <-served; server.Close() })
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	g.Expect(err).NotTo(HaveOccurred())
	power := newContainer(t, root, pod, "/usr/bin/ipmitool", "-I", "lanplus", "-H", "127.0.0.1", "-p", port, "-C", "17", "-U", "admin", "-E", "chassis", "power", "status")
	power.set(t, []any{"IPMITOOL_PASSWORD=pass-Word-1"}, "process", "env")
	out, err = power.run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("Chassis Power is off"))
}

// config writes a configuration of the boot server.
func config(t *testing.T, folder string, pod corev1.PodSpec, content string) {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(folder, "boot.yaml")
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	g.Expect(os.Chown(path, 0, int(*pod.SecurityContext.FSGroup))).To(Succeed())
	g.Expect(os.Chmod(path, 0o640)).To(Succeed())
}

// bootServer returns a container with the boot server, with the Deployment's volumes. Its configuration names no socket.
func bootServer(t *testing.T, root string, pod corev1.PodSpec, all volumes) *container {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	config(t, folder, pod, fmt.Sprintf(`
artifacts: {allowNetworks: [127.0.0.0/8]}
networks:
- {name: v4, mode: authoritative, address: %[1]s, interface: %[3]s, subnet: 10.66.0.0/24, ranges: [10.66.0.10-10.66.0.20]}
- {name: v6, mode: authoritative, address: "%[2]s", interface: %[3]s, subnet: "fd00:66::/64", ranges: ["fd00:66::10-fd00:66::20"]}
`, bootAddress, bootAddressV6, device))
	kubeconfig, err := os.ReadFile(env.Kubeconfig(t, "imagecheck", "system:masters"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "kubeconfig"), kubeconfig, 0o600)).To(Succeed())
	g.Expect(os.Chown(filepath.Join(folder, "kubeconfig"), imageUser, imageUser)).To(Succeed())
	c := newContainer(t, root, pod, "--components=boot", "--boot-config=/etc/capbm/boot.yaml", "--kubeconfig=/etc/capbm/kubeconfig",
		"--health-addr=127.0.0.1:9440", "--diagnostics-address=0", argument(t, pod, "--images-socket="))
	c.mount(t, folder, "/etc/capbm", *pod.SecurityContext.FSGroup, false)
	c.mountAll(t, pod, all)
	return c
}

// argument returns the argument of a Pod's only container with a prefix.
func argument(t *testing.T, pod corev1.PodSpec, prefix string) string {
	t.Helper()
	i := slices.IndexFunc(pod.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, prefix) })
	NewWithT(t).Expect(i).To(BeNumerically(">=", 0), prefix)
	return pod.Containers[0].Args[i]
}

// start runs a container until it answers a health check. The returned function ends it.
func start(t *testing.T, c *container, health string) (stop func()) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	command := c.command(ctx, t)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	g.Expect(command.Start()).To(Succeed())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it is interrupted
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	g.Eventually(func(g Gomega) {
		response, err := http.Get(health) //nolint:noctx // returns at once
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}, 3*time.Minute).Should(Succeed(), func() string { stop(); return out.String() })
	return stop
}

// As the Deployment says, the boot server listens at the ports of DHCP, DHCPv6 and TFTP without being root, and may do
// nothing else that root may.
func (b *built) testBootServer(t *testing.T) {
	g := NewWithT(t)
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capbm-system"}})
	pod := b.pod
	g.Expect(pod.HostNetwork).To(BeTrue())
	root := b.root

	defer start(t, bootServer(t, root, pod, newVolumes(t, pod)), "http://127.0.0.1:9440/readyz")()
	// local address, state, ..., the user that listens (proc(5))
	for _, want := range []struct {
		table string
		port  int
	}{{"udp", 67}, {"udp6", 69}, {"udp6", 547}, {"udp", 4011}} {
		content, err := os.ReadFile("/proc/net/" + want.table)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(MatchRegexp(fmt.Sprintf(`(?m)^ *\d+: [0-9A-F]+:%04X .* %d +0 `, want.port, imageUser)), "%s %d", want.table, want.port)
	}
	// A boot loader of the image, as firmware fetches it.
	fetched := fetch(t, "snponly.efi")
	content, err := os.ReadFile(filepath.Join(root, "usr/lib/capbm/loaders/snponly.efi"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Equal(fetched, content)).To(BeTrue())
	status := managerStatus(t)
	g.Expect(status).To(HaveKeyWithValue("Uid", "65532\t65532\t65532\t65532"))
	g.Expect(status).To(HaveKeyWithValue("NoNewPrivs", "1"))
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd"} {
		g.Expect(status).To(HaveKeyWithValue(set, fmt.Sprintf("%016x", netBindService)))
	}
	for _, set := range []string{"CapInh", "CapAmb"} {
		g.Expect(status).To(HaveKeyWithValue(set, fmt.Sprintf("%016x", 0)))
	}
}

// fetch loads a file by TFTP.
func fetch(t *testing.T, name string) []byte {
	t.Helper()
	g := NewWithT(t)
	client, err := tftp.NewClient(net.JoinHostPort(bootAddress, "69"))
	g.Expect(err).NotTo(HaveOccurred())
	transfer, err := client.Receive(name, "octet")
	g.Expect(err).NotTo(HaveOccurred())
	var out bytes.Buffer
	_, err = transfer.WriteTo(&out)
	g.Expect(err).NotTo(HaveOccurred())
	return out.Bytes()
}

// managerStatus returns what the kernel says of the manager's process.
func managerStatus(t *testing.T) map[string]string {
	t.Helper()
	mine, err := os.Readlink("/proc/self/ns/net")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	files, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is well-formed
	for _, file := range files {
		content, err := os.ReadFile(file)
		theirs, linkErr := os.Readlink(filepath.Join(filepath.Dir(file), "ns", "net"))
		if err != nil || linkErr != nil || theirs != mine || !strings.HasPrefix(string(content), "Name:\tmanager\n") {
			continue // it has ended, or is another's
		}
		status := map[string]string{}
		for line := range strings.Lines(string(content)) {
			name, value, _ := strings.Cut(line, ":")
			status[name] = strings.TrimSpace(value)
		}
		return status
	}
	t.Fatal("the manager does not run")
	return nil
}

// Without the capability of the file or of the container the boot server may not listen, and says at which port. The controllers need neither.
func (b *built) testItNeedsBoth(t *testing.T) {
	g := NewWithT(t)
	pod := b.pod
	root := b.root
	without := *pod.DeepCopy()
	without.Containers[0].SecurityContext.Capabilities.Add = nil
	out, err := newContainer(t, root, without, "--help").run(t)
	g.Expect(err).NotTo(HaveOccurred(), out)
	out, err = bootServer(t, root, without, newVolumes(t, pod)).run(t)
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(ContainSubstring("permission denied"))

	g.Expect(unix.Removexattr(filepath.Join(root, "manager"), "security.capability")).To(Succeed())
	out, err = bootServer(t, root, pod, newVolumes(t, pod)).run(t)
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(ContainSubstring("permission denied"))
}
