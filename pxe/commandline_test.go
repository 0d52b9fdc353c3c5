package pxe

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestCommandLine: a command line that the kernel would cut off is an error that shows whose part is too long.
func TestCommandLine(t *testing.T) {
	g := NewWithT(t)
	const base = "http://192.0.2.1"
	script := Script{CommandLine: "quiet", SeedPath: "/seed/dc/h/token"}
	g.Expect(commandLine(script, base)).To(Equal("quiet ds=nocloud;dsmode=net;s=http://192.0.2.1/seed/dc/h/token/"))
	script.CommandLine = ""
	ours, err := commandLine(script, base)
	g.Expect(err).NotTo(HaveOccurred())
	script.CommandLine = strings.Repeat("a", maxCommandLine-len(ours)-1)
	g.Expect(commandLine(script, base)).To(HaveLen(maxCommandLine))
	script.CommandLine += "a"
	_, err = commandLine(script, base)
	g.Expect(err).To(MatchError(ErrCommandLine))
	g.Expect(err).To(MatchError(ContainSubstring("shorten spec.boot.commandLine of the machine or spec.network of the host")))
	script.Format, script.Network = seed.Ignition, &seed.Network{VLANs: []seed.VLAN{{Name: "storage", ID: 5, Link: "eno1"}}}
	_, err = commandLine(script, base)
	g.Expect(err).To(MatchError(ContainSubstring("name it eno1.5 or vlan5")))
}
