package netbench_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// hosts is how many servers there are.
const hosts = 1000

func macOf(i int) string { return fmt.Sprintf("52:54:00:00:%02x:%02x", i>>8, i&255) }

// ours is our manager's boot role, against a real API server, with hosts that all boot now.
type ours struct {
	*server
	initrd string // the file that the hosts load as their initrd
}

func (b *bench) ours(initrd, kernel string) *ours {
	b.t.Helper()
	g := NewWithT(b.t)
	origin := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(initrd))))
	b.t.Cleanup(origin.Close)
	artifact := func(path string) v1alpha1.Artifact {
		file, err := os.Open(path)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = file.Close() }()
		sum := sha256.New()
		_, err = io.Copy(sum, file)
		g.Expect(err).NotTo(HaveOccurred())
		return v1alpha1.Artifact{URL: origin.URL + "/" + filepath.Base(path), Checksum: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
	}
	b.register(v1alpha1.BootSource{
		Kernel: artifact(kernel), Initrds: []v1alpha1.Artifact{artifact(initrd)}, Persistence: v1alpha1.PersistenceInstalled,
	})
	manager := filepath.Join(b.dir, "manager")
	build := exec.Command("go", "build", "-o", manager, "./cmd/manager") //nolint:noctx // ends without a signal
	build.Dir, build.Env = controllerstest.Root(), append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	return &ours{b.serve("manager", manager, b.managerArgs(env.Kubeconfig(b.t, "bench", "system:masters"))...), initrd}
}

// register makes the hosts, each claimed by a machine and in a boot attempt that waits for its firmware. Nobody drives the
// attempts: the controllers do not run.
func (b *bench) register(source v1alpha1.BootSource) {
	b.t.Helper()
	namespace := env.Namespace(b.t)
	claim := env.NewClaim(b.t, namespace, "bench")
	b.t.Cleanup(func() { // the next test registers the same servers
		for _, kind := range []client.Object{&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}} {
			NewWithT(b.t).Expect(env.Client.DeleteAllOf(context.Background(), kind, client.InNamespace(namespace))).To(Succeed())
		}
	})
	var wg sync.WaitGroup
	numbers := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range numbers {
				name := fmt.Sprintf("host-%d", i)
				machine := claim.BareMetalMachine.DeepCopy()
				machine.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: machine.Labels, OwnerReferences: machine.OwnerReferences}
				machine.Spec.Boot = source
				now := metav1.Now()
				host := &v1alpha1.BareMetalHost{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					Spec: v1alpha1.BareMetalHostSpec{
						BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "none"}, BootMACAddresses: []string{macOf(i)},
						BootMode:    v1alpha1.BootModeBIOS,
						ConsumerRef: &v1alpha1.ConsumerReference{Name: name, ClaimID: name}, ProviderState: v1alpha1.HostProviderState{Boots: 1},
					},
				}
				boot := &v1alpha1.BareMetalBoot{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					Spec: v1alpha1.BareMetalBootSpec{
						Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: name, MachineName: name, StartTime: now, PoweredOffTime: &now, PoweredOnTime: &now,
					},
				}
				for _, o := range []client.Object{machine, boot, host} {
					if err := env.Client.Create(b.t.Context(), o); err != nil {
						b.t.Errorf("register a host: %v", err)
					}
				}
			}
		})
	}
	for i := range hosts {
		numbers <- i
	}
	close(numbers)
	wg.Wait()
}

// loader is the boot loader that is loaded, of those in loaders, which hack/loaders.sh made.
const loader = "snponly.efi"

var loaders = filepath.Join(controllerstest.Root(), ".cache", "loaders")

func (b *bench) managerArgs(kubeconfig string) []string {
	config := fmt.Sprintf(`
loaders: [%s]
artifacts: {dir: %s, allowNetworks: [127.0.0.0/8]}
networks:
- name: bench
  mode: authoritative
  address: %s
  subnet: 10.99.0.0/16
  ranges: [10.99.16.0-10.99.31.255]
  router: 10.99.0.254
  dns: [10.99.0.253]
`, loaders, filepath.Join(b.dir, "artifacts"), serverAddress)
	return []string{
		"--kubeconfig=" + kubeconfig, "--components=boot", "--health-addr=0", "--diagnostics-address=0",
		"--boot-config=" + b.write("boot.yaml", config),
	}
}
