package main

import (
	"context"
	"io"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// body returns the answer of a URL.
func body(ctx context.Context, url string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a process that starts accepts a connection before it answers
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

// TestBootAddressMissing: a boot server whose node does not have the address of a network is not ready. /readyz, an event on its Pod and the log have the
// address and the remedy. The other network is served.
func TestBootAddressMissing(t *testing.T) {
	g := NewWithT(t)
	kubeconfig, _ := bootRole(t)
	config, _ := bootConfig(t)
	content, err := os.ReadFile(config)
	g.Expect(err).NotTo(HaveOccurred())
	httpAddress := netip.AddrPortFrom(bootAddress, freePort(t)).String()
	_, port, _ := strings.Cut(httpAddress, ":")
	text := strings.Replace(string(content), "\nhttp: {port: ", "\nhttp: {port: "+port+"} #", 1)
	g.Expect(os.WriteFile(config, []byte(text+`- {name: elsewhere, mode: "off", address: 192.0.2.5, subnet: 192.0.2.0/24}`), 0o600)).To(Succeed())

	const problem = "192.0.2.5 is on no interface of node mgmt-2: set CAPBM_NODE_SELECTOR to the node that has it, or CAPBM_BOOT_ADDRESS "
	p := launchManager(t, kubeconfig, []string{"NODE_NAME=mgmt-2", "BOOT_POD_NAME=capbm-boot-x", "BOOT_POD_UID=1234"}, "--components=boot", "--boot-config="+config)
	g.Eventually(func(g Gomega) {
		code, answer, err := body(t.Context(), "http://"+p.health+"/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(code).To(Equal(http.StatusInternalServerError))
		g.Expect(answer).To(And(ContainSubstring("[+]boot ok\n"), ContainSubstring("[-]boot-address failed: "+problem)))
	}, time.Minute, 50*time.Millisecond).Should(Succeed())
	code, _, err := body(t.Context(), "http://"+p.health+"/healthz")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(http.StatusOK), "a restart would not help")

	code, answer, err := body(t.Context(), "http://"+httpAddress+"/loader/undionly.kpxe")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(code).To(Equal(http.StatusOK), answer)

	var event eventsv1.Event
	g.Eventually(func(g Gomega) {
		var all eventsv1.EventList
		g.Expect(env.Client.List(t.Context(), &all, client.InNamespace("capbm-system"))).To(Succeed())
		g.Expect(all.Items).To(ContainElement(HaveField("Reason", "BootAddressMissing"), &event))
	}).Should(Succeed())
	g.Expect(event.Type).To(Equal(corev1.EventTypeWarning))
	g.Expect(event.Note).To(HavePrefix(problem))
	g.Expect(event.Regarding).To(And(HaveField("Kind", "Pod"), HaveField("Name", "capbm-boot-x"), HaveField("UID", BeEquivalentTo("1234"))))
	p.stop(t)
	log, err := os.ReadFile(p.log)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(string(log), problem)).To(Equal(1), "once, not for each probe:\n%s", log)
}

// TestBootPodEnv: every Pod with a boot server knows its names, for the event, and the node's.
func TestBootPodEnv(t *testing.T) {
	for folder, name := range map[string]string{"default": bootName, "additional-boot": "", "single-pod": managerName} {
		g := NewWithT(t)
		var d appsv1.Deployment
		build(t, folder).get(t, "Deployment", name, &d)
		fields := map[string]string{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
				fields[e.Name] = e.ValueFrom.FieldRef.FieldPath
			}
		}
		g.Expect(fields).To(And(HaveKeyWithValue("NODE_NAME", "spec.nodeName"), HaveKeyWithValue("BOOT_POD_NAME", "metadata.name"), HaveKeyWithValue("BOOT_POD_UID", "metadata.uid"), Not(HaveKey("POD_UID"))), folder)
	}
}
