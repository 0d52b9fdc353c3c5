package controllerstest

import (
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// Username and Password are the credentials of every emulated BMC.
const (
	Username = "admin"
	Password = "a secret"
)

// Loopback permits what listens on this machine, as the API servers of tests do.
var Loopback = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// Settings returns lifecycle settings for tests. Intervals of minutes take a moment, except for those that no test waits for in real time.
func Settings() lifecycle.Settings {
	return lifecycle.Settings{
		PollInterval: 500 * time.Millisecond, ActiveInterval: 50 * time.Millisecond, PowerSettle: 400 * time.Millisecond,
		InspectInterval: 24 * time.Hour, ShutDownTimeout: time.Second, CleaningTimeout: 10 * time.Second, BootTimeout: 2 * time.Minute, BootAttempts: 2, BootConcurrency: 250,
	}
}

// Server is an emulated server with its BMC, and the objects that register it.
type Server struct {
	*bmctest.Machine
	BMCIP  string // of the listener of its BMC
	Host   *v1alpha1.BareMetalHost
	Secret *corev1.Secret
}

// RequestErasure creates a BareMetalErasureRequest for a host as the API server has it now. It expires in an hour.
func RequestErasure(t *testing.T, env *Env, host *v1alpha1.BareMetalHost, serialNumber string, policy wire.ErasePolicy) *v1alpha1.BareMetalErasureRequest {
	t.Helper()
	live := &v1alpha1.BareMetalHost{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(host), live)).To(Succeed())
	request := erasure.NewRequest(live, serialNumber, policy, time.Now().Add(time.Hour))
	env.Create(t, request)
	return request
}

// servers is the number of emulated servers that this process started.
var servers atomic.Uint32

// NewServer starts an emulated server, and creates nothing in the API server. Its MAC address and the IP address of its BMC are unique in the
// process: the hosts of finished tests remain in the API server, and the kernel reuses ports.
func NewServer(t *testing.T, namespace, name string, opts bmctest.Options) *Server {
	t.Helper()
	number := servers.Add(1)
	opts.Name, opts.Username, opts.Password = name, Username, Password
	opts.MAC = fmt.Sprintf("52:54:00:02:%02x:%02x", number>>8&0xff, number&0xff)
	machine := bmctest.NewMachine(opts)
	ip := fmt.Sprintf("127.77.%d.%d", number>>8&0xff, number&0xff)
	listener, err := net.Listen("tcp", net.JoinHostPort(ip, "0")) //nolint:noctx // returns at once
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	server := httptest.NewUnstartedServer(machine)
	NewWithT(t).Expect(server.Listener.Close()).To(Succeed())
	server.Listener = listener
	server.Start()
	t.Cleanup(func() {
		server.Close()
		machine.Close()
	})
	return &Server{
		Machine: machine, BMCIP: ip,
		Secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-bmc", Labels: map[string]string{v1alpha1.BMCSecretLabel: ""}},
			StringData: map[string]string{"username": Username, "password": Password},
		},
		Host: &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: v1alpha1.BareMetalHostSpec{
				BMC: v1alpha1.BMC{
					Address: strings.Replace(server.URL, "http://", "redfish+http://", 1), CredentialsSecretName: name + "-bmc",
				},
				BootMACAddresses: []string{opts.MAC},
			},
		},
	}
}

// Claim is a machine with its Cluster and its bootstrap data, as Cluster API creates them.
type Claim struct {
	Cluster          *clusterv1.Cluster
	Machine          *clusterv1.Machine
	BareMetalMachine *v1alpha1.BareMetalMachine
	Bootstrap        *corev1.Secret
}

// NewClaim creates a Cluster, whose infrastructure is ready, with a Machine, its BareMetalMachine and its bootstrap data. The change functions modify
// the objects before they are created.
func (e *Env) NewClaim(t *testing.T, namespace, name string, change ...func(*Claim)) *Claim {
	t.Helper()
	g := NewWithT(t)
	c := newClaim(namespace, name)
	for _, f := range change {
		f(c)
	}
	e.Create(t, c.Cluster, c.Machine, c.Bootstrap)
	c.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	g.Expect(e.Client.Status().Update(t.Context(), c.Cluster)).To(Succeed())
	c.BareMetalMachine.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: name, UID: c.Machine.UID,
	}}
	e.Create(t, c.BareMetalMachine)
	return c
}

func newClaim(namespace, name string) *Claim {
	labels := map[string]string{clusterv1.ClusterNameLabel: name}
	infra := clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalMachine", Name: name}
	return &Claim{
		Cluster: &clusterv1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: name,
			}},
		},
		Machine: &clusterv1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec:       clusterv1.MachineSpec{ClusterName: name, InfrastructureRef: infra, Bootstrap: clusterv1.Bootstrap{DataSecretName: new(name)}},
		},
		Bootstrap: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			StringData: map[string]string{"value": "#cloud-config\n", "format": "cloud-config"},
		},
		BareMetalMachine: &v1alpha1.BareMetalMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
			Spec: v1alpha1.BareMetalMachineSpec{Boot: v1alpha1.BootSource{
				Kernel:      v1alpha1.Artifact{URL: "http://192.0.2.1/kernel", Checksum: "sha256:" + strings.Repeat("0", 64)},
				Persistence: v1alpha1.PersistenceInstalled,
			}},
		},
	}
}
