// Package node is the operating system of an emulated server. It does with the real bootstrap data what cloud-init does, as far as that is possible without
// containers. A control plane server runs the real phases of `kubeadm init`, and starts a real kube-apiserver and kube-controller-manager with the
// certificates that these made. A worker joins with a hollow kubelet, by TLS bootstrap. The shell script of a BareMetalConfig is run by a real shell.
package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/balancer"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const joinTimeout = 2 * time.Minute

// Node is a running operating system.
type Node struct {
	// Dir is the server's disk, Bin the folder with the programs.
	Dir, Bin string
	// Version is the version of Kubernetes of the image; empty for that of the programs.
	Version string
	// Balancer has the control plane endpoints of all clusters. The API server of a control plane server has the address of the server, and the server adds it to
	// the endpoint of its cluster.
	Balancer *balancer.Balancer
	Extras   Extras

	name    string
	address netip.Addr
	running []*proc.Process
	temp    string         // folder for temporary files of the programs
	api     netip.AddrPort // of a control plane server: where its API server serves
	leave   func()         // removes the API server from the balancer; nil before it was added
}

// Extras are what few suites need in the control plane of a cluster.
type Extras struct {
	// Scheduler runs a kube-scheduler on each control plane server. Without it Pods are only scheduled by a test.
	Scheduler bool
	// KubeProxy creates the objects of kube-proxy, as `kubeadm init` does.
	KubeProxy bool
}

// Run runs the booted system until ctx ends: it starts the node, reports in, and keeps the node alive.
func (n *Node) Run(ctx context.Context, system *pxetest.System, stage func(string)) error {
	n.name, n.address = system.MetaData["hostname"], system.Address
	defer n.stop()
	if err := n.bootstrap(ctx, system); err != nil {
		return err
	}
	stage("joined")
	if err := system.Report(ctx); err != nil {
		return fmt.Errorf("report in: %w", err)
	}
	stage("reported in")
	<-ctx.Done()
	return nil
}

// bootstrap carries out the bootstrap data. Data with a script joins by the script, other data by the file that kubeadm's bootstrap provider writes.
func (n *Node) bootstrap(ctx context.Context, system *pxetest.System) error {
	data, err := parseUserData(system)
	if err != nil {
		return err
	}
	if err := n.writeFiles(data.files); err != nil {
		return err
	}
	switch {
	case len(data.scripts) > 0:
		return n.runScripts(ctx, data.scripts, system.MetaData)
	case n.exists(initConfig):
		return n.runControlPlane(ctx)
	default:
		return n.join(ctx, n.path(joinConfig))
	}
}

// stop removes the server from the balancer, and ends its programs in the reverse order of their start.
func (n *Node) stop() {
	if n.leave != nil {
		n.leave()
		n.leave = nil
	}
	for _, process := range slices.Backward(n.running) {
		process.Stop()
	}
	if n.temp != "" {
		_ = os.RemoveAll(n.temp) // what is left is in the folder for temporary files
		n.temp = ""
	}
}

func (n *Node) path(path string) string { return filepath.Join(n.Dir, filepath.Clean("/"+path)) }

func (n *Node) exists(path string) bool {
	_, err := os.Stat(n.path(path))
	return err == nil
}

func (n *Node) writeFiles(files []file) error {
	for _, file := range files {
		content := []byte(file.Content)
		switch file.Encoding {
		case "":
		case "base64", "b64":
			var err error
			if content, err = base64.StdEncoding.DecodeString(file.Content); err != nil {
				return fmt.Errorf("%s: %w", file.Path, err)
			}
		default:
			return fmt.Errorf("%s: unknown encoding %q", file.Path, file.Encoding)
		}
		if err := os.MkdirAll(filepath.Dir(n.path(file.Path)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(n.path(file.Path), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) start(ctx context.Context, name string, ready func(context.Context) error, args ...string) error {
	if n.temp == "" {
		// The kubelet does not remove its temporary files. They are not in n.Dir, where the paths of its sockets would be longer than 108 bytes.
		temp, err := os.MkdirTemp("", "capbm-")
		if err != nil {
			return err
		}
		n.temp = temp
	}
	// At the end of ctx all would end at once. stop ends them in order: a leader releases its lease while its API server serves.
	process, err := proc.Start(context.WithoutCancel(ctx), n.Dir, name, []string{"TMPDIR=" + n.temp}, filepath.Join(n.Bin, name), args...)
	if err != nil {
		return err
	}
	n.running = append(n.running, process)
	return process.Wait(ctx, joinTimeout, ready)
}

// startKubelet starts a hollow kubelet, and waits until it is healthy.
func (n *Node) startKubelet(ctx context.Context, args ...string) error {
	root := n.path("/var/lib/kubelet")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	if n.Version != "" {
		args = append(args, "--kubernetes-version="+n.Version)
	}
	const port = 10250 // kubemark's kubelet serves this port without TLS
	return n.start(ctx, "hollow-kubelet", proc.Healthy(fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(n.address, port))),
		append([]string{"--name=" + n.name, "--address=" + n.address.String(), fmt.Sprintf("--port=%d", port), "--root=" + root}, args...)...)
}

// registration is kubeadm's configuration of the registration of a Node.
type registration struct {
	KubeletExtraArgs []struct{ Name, Value string } `json:"kubeletExtraArgs"`
}

func (r registration) arg(name string) string {
	for _, arg := range r.KubeletExtraArgs {
		if arg.Name == name {
			return arg.Value
		}
	}
	return ""
}
