package site

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// ConfigFlavor is the flavour with a second MachineDeployment of one worker, ConfigWorkers, whose bootstrap data is rendered from a BareMetalConfig.
const ConfigFlavor = "lab-config"

// DemoFlavor is ConfigFlavor with disk images, as the default flavour has them.
const DemoFlavor = "lab-demo"

// The names of the second MachineDeployment, and of the Secret and the ConfigMap with the values of its BareMetalConfigs.
const (
	ConfigWorkers = ClusterName + "-config-workers"
	JoinSecret    = ClusterName + "-join"
	NodeLabels    = ClusterName + "-node-labels"
)

// joinCommand is what kubeadm prints.
var joinCommand = regexp.MustCompile(`--token (\S+) --discovery-token-ca-cert-hash (\S+)`)

// WriteJoinSecret does what an operator does when the control plane is up: it creates a join token in the workload cluster, and writes it with the hash of the
// CA into the Secret that the BareMetalConfigs refer to. It waits for the control plane, and returns the token.
func (l *Lab) WriteJoinSecret(ctx context.Context, p *plane.Plane) (token string, err error) {
	var hash string
	if err := Until(ctx, 5*time.Minute, func(ctx context.Context) error {
		token, hash, err = l.createToken(ctx, p)
		return err
	}); err != nil {
		return "", err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: JoinSecret}}
	_, err = controllerutil.CreateOrPatch(ctx, p.Client, secret, func() error {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, bootstrapv1.ValueSecretLabel, "")
		secret.Data = map[string][]byte{"token": []byte(token), "caCertHash": []byte(hash)}
		return nil
	})
	return token, err
}

// createToken creates a join token in the workload cluster with the real kubeadm, and returns it with the hash of the CA.
func (l *Lab) createToken(ctx context.Context, p *plane.Plane) (token, hash string, err error) {
	content, err := kubeconfig.FromSecret(ctx, p.Client, client.ObjectKey{Namespace: Namespace, Name: ClusterName})
	if err != nil {
		return "", "", err
	}
	path := filepath.Join(l.Dir, ClusterName+".kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return "", "", err
	}
	out, err := proc.Run(ctx, nil, filepath.Join(l.Bin, "kubeadm"), "token", "create", "--print-join-command", "--kubeconfig="+path)
	if err != nil {
		return "", "", err
	}
	command := joinCommand.FindStringSubmatch(out)
	if command == nil {
		return "", "", fmt.Errorf("kubeadm printed no token: %s", out)
	}
	return command[1], command[2], nil
}

// Configs returns the BareMetalConfigs of the second MachineDeployment. Each must be ready, and have a Machine that uses its Secret.
func Configs(ctx context.Context, p *plane.Plane) ([]bootstrapv1.BareMetalConfig, error) {
	var configs bootstrapv1.BareMetalConfigList
	if err := p.Client.List(ctx, &configs, client.InNamespace(Namespace), client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: ConfigWorkers}); err != nil {
		return nil, err
	}
	for _, c := range configs.Items {
		var machine clusterv1.Machine
		if err := p.Client.Get(ctx, client.ObjectKeyFromObject(&c), &machine); err != nil {
			return nil, err
		}
		used := ptr.Deref(machine.Spec.Bootstrap.DataSecretName, "none")
		if !conditions.IsTrue(&c, bootstrapv1.ReadyCondition) || !ptr.Deref(c.Status.Initialization.DataSecretCreated, false) || c.Status.DataSecretName != used {
			return nil, fmt.Errorf("BareMetalConfig %s is not ready, or its Machine uses the Secret %s and not %q", c.Name, used, c.Status.DataSecretName)
		}
	}
	return configs.Items, nil
}
