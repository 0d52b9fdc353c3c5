package imagecheck

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// withDefaults gives the variables of clusterctl their defaults.
func withDefaults(content []byte) []byte {
	return regexp.MustCompile(`\$\{[A-Z_]+:=([^}]*)\}`).ReplaceAll(content, []byte("$1"))
}

// deployments builds a folder of config, and returns its Deployments.
func deployments(t *testing.T, folder string) []appsv1.Deployment {
	t.Helper()
	built := must(t, filepath.Join(controllerstest.Root(), ".cache", "bin", "kubectl"), "kustomize", filepath.Join(controllerstest.Root(), "config", folder))
	var all []appsv1.Deployment
	for document := range strings.SplitSeq(built, "\n---\n") {
		var d appsv1.Deployment
		NewWithT(t).Expect(yaml.Unmarshal(withDefaults([]byte(document)), &d)).To(Succeed())
		if d.Kind == "Deployment" {
			all = append(all, d)
		}
	}
	return all
}

// deployment returns the Pod of the boot server. Its first container is the boot server, the second one the image service.
func deployment(t *testing.T) corev1.PodSpec {
	t.Helper()
	all := deployments(t, "boot")
	NewWithT(t).Expect(all).To(HaveLen(1))
	return all[0].Spec.Template.Spec
}

// only returns a Pod with one of its containers.
func only(t *testing.T, pod corev1.PodSpec, name string) corev1.PodSpec {
	t.Helper()
	one := *pod.DeepCopy()
	one.Containers = slices.DeleteFunc(one.Containers, func(c corev1.Container) bool { return c.Name != name })
	NewWithT(t).Expect(one.Containers).To(HaveLen(1))
	return one
}

// container is a container of the image, to be run by runc.
type container struct {
	bundle string
	spec   map[string]any
	mounts []any
}

func (c *container) set(t *testing.T, value any, path ...string) {
	t.Helper()
	NewWithT(t).Expect(unstructured.SetNestedField(c.spec, value, path...)).To(Succeed())
}

// newContainer makes a container as the kubelet and containerd have runc make it for the Deployment's Pod: user, capabilities, whether it
// may gain privileges, the file system that is read-only, and the network of the host, which is the test's here. The root is the unpacked
// image; arguments follow the image's entrypoint, or replace it if the first is a path.
func newContainer(t *testing.T, root string, pod corev1.PodSpec, args ...string) *container {
	t.Helper()
	g := NewWithT(t)
	c := &container{bundle: t.TempDir()}
	must(t, "runc", "spec", "--bundle", c.bundle)
	content, err := os.ReadFile(filepath.Join(c.bundle, "config.json"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(content, &c.spec)).To(Succeed())

	security, podSecurity := pod.Containers[0].SecurityContext, pod.SecurityContext
	g.Expect(*podSecurity.RunAsNonRoot).To(BeTrue())
	g.Expect(security.Capabilities.Drop).To(ConsistOf(corev1.Capability("ALL")))
	// containerd puts what is added into these sets, and nothing into the inheritable and the ambient ones.
	granted := []any{}
	for _, name := range security.Capabilities.Add {
		granted = append(granted, "CAP_"+string(name))
	}
	c.set(t, map[string]any{"bounding": granted, "permitted": granted, "effective": granted}, "process", "capabilities")
	c.set(t, !*security.AllowPrivilegeEscalation, "process", "noNewPrivileges")
	c.set(t, map[string]any{
		"uid": float64(*podSecurity.RunAsUser), "gid": float64(*podSecurity.RunAsGroup), "additionalGids": []any{float64(*podSecurity.FSGroup)},
	}, "process", "user")
	c.set(t, *security.ReadOnlyRootFilesystem, "root", "readonly")
	c.set(t, root, "root", "path")
	c.set(t, false, "process", "terminal")
	c.set(t, []any{"PATH=/usr/sbin:/usr/bin", "HOME=/tmp", "POD_NAMESPACE=capbm-system"}, "process", "env")
	command := []any{"/manager"}
	if strings.HasPrefix(args[0], "/") {
		command = nil
	}
	for _, arg := range args {
		command = append(command, arg)
	}
	c.set(t, command, "process", "args")
	// The host's network; and its own mount namespace and process numbers.
	c.set(t, []any{map[string]any{"type": "pid"}, map[string]any{"type": "mount"}, map[string]any{"type": "ipc"}, map[string]any{"type": "uts"}}, "linux", "namespaces")
	c.mounts = []any{
		map[string]any{"destination": "/proc", "type": "proc", "source": "proc"},
		map[string]any{"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": []any{"nosuid", "mode=755"}},
	}
	return c
}

// volumes are folders of this machine for the emptyDirs of a Pod, by their names. Its containers share them.
type volumes map[string]string

func newVolumes(t *testing.T, pod corev1.PodSpec) volumes {
	t.Helper()
	all := volumes{}
	for _, v := range pod.Volumes {
		if v.EmptyDir != nil {
			all[v.Name] = t.TempDir()
		}
	}
	return all
}

// mountAll mounts the volumes of a Pod's only container.
func (c *container) mountAll(t *testing.T, pod corev1.PodSpec, all volumes) {
	t.Helper()
	for _, m := range pod.Containers[0].VolumeMounts {
		if folder := all[m.Name]; folder != "" {
			c.mount(t, folder, m.MountPath, *pod.SecurityContext.FSGroup, true)
			if m.ReadOnly {
				c.readOnly()
			}
		}
	}
}

// readOnly makes the last mount read-only.
func (c *container) readOnly() {
	last, _ := c.mounts[len(c.mounts)-1].(map[string]any)
	last["options"] = []any{"rbind", "ro"}
}

// mount binds a folder of this machine. What is written belongs to the Pod's group, as the kubelet arranges it for an emptyDir.
func (c *container) mount(t *testing.T, source, to string, group int64, write bool) {
	t.Helper()
	g := NewWithT(t)
	options, mode := []any{"rbind", "ro"}, os.FileMode(0o750)
	if write {
		options, mode = []any{"rbind", "rw"}, os.ModeSetgid|0o770
	}
	g.Expect(os.Chown(source, 0, int(group))).To(Succeed())
	g.Expect(os.Chmod(source, mode)).To(Succeed())
	c.mounts = append(c.mounts, map[string]any{"destination": to, "type": "bind", "source": source, "options": options})
}

// command returns what runs the container. It ends with the context.
func (c *container) command(ctx context.Context, t *testing.T) *exec.Cmd {
	t.Helper()
	g := NewWithT(t)
	c.set(t, c.mounts, "mounts")
	content, err := json.Marshal(c.spec)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(c.bundle, "config.json"), content, 0o600)).To(Succeed())
	name := fmt.Sprintf("capbm-imagecheck-%d-%s", os.Getpid(), filepath.Base(c.bundle))
	// Separate state and control groups: concurrent runs do not interfere.
	run := exec.CommandContext(ctx, "runc", "--root", filepath.Join(c.bundle, "state"), "run", "--bundle", c.bundle, name)
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) } // runc hands it on, and ends when the container has
	return run
}

// run runs the container to its end and returns what it printed.
func (c *container) run(t *testing.T) (string, error) {
	t.Helper()
	var out bytes.Buffer
	command := c.command(t.Context(), t)
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

// must runs a program and returns what it printed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	return mustIn(t, "", nil, name, args...)
}

func mustIn(t *testing.T, dir string, environment []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), environment...)
	var errs bytes.Buffer
	command.Stderr = &errs
	out, err := command.Output()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s%s", name, strings.Join(args, " "), out, &errs)
	return string(out)
}
