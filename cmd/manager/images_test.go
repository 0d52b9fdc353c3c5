package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

// mounts are the volume mounts of a container by the name of the volume.
func mounts(c corev1.Container) map[string]corev1.VolumeMount {
	all := map[string]corev1.VolumeMount{}
	for _, m := range c.VolumeMounts {
		all[m.Name] = m
	}
	return all
}

// tokens are the volumes of a Pod with a token of its ServiceAccount.
func tokens(pod corev1.PodSpec) []string {
	var names []string
	for _, v := range pod.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				names = append(names, v.Name)
			}
		}
	}
	return names
}

// TestImageContainer: beside each boot server there is the image service, as a container without a token and without capabilities. Both have the socket and the
// folder of images, which only the image service writes. No configuration file has to name the socket.
func TestImageContainer(t *testing.T) {
	for _, test := range []struct{ folder, name string }{{"default", bootName}, {"single-pod", managerName}, {"additional-boot", ""}} {
		t.Run(test.folder, func(t *testing.T) {
			g := NewWithT(t)
			var d appsv1.Deployment
			build(t, test.folder).get(t, "Deployment", test.name, &d)
			pod := d.Spec.Template.Spec
			g.Expect(pod.Containers).To(HaveLen(2))
			manager, images := pod.Containers[0], pod.Containers[1]
			g.Expect([]string{manager.Name, images.Name}).To(Equal([]string{"manager", "images"}))
			g.Expect(images.Image).To(Equal(manager.Image))
			o, own := flagsOf(t, &d), parseArgs(t, images.Args)
			g.Expect(own.components).To(Equal([]string{componentImages}))
			g.Expect(own.bootConfig).To(Equal(o.bootConfig))
			g.Expect(own.imagesSocket).To(And(Equal(o.imagesSocket), Not(BeEmpty())))

			g.Expect(*pod.AutomountServiceAccountToken).To(BeFalse())
			g.Expect(tokens(pod)).To(Equal([]string{"token"}))
			writes, reads := mounts(images), mounts(manager)
			g.Expect(reads["token"].MountPath).To(Equal("/var/run/secrets/kubernetes.io/serviceaccount"))
			g.Expect(writes).To(HaveLen(4))
			g.Expect(writes).To(And(HaveKey("boot-config"), HaveKey("boot-config-custom")))
			for name, folder := range map[string]string{"images": "/var/cache/capbm-images", "images-socket": filepath.Dir(o.imagesSocket)} {
				g.Expect([]string{writes[name].MountPath, reads[name].MountPath}).To(HaveEach(folder))
				g.Expect(writes[name].ReadOnly).To(BeFalse(), name)
				g.Expect(reads[name].ReadOnly).To(BeTrue(), name)
			}

			security := images.SecurityContext
			g.Expect(*security.ReadOnlyRootFilesystem).To(BeTrue())
			g.Expect(*security.AllowPrivilegeEscalation).To(BeFalse())
			g.Expect(security.Capabilities).To(Equal(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}))
			g.Expect(images.Env).To(ConsistOf(HaveField("Name", "GOMEMLIMIT")), "nothing of the Pod")
			limit := resource.MustParse("1Gi")
			g.Expect(images.Resources.Limits.Memory().Cmp(limit)).To(BeZero())

			g.Expect(images.Ports).To(HaveLen(1))
			g.Expect(own.healthAddress).To(Equal("127.0.0.1:9445"))
			g.Expect(images.Ports[0].ContainerPort).To(BeEquivalentTo(9445))
			for _, p := range manager.Ports {
				g.Expect(p.Name).NotTo(Equal(images.Ports[0].Name))
				g.Expect(p.ContainerPort).NotTo(Equal(images.Ports[0].ContainerPort))
			}
			for _, probe := range []*corev1.Probe{images.ReadinessProbe, images.LivenessProbe} {
				g.Expect(probe.HTTPGet.Host).To(Equal(loopback))
				g.Expect(probe.HTTPGet.Port.StrVal).To(Equal(images.Ports[0].Name))
			}
		})
	}
}

// TestImageVolume: the volume of the images is larger than what they may have.
func TestImageVolume(t *testing.T) {
	g := NewWithT(t)
	all := build(t, "default")
	var d appsv1.Deployment
	var shipped corev1.ConfigMap
	all.get(t, "Deployment", bootName, &d)
	all.get(t, "ConfigMap", "capbm-boot-config", &shipped)
	t.Setenv("CAPBM_DHCP_MODE", "proxy")
	t.Setenv("CAPBM_BOOT_ADDRESS", "192.0.2.5")
	c, err := bootconfig.Parse([]byte(os.ExpandEnv(shipped.Data["boot.yaml"])))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Agent.Dir).To(Equal("/usr/lib/capbm/agent"), "where hack/image puts the agents")
	g.Expect(c.Images.MaxBytes).To(BeEquivalentTo(bootconfig.DefaultImageSize))
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name == "images" {
			g.Expect(v.EmptyDir.SizeLimit.Value()).To(BeNumerically(">", c.Images.MaxBytes))
			return
		}
	}
	t.Error("the Pod has no volume of images")
}

// TestServeImages: the component images serves at the socket of its flag, without a client of the API server, and its health says whether it does.
func TestServeImages(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 1<<20)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }))
	t.Cleanup(origin.Close)
	folder, socket, health := t.TempDir(), filepath.Join(t.TempDir(), "images.sock"), freeTCP(t)
	config := write(t, "artifacts: {allowNetworks: [127.0.0.0/8]}\nimages: {dir: "+folder+"}")
	o, err := parse("--components=images", "--boot-config="+config, "--images-socket="+socket, "--health-addr="+health)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.boot.Images.Socket).To(Equal(socket))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.serveImages(ctx) }()
	status := func(path string) (int, error) {
		response, err := http.Get("http://" + health + path) //nolint:noctx // returns at once
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Body.Close()
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		g.Eventually(func() (int, error) { return status(path) }).Should(Equal(http.StatusOK))
	}
	client := image.NewClient(folder, socket)
	sum := sha256.Sum256(content)
	from := image.Source{URL: origin.URL + "/disk", Checksum: "sha256:" + hex.EncodeToString(sum[:])}
	g.Eventually(func() error {
		_, err := client.Prepare(t.Context(), "dc", from, nil)
		return err
	}).Should(Succeed())

	g.Expect(os.Remove(socket)).To(Succeed())
	for _, path := range []string{"/healthz", "/readyz"} {
		g.Expect(status(path)).To(Equal(http.StatusInternalServerError), "nothing answers at the socket")
	}
	stop()
	g.Expect(<-ended).To(Succeed())
}

// TestImageMetrics: the boot server shows the metrics of the component images, which cannot authenticate a scrape. Without them it shows the others.
func TestImageMetrics(t *testing.T) {
	g := NewWithT(t)
	kubeconfig, socket, l := admin(t), filepath.Join(t.TempDir(), "images.sock"), &life{t: t, metrics: freeTCP(t)}
	config, _ := bootConfig(t)
	images := launchManager(t, filepath.Join(t.TempDir(), "none"), nil, "--components=images", "--boot-config="+config, "--images-socket="+socket)
	startManager(t, kubeconfig, "--components=boot", "--boot-config="+config, "--images-socket="+socket, "--diagnostics-address="+l.metrics, "--insecure-diagnostics")
	client := image.NewClient(t.TempDir(), socket)
	g.Eventually(func() error { return client.Health(t.Context()) }, "30s").Should(Succeed())
	origin := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(origin.Close)
	g.Expect(l.scrape()).To(And(ContainSubstring(`capbm_image_preparations_total{result="ImageUnreachable"} 0`), ContainSubstring("capbm_image_cache_bytes 0")))
	_, err := client.Prepare(t.Context(), "dc", image.Source{URL: origin.URL + "/disk", Checksum: "sha256:" + strings.Repeat("0", 64)}, nil)
	g.Expect(err).To(MatchError(image.ErrNotYet))
	g.Eventually(l.scrape, "30s").Should(And(ContainSubstring(`capbm_image_preparations_total{result="ImageUnreachable"} 1`), ContainSubstring("capbm_network_boots_waiting")))
	_, families := parseMetrics(t, l.scrape())
	g.Expect(families["capbm_image_cache_limit_bytes"].GetMetric()[0].GetGauge().GetValue()).To(BeEquivalentTo(bootconfig.DefaultImageSize))

	images.stop(t)
	g.Expect(l.scrape()).To(And(ContainSubstring("capbm_network_boots_waiting"), Not(ContainSubstring("capbm_image_preparations_total"))))
}

// TestImagesSocket: images.socket of the configuration file goes before the flag, and the component images needs one of them. It ends if it cannot listen.
func TestImagesSocket(t *testing.T) {
	g := NewWithT(t)
	named := write(t, "images: {socket: /run/own/s}")
	o, err := parse("--components=images", "--boot-config="+named, "--images-socket=/run/s")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.boot.Images.Socket).To(Equal("/run/own/s"))
	config := "--boot-config=" + write(t, "images: {dir: "+t.TempDir()+"}")
	o, err = parse("--components=images", config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.serveImages(t.Context())).To(MatchError(ContainSubstring("set --images-socket")))
	o, err = parse("--components=images", config, "--images-socket="+filepath.Join(t.TempDir(), "none", "s"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.serveImages(t.Context())).To(MatchError(ContainSubstring("listen at --images-socket")))
	o, err = parse("--components=images", config, "--images-socket="+filepath.Join(t.TempDir(), "s"), "--health-addr=192.0.2.1:1")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.serveImages(t.Context())).To(MatchError(ContainSubstring("--health-addr")))
}
