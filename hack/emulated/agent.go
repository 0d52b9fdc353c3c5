package emulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Build builds the agent as the program out. root is the project's folder.
func Build(ctx context.Context, root, out string) error {
	_, err := proc.Run(ctx, []string{"CGO_ENABLED=0"}, "go", "-C", root, "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./cmd/agent")
	return err
}

// Hardware is the part of an emulated server that an agent works with.
type Hardware struct {
	// Program is what Build built.
	Program string
	// Disk is the file that is the disk. Its base name is the serial number. NewDisk makes it.
	Disk string
	// More are the files of further disks, like Disk. One that does not exist is a disk that is missing.
	More []string
	// Firmware is how the server boots, and Identity what its firmware says of the server.
	Firmware wire.FirmwareMode
	Identity agent.Server
	// Log is the file to which agents write.
	Log string
	// Rate is how many bytes a second the network of the server transfers. Zero is without a limit.
	Rate int
}

// RunAgent runs the agent that a firmware booted, until its end or that of ctx, which is a power failure. It returns what the agent does at its end. The error
// of an agent that failed has the end of its log: a real one powers the server off then.
func (h *Hardware) RunAgent(ctx context.Context, system *pxetest.System) (agent.Next, error) {
	link, err := h.connect(ctx, system)
	if err != nil {
		return "", err
	}
	defer link.close()
	token := h.Disk + ".token"
	if err := os.WriteFile(token, []byte(system.Agent.Token), 0o600); err != nil {
		return "", err
	}
	log, err := os.OpenFile(h.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	var printed, messages bytes.Buffer
	arguments := []string{
		"--server=" + link.url, "--host=" + system.Agent.Host, "--token-file=" + token, "--pins=" + strings.Join(system.Agent.Pins, ","),
		"--firmware=" + string(h.Firmware), "--system-uuid=" + h.Identity.SystemUUID, "--serial-number=" + h.Identity.SerialNumber,
	}
	for _, disk := range append([]string{h.Disk}, h.More...) {
		arguments = append(arguments, "--disk="+disk)
	}
	cmd := exec.CommandContext(ctx, h.Program, arguments...) //nolint:gosec // the lab's own
	cmd.Stdout, cmd.Stderr = &printed, io.MultiWriter(log, &messages)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	err = errors.Join(err, log.Close(), os.Remove(token))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("the agent: %w; the end of its log:\n%s", err, lastLines(messages.String(), 5))
	default:
		return agent.Next(strings.TrimSpace(printed.String())), nil
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// connect makes the network of the server: connections to it come to the boot server from the address of the server.
func (h *Hardware) connect(ctx context.Context, system *pxetest.System) (*link, error) {
	server, err := url.Parse(system.Agent.Server)
	if err != nil {
		return nil, err
	}
	l, err := newLink(ctx, system.Address, server.Host, h.Rate)
	if err != nil {
		return nil, err
	}
	server.Host = l.address()
	l.url = server.String()
	return l, nil
}
