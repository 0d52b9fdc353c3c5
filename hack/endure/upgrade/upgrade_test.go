// Package upgrade_test runs the agent of the release before against the boot server of this tree, and the other way round.
package upgrade_test

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make upgrade", ".cache/bin/kube-apiserver", ".cache/bin/etcd")
	os.Exit(m.Run())
}

// timeout is that of one direction, with compiling.
const timeout = 20 * time.Minute

// protocolVersion is the line with the version of the agent's protocol in pxe/agent/agent.go.
var protocolVersion = regexp.MustCompile(`(?m)^const Version = (\d+)$`)

// TestUpgrade: while the provider is upgraded, an agent can meet a boot server of another release. If both have the same version of the protocol, it completes an image
// and an erasure; otherwise it is refused before it touches a disk. PREVIOUS has the commit of the release before; UPGRADE_FROM
// names another one.
func TestUpgrade(t *testing.T) {
	g := NewWithT(t)
	root := controllerstest.Root()
	name, err := os.ReadFile("PREVIOUS")
	g.Expect(err).NotTo(HaveOccurred())
	commit := cmp.Or(os.Getenv("UPGRADE_FROM"), strings.TrimSpace(string(name)))
	before := treeOf(t, root, commit)
	refused := versionOf(t, before) != versionOf(t, root)
	t.Logf("version %s of the protocol in %.12s, and %s here", versionOf(t, before), commit, versionOf(t, root))
	for _, c := range []struct{ name, agent, server string }{
		{"the agent of before and the boot server of this tree", before, root}, {"the agent of this tree and the boot server of before", root, before},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			agent := filepath.Join(t.TempDir(), "agent")
			g.Expect(emulated.Build(ctx, c.agent, agent)).To(Succeed())
			test := exec.CommandContext(ctx, "go", "-C", c.server, "test", "-count=1", "-v", "-timeout", timeout.String(), "-run", "^TestOtherAgent$", "./hack/endure/rig")
			test.Env = append(os.Environ(), rig.AgentVariable+"="+agent)
			if refused {
				test.Env = append(test.Env, "RIG_AGENT_IS_REFUSED=yes")
			}
			output, err := test.CombinedOutput()
			g.Expect(err).NotTo(HaveOccurred(), string(output))
			g.Expect(string(output)).To(And(ContainSubstring("--- PASS: TestOtherAgent/image"), ContainSubstring("--- PASS: TestOtherAgent/erasure")))
		})
	}
}

// treeOf unpacks a commit, with the lab's programs of this tree.
func treeOf(t *testing.T, root, commit string) string {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	archive := filepath.Join(folder, "commit.tar")
	for _, command := range []*exec.Cmd{
		exec.CommandContext(t.Context(), "git", "-C", root, "archive", "--output", archive, commit), exec.CommandContext(t.Context(), "tar", "-x", "-C", folder, "-f", archive),
	} {
		output, err := command.CombinedOutput()
		g.Expect(err).NotTo(HaveOccurred(), "%s\nA clone without its history does not have the commit: git fetch --unshallow", output)
	}
	g.Expect(os.Mkdir(filepath.Join(folder, ".cache"), 0o755)).To(Succeed())
	g.Expect(os.Symlink(filepath.Join(root, ".cache", "bin"), filepath.Join(folder, ".cache", "bin"))).To(Succeed())
	return folder
}

// versionOf returns the version of the agent's protocol in a tree.
func versionOf(t *testing.T, root string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "pxe", "agent", "agent.go"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	found := protocolVersion.FindSubmatch(content)
	NewWithT(t).Expect(found).To(HaveLen(2))
	return string(found[1])
}
