// Command hollow-kubelet is a kubelet without containers, for the lab: it registers a Node, keeps it alive and runs Pods in
// memory, with the real kubelet's code (k8s.io/kubernetes/pkg/kubemark). A worker joins with its kubeadm JoinConfiguration, as
// `kubeadm join` does: it checks the cluster's CA against the hash given, and gets its certificate by TLS bootstrap.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
	remote "k8s.io/cri-client/pkg"
	fakeremote "k8s.io/cri-client/pkg/fake"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery"
	kubeadmconfig "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	cadvisortest "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubemark"
	"k8s.io/kubernetes/pkg/util/taints"
)

type options struct {
	name, address, providerID, root, manifests string
	joinConfig, kubeconfig, taints, labels     string
	version                                    string
	port                                       int
}

func main() {
	klog.InitFlags(nil)
	var o options
	flag.StringVar(&o.name, "name", "", "Name of the Node.")
	flag.StringVar(&o.address, "address", "", "Address that the kubelet serves at.")
	flag.IntVar(&o.port, "port", 10250, "Port that the kubelet serves.")
	flag.StringVar(&o.providerID, "provider-id", "", "Provider ID of the Node.")
	flag.StringVar(&o.root, "root", "", "Folder for what the kubelet keeps.")
	flag.StringVar(&o.manifests, "manifests", "", "Folder with static Pods.")
	flag.StringVar(&o.joinConfig, "join-config", "", "kubeadm JoinConfiguration to join with.")
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig of a Node that is a member already.")
	flag.StringVar(&o.taints, "taints", "", "Taints that the Node registers with, like KEY=VALUE:EFFECT,..., in addition to those of a JoinConfiguration.")
	flag.StringVar(&o.labels, "node-labels", "", "Labels that the Node registers with, like KEY=VALUE,...")
	flag.StringVar(&o.version, "kubernetes-version", "", "Version that the Node reports, where it is another than the one that this was built of; "+
		"it may differ in what is behind the patch version, like v1.36.3+2.")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "hollow-kubelet:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.version != "" {
		if err := version.SetDynamicVersion(o.version); err != nil {
			return fmt.Errorf("--kubernetes-version: %w", err)
		}
	}
	nodeLabels, err := labels.ConvertSelectorToLabelsMap(o.labels)
	if err != nil {
		return fmt.Errorf("--node-labels: %w", err)
	}
	config, nodeTaints, err := credentials(ctx, o)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	heartbeat := *config
	heartbeat.Timeout, heartbeat.QPS = 10*time.Second, -1
	heartbeatClient, err := clientset.NewForConfig(&heartbeat)
	if err != nil {
		return err
	}
	endpoint, err := fakeremote.GenerateEndpoint()
	if err != nil {
		return err
	}
	runtime := fakeremote.NewFakeRemoteRuntime()
	if err := runtime.Start(endpoint); err != nil {
		return err
	}
	defer runtime.Stop()
	containers, err := remote.NewRemoteRuntimeService(ctx, endpoint, 15*time.Second, noop.NewTracerProvider(), false)
	if err != nil {
		return err
	}
	// kubemark creates folders in TMPDIR, which must be deleted with the server.
	if err := os.Setenv("TMPDIR", o.root); err != nil {
		return err
	}
	flags, kubelet := kubemark.GetHollowKubeletConfig(&kubemark.HollowKubeletOptions{
		NodeName: o.name, KubeletPort: o.port, MaxPods: 110, NodeLabels: nodeLabels, RegisterWithTaints: nodeTaints,
	})
	kubelet.ProviderID, kubelet.Address = o.providerID, o.address
	kubelet.FileCheckFrequency.Duration = time.Second
	if o.manifests != "" {
		kubelet.StaticPodPath = o.manifests
	}
	cadvisor := &cadvisortest.Fake{NodeName: o.name}
	go kubemark.NewHollowKubelet(flags, kubelet, client, heartbeatClient, cadvisor, runtime.ImageService, containers, cm.NewStubContainerManager()).Run(ctx)
	<-ctx.Done()
	return nil
}

// credentials returns the kubelet's client configuration, and the taints that its Node registers with.
func credentials(ctx context.Context, o options) (*restclient.Config, []v1.Taint, error) {
	nodeTaints, _, err := taints.ParseTaints(strings.FieldsFunc(o.taints, func(r rune) bool { return r == ',' }))
	if err != nil {
		return nil, nil, fmt.Errorf("--taints: %w", err)
	}
	if o.joinConfig == "" {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		return config, nodeTaints, err
	}
	join, err := kubeadmconfig.LoadJoinConfigurationFromFile(o.joinConfig, kubeadmconfig.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
	if err != nil {
		return nil, nil, fmt.Errorf("read the JoinConfiguration: %w", err)
	}
	clusterInfo, err := discovery.For(nil, join)
	if err != nil {
		return nil, nil, fmt.Errorf("discover the cluster: %w", err)
	}
	bootstrapPath, kubeconfig := filepath.Join(o.root, "bootstrap-kubelet.conf"), filepath.Join(o.root, "kubelet.conf")
	if err := clientcmd.WriteToFile(*clusterInfo, bootstrapPath); err != nil {
		return nil, nil, err
	}
	if err := bootstrap.LoadClientCert(ctx, kubeconfig, bootstrapPath, filepath.Join(o.root, "pki"), types.NodeName(o.name)); err != nil {
		return nil, nil, fmt.Errorf("TLS bootstrap: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	return config, append(nodeTaints, join.NodeRegistration.Taints...), err
}
