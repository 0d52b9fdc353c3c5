package bootconfig

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Agent configures the agent that boot servers give to servers.
type Agent struct {
	// Dir is the folder with the kernels and ramdisks of the agent, in a folder for each architecture.
	Dir string
	// CommandLine is appended to the kernel command line of the agent, for what the hardware of a site needs: another serial port, or a workaround. Empty for
	// none.
	CommandLine string
}

// maxAgentCommandLine is the maximum length of Agent.CommandLine in bytes. The rest of the command line is for the provider's parameters and the network of the host.
const maxAgentCommandLine = 256

type agentSection struct {
	Dir         string `json:"dir"`
	CommandLine string `json:"commandLine"`
}

func (r *reader) agent(a agentSection, path *field.Path) Agent {
	line := path.Child("commandLine")
	words := strings.Fields(a.CommandLine)
	if len(a.CommandLine) > maxAgentCommandLine {
		r.problems = append(r.problems, field.TooLong(line, "", maxAgentCommandLine))
	}
	if strings.ContainsFunc(a.CommandLine, func(c rune) bool { return c < ' ' || c > '~' }) || strings.Contains(a.CommandLine, "${") {
		r.invalid(line, a.CommandLine, "give one line of printable ASCII characters without ${")
	}
	for _, word := range words {
		switch {
		case strings.HasPrefix(word, "capbm."):
			r.invalid(line, word, "the provider sets the parameters capbm.*: leave it out")
		case strings.HasPrefix(word, "#"), word == ";", word == "&&", word == "||":
			r.invalid(line, word, "leave it out: the boot loader would end the command there")
		}
	}
	return Agent{Dir: r.absolute(a.Dir, DefaultAgentDir, path.Child("dir")), CommandLine: strings.Join(words, " ")}
}
