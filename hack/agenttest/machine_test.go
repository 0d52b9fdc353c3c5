package agenttest_test

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// card is a network card: at a tap, or at another kind of QEMU's -netdev.
type card struct {
	model, tap, netdev string
	// number makes the MAC address, with the number of the card in its server.
	number int
}

// machine is a server to boot.
type machine struct {
	cards []card
	// host is the "namespace/name" of the server. Defaults to that of serve.
	host string
	// server is the URL of the boot server. Without it there are no parameters of the agent.
	server, commandLine string
	// memory is in MiB. Defaults to 512.
	memory int
	// initrd is the initial RAM disk. Defaults to the agent's.
	initrd string
	// architecture of the server. Defaults to amd64.
	architecture string
	// firmware, if not empty, are the arguments of QEMU for firmware that boots a medium, instead of the kernel and the initial RAM disk.
	firmware []string
	// bootTimeout is how long a boot to the end of the plan may take. Defaults to the constant.
	bootTimeout time.Duration
	// args are more arguments of QEMU.
	args []string
	// unplugged starts with no cable in the first card.
	unplugged bool
}

// running is a server that was started.
type running struct {
	t       *testing.T
	socket  string
	started time.Time
	// bootTimeout is the bootTimeout of the machine.
	bootTimeout time.Duration
	exited      chan struct{}

	mu      sync.Mutex
	console strings.Builder
	// kernel is when the kernel wrote its first line.
	kernel time.Time
}

// output is the folder of the agent's kernel and ramdisk.
const output = agents + "/amd64"

// agents is the folder of the agents of all architectures.
const agents = "../../out/agent"

// programs are those of QEMU, with the processor that they emulate.
var programs = map[string]struct{ name, cpu string }{"amd64": {"qemu-system-x86_64", "max"}, "arm64": {"qemu-system-aarch64", "cortex-a72"}}

func macOf(number int) string { return fmt.Sprintf("52:54:00:00:00:%02x", number+1) }

func start(t *testing.T, m machine) *running {
	t.Helper()
	g := NewWithT(t)
	r := &running{t: t, socket: filepath.Join(t.TempDir(), "monitor"), exited: make(chan struct{}), bootTimeout: cmp.Or(m.bootTimeout, bootTimeout)}
	commandLine := "console=ttyS0 panic=1 no_timer_check earlyprintk=ttyS0 " + m.commandLine
	if m.server != "" {
		commandLine += fmt.Sprintf(" %s=%s %s=%s %s=%s", agent.ParamServer, m.server, agent.ParamHost, cmp.Or(m.host, host), agent.ParamToken, token)
	}
	program := programs[cmp.Or(m.architecture, "amd64")]
	args := []string{
		"-cpu", program.cpu, "-m", strconv.Itoa(cmp.Or(m.memory, 512)), "-smp", "1", "-nodefaults", "-display", "none", "-no-reboot",
		"-serial", "stdio", "-monitor", "unix:" + r.socket + ",server=on,wait=off",
	}
	if len(m.firmware) > 0 {
		args = append(args, m.firmware...)
	} else {
		args = append(args, "-machine", "q35,accel=tcg",
			"-kernel", filepath.Join(output, "kernel"), "-initrd", cmp.Or(m.initrd, filepath.Join(output, "ramdisk")), "-append", commandLine)
	}
	args = append(args, m.args...)
	if m.unplugged {
		args = append(args, "-S")
	}
	for i, c := range m.cards {
		netdev := c.netdev
		if netdev == "" {
			netdev = "tap,ifname=" + c.tap + ",script=no,downscript=no"
		}
		args = append(args, "-netdev", netdev+",id=net"+strconv.Itoa(i), "-device", fmt.Sprintf("%s,netdev=net%d,mac=%s,romfile=", c.model, i, macOf(i+c.number)))
	}
	command := exec.Command(program.name, args...) //nolint:noctx // ended with the test
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := command.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	command.Stderr = command.Stdout
	r.started = time.Now()
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // Linux takes the end of the thread that started a process for that of its parent
		defer runtime.UnlockOSThread()
		begun <- command.Start()
		r.read(bufio.NewScanner(out))
		_ = command.Wait()
		close(r.exited)
	}()
	g.Expect(<-begun).To(Succeed(), "hack/agenttest.sh installs QEMU")
	t.Cleanup(func() {
		_ = command.Process.Kill() // an error says that it is gone
		<-r.exited
		if t.Failed() {
			t.Logf("the console:\n%s", r.said())
		}
	})
	if m.unplugged {
		r.monitor("set_link net0 off")
		r.monitor("cont")
	}
	return r
}

func (r *running) read(lines *bufio.Scanner) {
	for lines.Scan() {
		r.mu.Lock()
		if r.kernel.IsZero() && strings.Contains(lines.Text(), "Linux version") {
			r.kernel = time.Now()
		}
		r.console.WriteString(lines.Text() + "\n")
		r.mu.Unlock()
	}
}

func (r *running) said() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.console.String()
}

// awaitConsole waits until the server has written a text.
func (r *running) awaitConsole(text string) {
	r.t.Helper()
	NewWithT(r.t).Eventually(r.said, bootTimeout, "50ms").Should(ContainSubstring(text))
}

// awaitEnd waits until the agent has reported the end of its plan, and the server has done what follows.
func (r *running) awaitEnd(s *server) {
	r.t.Helper()
	g := NewWithT(r.t)
	g.Eventually(func() bool { return s.Result() != nil || r.isOff() }, r.bootTimeout, "50ms").Should(BeTrue())
	result := s.Result()
	g.Expect(result).NotTo(BeNil(), "the server went off before")
	// This agent can carry nothing out: the plan's purpose does not exist.
	g.Expect(result.Failure).NotTo(BeNil())
	g.Expect(result.Failure.Reason).To(Equal(wire.ReasonPlanInvalid))
	g.Expect(result.Log).To(ContainSubstring("Got the plan"))
	g.Expect(len(result.Log)).To(BeNumerically("<=", agent.MaxLog))
	r.awaitOff()
	g.Expect(r.said()).NotTo(ContainSubstring("Kernel panic"))
	g.Expect(r.said()).NotTo(ContainSubstring("Failed to load kernel modules"))
	g.Expect(r.said()).NotTo(ContainSubstring("Failed to configure"))
}

func (r *running) isOff() bool {
	select {
	case <-r.exited:
		return true
	default:
		return false
	}
}

func (r *running) awaitOff() {
	r.t.Helper()
	NewWithT(r.t).Eventually(r.exited, bootTimeout).Should(BeClosed())
}

// secondsToPlan is the time from the kernel's first line to the request for the plan.
func (r *running) secondsToPlan(s *server) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.Requests(agent.EndpointPlan)[0].At.Sub(r.kernel).Seconds()
}

func (r *running) secondsFromStart(s *server) float64 {
	return s.Requests(agent.EndpointPlan)[0].At.Sub(r.started).Seconds()
}

// monitor gives a command to QEMU and returns what it prints.
func (r *running) monitor(command string) string {
	r.t.Helper()
	g := NewWithT(r.t)
	var conn net.Conn
	g.Eventually(func() (err error) {
		conn, err = net.Dial("unix", r.socket) //nolint:noctx // at once, or refused
		return err
	}, bootTimeout, "20ms").Should(Succeed())
	defer func() { _ = conn.Close() }()
	g.Expect(conn.SetDeadline(time.Now().Add(bootTimeout))).To(Succeed())
	prompt := bufio.NewReader(conn)
	awaitPrompt := func() string {
		var text strings.Builder
		for !strings.HasSuffix(text.String(), "(qemu) ") {
			c, err := prompt.ReadByte()
			if err != nil && command == "quit" {
				break
			}
			g.Expect(err).NotTo(HaveOccurred())
			text.WriteByte(c)
		}
		return text.String()
	}
	awaitPrompt()
	_, err := conn.Write([]byte(command + "\n"))
	g.Expect(err).NotTo(HaveOccurred())
	return awaitPrompt()
}

// noShutdown are the arguments of QEMU with which it stays after the server has switched itself off, for awaitWrites.
var noShutdown = []string{"-no-shutdown"}

// statistics is a drive in the answer of QEMU to "info blockstats", with the number of its writes.
var statistics = regexp.MustCompile(`(?m)^(\S+): rd_bytes=.* wr_operations=(\d+)`)

// awaitWrites waits until a server with the arguments noShutdown has switched itself off, and ends QEMU. It returns how many writes each drive got, by its ID.
func (r *running) awaitWrites() map[string]int {
	r.t.Helper()
	g := NewWithT(r.t)
	g.Eventually(func() string { return r.monitor("info status") }, bootTimeout, "100ms").Should(ContainSubstring("shutdown"))
	writes := map[string]int{}
	for _, m := range statistics.FindAllStringSubmatch(r.monitor("info blockstats"), -1) {
		n, err := strconv.Atoi(m[2])
		g.Expect(err).NotTo(HaveOccurred())
		writes[m[1]] = n
	}
	r.monitor("quit")
	r.awaitOff()
	return writes
}
