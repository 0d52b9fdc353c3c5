package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// serverArchs are the architectures of servers that there is an agent for.
var serverArchs = []string{"amd64", "arm64"}

// agentFiles are the files of an agent that the boot server serves. It knows these names, too.
var agentFiles = map[string][]string{"amd64": {"kernel", "ramdisk"}, "arm64": {"kernel.gz", "kernel.squashfs", "ramdisk"}}

// addAgents adds the folder of each agent: its files, the licences, and the list of their checksums. The boot server serves agentFiles.
func addAgents(t *tree, folder string) error {
	for _, arch := range serverArchs {
		from, to := filepath.Join(folder, arch), "usr/lib/capbm/agent/"+arch+"/"
		sums, err := readLines(filepath.Join(from, "SHA256SUMS"), 2)
		if err != nil {
			return fmt.Errorf("hack/agent.sh makes the folder: %w", err)
		}
		names := []string{"SHA256SUMS"}
		for _, fields := range sums {
			names = append(names, fields[1])
		}
		for _, needed := range agentFiles[arch] {
			if !slices.Contains(names, needed) {
				return fmt.Errorf("%s/SHA256SUMS has no %s", from, needed)
			}
		}
		for _, name := range names {
			if err := t.copy(to+name, filepath.Join(from, name), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// readLines reads a file whose lines have n words.
func readLines(file string, n int) ([][]string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) != n {
			return nil, fmt.Errorf("%s: %q does not have %d words", file, strings.TrimSpace(line), n)
		}
		all = append(all, fields)
	}
	return all, nil
}

// listAgent lists the agent of an architecture in an SBOM: Debian's packages of the kernel and of the firmware, and the program with its modules. A package of
// firmware without a licence beside the agent is one that no file was taken from.
func listAgent(d *document, o *options, arch string, agent component) error {
	packages, err := readLines(filepath.Join(o.agents, arch, "packages"), 3)
	if err != nil {
		return err
	}
	for _, p := range packages {
		_, err := os.Stat(filepath.Join(o.agents, arch, "licenses", p[0]))
		if errors.Is(err, fs.ErrNotExist) && !strings.HasPrefix(p[0], "linux-image-") {
			continue
		}
		d.contain(agent.id(), component{name: p[0], version: p[1], purpose: "LIBRARY", sum: p[2], supplier: "Debian", purl: debianURL(p[0], p[1])})
	}
	init, modules, err := program(o, filepath.Join(o.agentPrograms, "program-"+arch, "agent"), "agent-"+arch+"/init")
	if err != nil {
		return err
	}
	d.contain(agent.id(), init)
	d.contain(init.id(), modules...)
	return nil
}

// imageAgents lists the agents in the SBOM of an image. The checksum of an agent is that of its list of checksums.
func imageAgents(d *document, o *options, container component) error {
	for _, arch := range serverArchs {
		sum, err := fileSum(filepath.Join(o.agents, arch, "SHA256SUMS"))
		if err != nil {
			return err
		}
		agent := component{name: "agent-" + arch, version: o.version, purpose: "OPERATING-SYSTEM", sum: sum, supplier: project}
		d.contain(container.id(), agent)
		if err := listAgent(d, o, arch, agent); err != nil {
			return err
		}
	}
	return nil
}
