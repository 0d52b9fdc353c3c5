package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const (
	// initConfig is the path at which kubeadm's bootstrap provider writes the configuration of the first control plane server.
	initConfig = "/run/kubeadm/kubeadm.yaml"
	// uploadConfig is the same configuration with its original paths, which kubeadm stores in the cluster for servers that join.
	uploadConfig = "/run/kubeadm/upload.yaml"
	pki          = "/etc/kubernetes/pki"
	manifests    = "/etc/kubernetes/manifests"
	// advertised is the API server's own address in kubeadm's configuration. kubeadm refuses a loopback address, and no client connects to this one.
	advertised = "192.0.2.1"
)

// clusterConfig is the part of kubeadm's configuration that the lab reads.
type clusterConfig struct {
	endpoint string
	etcd     struct{ endpoints []string }
	register registration
	services string
}

// prepareInit puts the paths of kubeadm's configuration below the server's own folder, and returns what the lab needs of it.
func (n *Node) prepareInit() (*clusterConfig, error) {
	content, err := os.ReadFile(n.path(initConfig))
	if err != nil {
		return nil, err
	}
	config := &clusterConfig{}
	var out, upload [][]byte
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var parsed map[string]any
		if err := yaml.Unmarshal(document, &parsed); err != nil {
			return nil, err
		}
		original := document
		switch parsed["kind"] {
		case "ClusterConfiguration":
			err = n.prepareCluster(parsed, document, config)
		case "InitConfiguration":
			original = nil
			parsed["localAPIEndpoint"] = map[string]any{"advertiseAddress": advertised, "bindPort": 6443}
			register, ok := parsed["nodeRegistration"].(map[string]any)
			if !ok {
				return nil, errors.New("the InitConfiguration registers no Node")
			}
			register["criSocket"] = "unix:///run/containerd/containerd.sock"
			var typed struct {
				NodeRegistration registration `json:"nodeRegistration"`
			}
			err = yaml.Unmarshal(document, &typed)
			config.register = typed.NodeRegistration
		}
		if err != nil {
			return nil, err
		}
		changed, err := yaml.Marshal(parsed)
		if err != nil {
			return nil, err
		}
		out = append(out, changed)
		if original == nil {
			original = changed
		}
		upload = append(upload, original)
	}
	return config, errors.Join(os.WriteFile(n.path(initConfig), bytes.Join(out, []byte("\n---\n")), 0o600),
		os.WriteFile(n.path(uploadConfig), bytes.Join(upload, []byte("\n---\n")), 0o600))
}

func (n *Node) prepareCluster(parsed map[string]any, document []byte, config *clusterConfig) error {
	var typed struct {
		ControlPlaneEndpoint string `json:"controlPlaneEndpoint"`
		Networking           struct {
			ServiceSubnet string `json:"serviceSubnet"`
		} `json:"networking"`
		Etcd struct {
			External struct {
				Endpoints                 []string
				CAFile, CertFile, KeyFile string
			}
		}
	}
	if err := yaml.Unmarshal(document, &typed); err != nil {
		return err
	}
	external := typed.Etcd.External
	if len(external.Endpoints) == 0 {
		return errors.New("the lab needs an external etcd in the ClusterConfiguration")
	}
	config.endpoint, config.etcd.endpoints, config.services = typed.ControlPlaneEndpoint, external.Endpoints, typed.Networking.ServiceSubnet
	parsed["certificatesDir"] = n.path(pki)
	parsed["etcd"] = map[string]any{"external": map[string]any{
		"endpoints": external.Endpoints, "caFile": n.path(external.CAFile), "certFile": n.path(external.CertFile), "keyFile": n.path(external.KeyFile),
	}}
	// The server's own components connect to its own API server.
	apiServer, _ := parsed["apiServer"].(map[string]any)
	if apiServer == nil {
		apiServer = map[string]any{}
	}
	sans, _ := apiServer["certSANs"].([]any)
	apiServer["certSANs"] = append(sans, n.address.String())
	parsed["apiServer"] = apiServer
	return nil
}

func (n *Node) kubeadm(ctx context.Context, config string, phase ...string) error {
	args := append([]string{"init", "phase"}, phase...)
	_, err := proc.Run(ctx, nil, filepath.Join(n.Bin, "kubeadm"), append(args, "--config="+n.path(config))...)
	return err
}

// runControlPlane starts the first control plane server.
func (n *Node) runControlPlane(ctx context.Context) error {
	config, err := n.startControlPlane(ctx)
	if err != nil {
		return err
	}
	etc := n.path("/etc/kubernetes")
	admin := filepath.Join(etc, "super-admin.conf")
	if err := n.startKubelet(ctx, "--kubeconfig="+filepath.Join(etc, "kubelet.conf"), "--provider-id="+config.register.arg("provider-id"),
		"--manifests="+n.path(manifests), "--taints=node-role.kubernetes.io/control-plane:NoSchedule"); err != nil {
		return err
	}
	if err := errors.Join(n.kubeadm(ctx, uploadConfig, "upload-config", "all", "--kubeconfig="+admin),
		n.kubeadm(ctx, initConfig, "bootstrap-token", "--kubeconfig="+admin)); err != nil {
		return err
	}
	if n.Extras.KubeProxy {
		if err := n.kubeadm(ctx, initConfig, "addon", "kube-proxy", "--kubeconfig="+admin); err != nil {
			return err
		}
	}
	// What `kubeadm init` does outside of its phases: the ClusterRoleBinding of administrators.
	if _, err := proc.Run(ctx, nil, filepath.Join(n.Bin, "kubectl"), "--kubeconfig="+admin, "create", "clusterrolebinding", "kubeadm:cluster-admins",
		"--clusterrole=cluster-admin", "--group=kubeadm:cluster-admins"); err != nil {
		return err
	}
	return n.markControlPlane(ctx, admin)
}

// startControlPlane starts an API server, a controller manager and, as an extra, a scheduler with certificates that kubeadm makes from the cluster's CAs.
func (n *Node) startControlPlane(ctx context.Context) (*clusterConfig, error) {
	config, err := n.prepareInit()
	if err != nil {
		return nil, fmt.Errorf("prepare kubeadm's configuration: %w", err)
	}
	etc := n.path("/etc/kubernetes")
	if err := errors.Join(n.kubeadm(ctx, initConfig, "certs", "all"), n.kubeadm(ctx, initConfig, "kubeconfig", "all", "--kubeconfig-dir="+etc)); err != nil {
		return nil, err
	}
	port, err := pxetest.FreePort(n.address)
	if err != nil {
		return nil, err
	}
	n.api = netip.AddrPortFrom(n.address, port)
	if err := n.pointTo(etc, n.api.String()); err != nil {
		return nil, err
	}
	if err := n.startAPIServer(ctx, config); err != nil {
		return nil, err
	}
	if n.leave, err = n.Balancer.Add(ctx, config.endpoint, n.api.String()); err != nil {
		return nil, fmt.Errorf("control plane endpoint: %w", err)
	}
	if err := n.startControllerManager(ctx); err != nil {
		return nil, err
	}
	if n.Extras.Scheduler {
		if err := n.startScheduler(ctx); err != nil {
			return nil, err
		}
	}
	return config, n.writeStaticPods()
}

// markControlPlane labels and taints the server's Node, as kubeadm does.
func (n *Node) markControlPlane(ctx context.Context, admin string) error {
	kubectl := filepath.Join(n.Bin, "kubectl")
	if _, err := proc.Run(ctx, nil, kubectl, "--kubeconfig="+admin, "wait", "--for=create", "--timeout=60s", "node/"+n.name); err != nil {
		return err
	}
	_, err := proc.Run(ctx, nil, kubectl, "--kubeconfig="+admin, "label", "node", n.name, "node-role.kubernetes.io/control-plane=")
	return err
}

// pointTo changes the server in the kubeconfigs of the server's own components to the real address of the API server.
func (n *Node) pointTo(dir, endpoint string) error {
	for _, name := range []string{"controller-manager.conf", "scheduler.conf", "kubelet.conf"} {
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path) //nolint:gosec // in the server's own folder
		if err != nil {
			return err
		}
		content = bytes.ReplaceAll(content, []byte("https://"+advertised+":6443"), []byte("https://"+endpoint))
		if err := os.WriteFile(path, content, 0o600); err != nil { //nolint:gosec // in the server's own folder
			return err
		}
	}
	return nil
}

// etcdPrefix returns the prefix of a cluster's keys in the etcd of all clusters of the rack, by the cluster's CA: all control plane servers of the cluster have it,
// and a cluster that is created again under its name has another one.
func etcdPrefix(ca []byte) string {
	sum := sha256.Sum256(bytes.TrimSpace(ca))
	return "/clusters/" + hex.EncodeToString(sum[:8])
}

func (n *Node) startAPIServer(ctx context.Context, config *clusterConfig) error {
	file := func(name string) string { return filepath.Join(n.path(pki), name) }
	ca, err := os.ReadFile(file("ca.crt"))
	if err != nil {
		return err
	}
	return n.start(ctx, "kube-apiserver", proc.Healthy("https://"+n.api.String()+"/readyz"),
		"--bind-address="+n.api.Addr().String(), fmt.Sprintf("--secure-port=%d", n.api.Port()), "--advertise-address="+advertised, "--endpoint-reconciler-type=none",
		"--etcd-prefix="+etcdPrefix(ca), "--etcd-servers="+strings.Join(config.etcd.endpoints, ","), "--etcd-cafile="+file("etcd/ca.crt"),
		"--etcd-certfile="+file("apiserver-etcd-client.crt"), "--etcd-keyfile="+file("apiserver-etcd-client.key"),
		"--client-ca-file="+file("ca.crt"), "--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local", "--service-account-key-file="+file("sa.pub"),
		"--service-account-signing-key-file="+file("sa.key"), "--service-cluster-ip-range="+config.services,
		"--kubelet-client-certificate="+file("apiserver-kubelet-client.crt"), "--kubelet-client-key="+file("apiserver-kubelet-client.key"),
		"--proxy-client-cert-file="+file("front-proxy-client.crt"), "--proxy-client-key-file="+file("front-proxy-client.key"),
		"--requestheader-client-ca-file="+file("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--enable-bootstrap-token-auth", "--allow-privileged",
	)
}

// The lease of a leader is long: on a busy machine a process may not renew it for a while, and a process that lost it is not started again.
const leaseDuration, renewDeadline = "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=45s"

func (n *Node) startControllerManager(ctx context.Context) error {
	port, err := pxetest.FreePort(n.address)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(n.path("/etc/kubernetes"), "controller-manager.conf")
	file := func(name string) string { return filepath.Join(n.path(pki), name) }
	return n.start(ctx, "kube-controller-manager", proc.Healthy("https://"+netip.AddrPortFrom(n.address, port).String()+"/healthz"),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+n.address.String(), fmt.Sprintf("--secure-port=%d", port), "--leader-elect",
		"--cluster-signing-cert-file="+file("ca.crt"), "--cluster-signing-key-file="+file("ca.key"), "--root-ca-file="+file("ca.crt"),
		"--service-account-private-key-file="+file("sa.key"), "--use-service-account-credentials",
		"--controllers=*,bootstrap-signer-controller,token-cleaner-controller",
		leaseDuration, renewDeadline,
		// The leader of a server that is switched off is gone at once, and not after the lease. kube-scheduler does that always.
		"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true",
	)
}

func (n *Node) startScheduler(ctx context.Context) error {
	port, err := pxetest.FreePort(n.address)
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(n.path("/etc/kubernetes"), "scheduler.conf")
	return n.start(ctx, "kube-scheduler", proc.Healthy("https://"+netip.AddrPortFrom(n.address, port).String()+"/healthz"),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address="+n.address.String(), fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect", leaseDuration, renewDeadline,
	)
}

const staticPod = `apiVersion: v1
kind: Pod
metadata:
  name: %[1]s
  namespace: kube-system
  labels: {component: %[1]s, tier: control-plane}
spec:
  hostNetwork: true
  priorityClassName: system-node-critical
  containers:
  - name: %[1]s
    image: registry.k8s.io/%[1]s
`

// writeStaticPods writes the Pods that the kubelet shows for the control plane. The hollow kubelet only pretends to run them: the programs run next to it, and the
// scheduler only as an extra.
func (n *Node) writeStaticPods() error {
	dir := n.path(manifests)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), fmt.Appendf(nil, staticPod, name), 0o600); err != nil {
			return err
		}
	}
	return nil
}
