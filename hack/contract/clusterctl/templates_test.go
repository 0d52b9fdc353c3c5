package clusterctl

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// project is the project's folder.
const project = "../../.."

// releasedImage has a tag and a digest, since a tag can be moved to another image.
var releasedImage = "registry.example/capbm:v9.9.9@sha256:" + strings.Repeat("0123456789abcdef", 4)

// released returns the files of a release by name. The files of the bootstrap provider have the name of its folder before theirs.
func released(ctx context.Context, t *testing.T) map[string]string {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	_, err := proc.Run(ctx, nil, filepath.Join(project, "hack", "release.sh"), folder, "v0.1.0", releasedImage)
	g.Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for provider, prefix := range map[string]string{provider.Infrastructure: "", provider.Bootstrap: provider.Bootstrap + "/"} {
		entries, err := os.ReadDir(filepath.Join(folder, provider, "v0.1.0"))
		g.Expect(err).NotTo(HaveOccurred())
		for _, e := range entries {
			content, err := os.ReadFile(filepath.Join(folder, provider, "v0.1.0", e.Name()))
			g.Expect(err).NotTo(HaveOccurred())
			files[prefix+e.Name()] = string(content)
		}
	}
	return files
}

var bootstrapComponents = provider.Bootstrap + "/bootstrap-components.yaml"

// TestRelease: the release has the files that clusterctl reads, with the requested image.
func TestRelease(t *testing.T) {
	g := NewWithT(t)
	files := released(contracttest.Context(t, 5*time.Minute), t)
	for _, name := range []string{
		"infrastructure-components.yaml", "single-pod-components.yaml", "boot-components.yaml", "metadata.yaml", "cluster-template.yaml", "cluster-template-ha.yaml",
		"cluster-template-external-loadbalancer.yaml", "cluster-template-network-boot.yaml", "cluster-template-ignition.yaml", provider.Bootstrap + "/metadata.yaml", bootstrapComponents,
	} {
		g.Expect(files).To(HaveKey(name))
	}
	for _, name := range []string{"infrastructure-components.yaml", "single-pod-components.yaml", "boot-components.yaml", bootstrapComponents} {
		g.Expect(files[name]).To(ContainSubstring("image: "+releasedImage+"\n"), name)
		g.Expect(files[name]).NotTo(ContainSubstring("cluster-api-provider-baremetal:dev"), name)
	}
	g.Expect(files["cluster-template-external-loadbalancer.yaml"]).NotTo(ContainSubstring("kube-vip"))
	for _, name := range []string{"cluster-template.yaml", "cluster-template-ha.yaml", "cluster-template-network-boot.yaml", "cluster-template-ignition.yaml"} {
		g.Expect(files[name]).To(MatchRegexp(`KUBE_VIP_IMAGE:=ghcr\.io/kube-vip/kube-vip:v\d+\.\d+\.\d+}`), "%s: the image has no fixed version", name)
	}
}

// TestVariablesAreDocumented: docs/reference/variables.md has every variable of a release, with its default, and no others.
func TestVariablesAreDocumented(t *testing.T) {
	g := NewWithT(t)
	row := regexp.MustCompile("(?m)^\\| `([A-Z][A-Z0-9_]+)` \\| ([^|]*) \\| ([^|]+) \\|$")
	documented := map[string]string{} // the cell with the default
	content, err := os.ReadFile(filepath.Join(project, "docs", "reference", "variables.md"))
	g.Expect(err).NotTo(HaveOccurred())
	for _, r := range row.FindAllStringSubmatch(string(content), -1) {
		documented[r[1]] = r[2]
	}
	used := map[string]bool{}
	for file, content := range released(contracttest.Context(t, 5*time.Minute), t) {
		for _, v := range variables(t, file, content) {
			used[v.name] = true
			cell, ok := documented[v.name]
			switch {
			case !ok:
				t.Errorf("%s has the variable %s, which docs/reference/variables.md does not explain", file, v.name)
			case !strings.Contains(cell, v.preset):
				t.Errorf("%s gives %s the default %s, and docs/reference/variables.md %q", file, v.name, v.preset, cell)
			}
		}
	}
	for name := range documented {
		if !used[name] {
			t.Errorf("docs/reference/variables.md explains the variable %s, which nothing has", name)
		}
	}
}

// variable is a variable that clusterctl lists.
type variable struct {
	name string
	// preset is its default in the docs.
	preset string
}

// variables returns the variables that clusterctl finds in a file of a release.
func variables(t *testing.T, file, content string) []variable {
	t.Helper()
	g := NewWithT(t)
	file = filepath.Base(file)
	if file == "metadata.yaml" || strings.HasPrefix(file, "clusterclass-") { // a ClusterClass has its own kind of variables
		return nil
	}
	path := filepath.Join(t.TempDir(), file)
	g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	out, err := clusterctl(t, "generate", "cluster", "prod", "--target-namespace", "default", "--from", path, "--list-variables")
	g.Expect(err).NotTo(HaveOccurred())
	var found []variable
	for _, line := range regexp.MustCompile(`(?m)^  - ([A-Z0-9_]+)(?: +\(defaults to (.*)\))?$`).FindAllStringSubmatch(out, -1) {
		v := variable{name: line[1], preset: "required"}
		switch {
		case strings.HasPrefix(line[2], `"`):
			v.preset = "`" + strings.Trim(line[2], `"`) + "`"
		case line[2] != "":
			v.preset = "`--" // a flag of clusterctl, or its argument
		case line[1] == "KUBERNETES_VERSION":
			v.preset = "`--kubernetes-version`"
		}
		if v.name == "CLUSTER_NAME" {
			v.preset = "argument"
		}
		if v.preset == "``" {
			v.preset = "nothing"
		}
		found = append(found, v)
	}
	g.Expect(found).NotTo(BeEmpty(), out)
	return found
}

// clusterctl runs the real one, without a cluster.
func clusterctl(t *testing.T, args ...string) (string, error) {
	t.Helper()
	env := []string{"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "KUBECONFIG=" + filepath.Join(t.TempDir(), "none")}
	for name, value := range values {
		if slices.Contains(args, "--list-variables") {
			break
		}
		env = append(env, name+"="+value)
	}
	return proc.Run(t.Context(), env, filepath.Join(project, ".cache", "bin", "clusterctl"), args...)
}
