package bootconfig

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

// Agent configures the agent that the boot server gives to servers.
type Agent struct {
	// Dir is the folder with the kernels and ramdisks of the agent, in a folder for each architecture.
	Dir string
	// CommandLine are the kernel parameters that the agent of every server gets too, for what the hardware of a site needs: another serial port, or a workaround.
	// Empty for none.
	CommandLine string
}

// maxAgentCommandLine is the maximum length of Agent.CommandLine in bytes. The rest of the command line is for the provider's parameters and the network of the host.
const maxAgentCommandLine = 256

type agentSection struct {
	Dir         string `json:"dir"`
	CommandLine string `json:"commandLine"`
}

func (r *reader) agent(a agentSection, path *field.Path) Agent {
	line, words := path.Child("commandLine"), strings.Fields(a.CommandLine)
	text := strings.Join(words, " ")
	if text == noneKeyword {
		words, text = nil, ""
	}
	if len(text) > maxAgentCommandLine {
		r.problems = append(r.problems, field.TooLong(line, "", maxAgentCommandLine))
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case strings.ContainsFunc(word, func(c rune) bool { return c < ' ' || c > '~' }), strings.ContainsAny(word, `"'\`), strings.Contains(word, "${"):
			r.invalid(line, word, "give printable ASCII characters without quotation marks, backslashes and ${, which a boot loader would change")
		case ipxe.EndsCommand(word), word == "--":
			r.invalid(line, word, "leave it out: the boot loader or the kernel would not read what follows")
		case strings.HasPrefix(name, "capbm."), name == "initrd", name == "rdinit":
			r.invalid(line, word, "leave it out: the provider sets it")
		}
	}
	return Agent{Dir: r.absolute(a.Dir, DefaultAgentDir, path.Child("dir")), CommandLine: text}
}
