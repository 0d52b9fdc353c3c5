package pxe

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// AgentFiles are the kernel and the ramdisk of the agent, for each architecture: DIR/ARCH/kernel and DIR/ARCH/ramdisk.
type AgentFiles struct {
	// Dir is the folder.
	Dir string
}

// agentFiles are the files, in the order in which a boot loader loads them.
var agentFiles = []string{"kernel", "ramdisk"}

// Open opens a file of an architecture by its index.
func (f AgentFiles) Open(architecture string, index int) (*os.File, error) {
	if architecture != "amd64" && architecture != "arm64" || index < 0 || index >= len(agentFiles) {
		return nil, ErrRefused
	}
	return os.Open(filepath.Join(f.Dir, architecture, agentFiles[index])) //nolint:gosec // made of known words
}

// Check returns an error if the files of an architecture are missing.
func (f AgentFiles) Check(architecture string) error {
	for i := range agentFiles {
		opened, err := f.Open(architecture, i)
		if err != nil {
			return fmt.Errorf("the boot server has no agent for %s: agent.dir of its configuration file must be the folder that `make agent` writes: %w", architecture, err)
		}
		_ = opened.Close()
	}
	return nil
}

// agentConsole makes the kernel of the agent write to the screen and to the serial port, which the BMC redirects (Serial over LAN). The last one is /dev/console.
var agentConsole = map[string]string{
	"amd64": "console=tty0 console=ttyS0,115200n8",
	"arm64": "console=tty0 console=ttyAMA0,115200n8",
}

// agentCommandLine returns the kernel command line of the agent, whose boot server has the URL base and certificates with the given pins.
func agentCommandLine(s *AgentScript, base string, pins []string) (string, error) {
	words := []string{
		agentConsole[s.Architecture], "panic=60", agent.ParamServer + "=" + base, agent.ParamHost + "=" + s.Host, agent.ParamToken + "=" + s.Token,
	}
	if len(pins) > 0 {
		words = append(words, agent.ParamPins+"="+strings.Join(pins, ","))
	}
	if s.Network != nil {
		network, err := json.Marshal(s.Network)
		if err != nil {
			return "", err
		}
		words = append(words, agent.ParamNetwork+"="+base64.RawURLEncoding.EncodeToString(network))
	}
	line := strings.Join(words, " ")
	if len(line) > maxCommandLine {
		return "", fmt.Errorf("%w: it has %d characters and %d fit: shorten spec.network of the host", ErrCommandLine, len(line), maxCommandLine)
	}
	return line, nil
}
