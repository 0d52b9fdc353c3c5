package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// joinConfig is the path at which kubeadm's bootstrap provider writes the JoinConfiguration of a server.
const joinConfig = "/run/kubeadm/kubeadm-join-config.yaml"

// joinConfiguration is the part of a JoinConfiguration that the lab reads.
type joinConfiguration struct {
	NodeRegistration registration `json:"nodeRegistration"`
	ControlPlane     *struct{}    `json:"controlPlane"`
	Discovery        struct {
		BootstrapToken struct {
			APIServerEndpoint string `json:"apiServerEndpoint"`
			Token             string `json:"token"`
		} `json:"bootstrapToken"`
	} `json:"discovery"`
}

// join starts a worker, or a further control plane server, with the JoinConfiguration in a file.
func (n *Node) join(ctx context.Context, path string) error {
	content, err := os.ReadFile(path) //nolint:gosec // in the server's own folder
	if err != nil {
		return fmt.Errorf("the bootstrap data has neither a kubeadm InitConfiguration nor a JoinConfiguration: %w", err)
	}
	var join joinConfiguration
	if err := yaml.Unmarshal(content, &join); err != nil {
		return err
	}
	kubelet := []string{
		"--join-config=" + path, "--provider-id=" + join.NodeRegistration.arg("provider-id"),
		"--taints=" + join.NodeRegistration.arg("register-with-taints"), "--node-labels=" + join.NodeRegistration.arg("node-labels"),
	}
	if join.ControlPlane == nil {
		return n.startKubelet(ctx, kubelet...)
	}
	return n.joinControlPlane(ctx, &join, kubelet)
}

// joinControlPlane does what `kubeadm join --control-plane` does. The phases of join read and write only the machine's /etc/kubernetes (kubeadm v1.36; no
// upstream issue found; delete when they take a folder). So the phases of `kubeadm init`, which take a folder, make the server's certificates and
// kubeconfigs from the CAs in the bootstrap data and the configuration in the cluster. The kubelet joins as a worker's does.
func (n *Node) joinControlPlane(ctx context.Context, join *joinConfiguration, kubelet []string) error {
	cluster, err := n.fetchClusterConfig(ctx, join)
	if err != nil {
		return fmt.Errorf("read kubeadm's configuration from the cluster: %w", err)
	}
	register, err := yaml.Marshal(map[string]any{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration", "nodeRegistration": map[string]any{"name": n.name},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(n.path(initConfig), bytes.Join([][]byte{register, cluster}, []byte("\n---\n")), 0o600); err != nil {
		return err
	}
	if _, err := n.startControlPlane(ctx); err != nil {
		return err
	}
	if err := n.startKubelet(ctx, append(kubelet, "--manifests="+n.path(manifests))...); err != nil {
		return err
	}
	return n.markControlPlane(ctx, filepath.Join(n.path("/etc/kubernetes"), "admin.conf"))
}

// fetchClusterConfig reads the ClusterConfiguration that the first control plane server stored in the cluster, with the bootstrap token as kubeadm does.
func (n *Node) fetchClusterConfig(ctx context.Context, join *joinConfiguration) ([]byte, error) {
	token := join.Discovery.BootstrapToken
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "https://" + token.APIServerEndpoint, BearerToken: token.Token, Timeout: joinTimeout,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(n.path(pki), "ca.crt")},
	})
	if err != nil {
		return nil, err
	}
	config, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return []byte(config.Data["ClusterConfiguration"]), nil
}
