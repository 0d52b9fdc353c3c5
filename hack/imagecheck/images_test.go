package imagecheck

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// imageService returns a container with the image service, with the arguments and the volumes of the Deployment.
func (b *built) imageService(t *testing.T, all volumes) *container {
	t.Helper()
	pod := only(t, deployment(t), "images")
	folder := t.TempDir()
	config(t, folder, pod, "artifacts: {allowNetworks: [127.0.0.0/8]}\n")
	c := newContainer(t, b.root, pod, pod.Containers[0].Args...)
	c.mount(t, folder, "/etc/capbm", *pod.SecurityContext.FSGroup, false)
	c.mountAll(t, pod, all)
	return c
}

// As the Deployment says, the image service prepares an image for the boot server, which reaches it at the socket and only reads the volume. It has no
// capability, and nothing of the API server is in its container.
func (b *built) testImageService(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 1<<20)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(origin.Close)
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])

	all := newVolumes(t, deployment(t))
	images := b.imageService(t, all)
	g.Expect(fmt.Sprint(images.mounts)).NotTo(ContainSubstring("serviceaccount"))
	defer start(t, images, "http://127.0.0.1:9445/readyz")()
	status := managerStatus(t)
	g.Expect(status).To(HaveKeyWithValue("NoNewPrivs", "1"))
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"} {
		g.Expect(status).To(HaveKeyWithValue(set, strings.Repeat("0", 16)))
	}
	defer start(t, bootServer(t, b.root, b.pod, all), "http://127.0.0.1:9440/readyz")()

	namespace := env.Namespace(t)
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot = v1alpha1.BootSource{}
		c.BareMetalMachine.Spec.Image = &v1alpha1.Image{URL: origin.URL + "/disk", Checksum: "sha256:" + digest, DataSource: wire.DataSourceNone}
	})
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	server.Host.Spec.ConsumerRef = controllerstest.Claimed(claim.BareMetalMachine.Name)
	env.Create(t, server.Host)
	controllerstest.ModifyBoot(t, env, server.Host, func(*v1alpha1.BareMetalBootSpec) {})
	g.Eventually(func(g Gomega) {
		boot := controllerstest.BootOf(t, env, server.Host)
		g.Expect(boot).NotTo(BeNil())
		g.Expect(boot.Status.Image).NotTo(BeNil())
		g.Expect(*boot.Status.Image).To(HaveField("Ready", BeTrue()), "%+v", *boot.Status.Image)
	}).Should(Succeed())
	entries, err := os.ReadDir(all["images"])
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(entries).To(ContainElement(HaveField("Name()", ContainSubstring(digest))))
	g.Expect(filepath.Join(all["images-socket"], "images.sock")).To(BeAnExistingFile())

	// The server gets the agent that is in the image: the configuration file names no folder.
	now := metav1.Now()
	controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) { b.Agent, b.PoweredOffTime, b.PoweredOnTime = true, &now, &now })
	for index, name := range []string{"kernel", "ramdisk"} {
		content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "out", "agent", "amd64", name))
		g.Expect(err).NotTo(HaveOccurred())
		url := fmt.Sprintf("http://%s/boot/%s/%d", net.JoinHostPort(bootAddress, "8480"), strings.ReplaceAll(server.Host.Spec.BootMACAddresses[0], ":", "-"), index)
		g.Eventually(func() (string, error) { return sumOf(url) }).Should(Equal(fmt.Sprintf("%x", sha256.Sum256(content))), url)
	}
}

// sumOf fetches a file that the boot server serves, and returns its checksum.
func sumOf(url string) (string, error) {
	response, err := http.Get(url) //nolint:noctx // the test's own server
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, response.Body)
	if response.StatusCode != http.StatusOK {
		err = errors.Join(err, errors.New(response.Status))
	}
	return hex.EncodeToString(hash.Sum(nil)), errors.Join(err, response.Body.Close())
}
