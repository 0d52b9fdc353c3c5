package boot_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// TestSeed: the operating system gets the settings of a host's spec and labels, and its report of the bootstrap is recorded.
func TestSeed(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	s := l.server("h", func(ctx context.Context, system *pxetest.System) {
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
		systems <- system
	})
	controllerstest.Modify(t, env, s.Host, func(h *v1alpha1.BareMetalHost) {
		h.Labels = map[string]string{"example.com/rack": "r-1"}
		h.Spec.FailureDomain = "room-1"
		h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{
			Name: "lan0", MACAddress: h.Spec.BootMACAddresses[0], LinkSettings: v1alpha1.LinkSettings{
				Addresses: []v1alpha1.IPPrefix{"192.0.2.10/24"}, Routes: []v1alpha1.NetworkRoute{{To: "default", Via: "192.0.2.1"}},
			},
		}}}
	})
	claim := env.NewClaim(t, l.namespace, "m")
	l.boots(claim, kernel, func(b *v1alpha1.BootSource) { b.ReportBootstrap = true })
	system := <-systems
	g.Expect(system.CommandLine).To(And(ContainSubstring("console=ttyS0 network-config="), ContainSubstring(" ds=nocloud;dsmode=net;s=http://")))
	g.Expect(system.MetaData).To(HaveKeyWithValue("failure-domain", "room-1"))
	g.Expect(system.NetworkConfig).To(MatchYAML(`{version: 2, ethernets: {lan0: {match: {macaddress: "` + s.Host.Spec.BootMACAddresses[0] + `"}, set-name: lan0,
		addresses: [192.0.2.10/24], routes: [{to: 0.0.0.0/0, via: 192.0.2.1}]}}}`))
	g.Expect(system.VendorData).To(HavePrefix("#cloud-config-archive\n"))

	// The emulated system has no shell: what the script would post is posted here.
	script := regexp.MustCompile(`send '(http://[^']+/succeeded)'`).FindSubmatch(system.VendorData)
	g.Expect(script).To(HaveLen(2))
	g.Expect(system.Post(t.Context(), string(script[1]), nil)).To(Succeed())
	controllerstest.Wait(t, env, bootObject(s.Host), func(g Gomega, b *v1alpha1.BareMetalBoot) {
		stages := stagesOf(b)
		g.Expect(stages).To(ContainElements(v1alpha1.StageReportedIn, v1alpha1.StageBootstrapSucceeded))
		g.Expect(stages).NotTo(ContainElement(v1alpha1.StageBootstrapFailed))
	})
}

// TestProviderSecrets: a host is booted with the bootstrap Secret of each provider, byte for byte.
func TestProviderSecrets(t *testing.T) {
	paths, err := filepath.Glob("../../hack/seedcheck/testdata/providers/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d Secrets: %v", len(paths), err)
	}
	l := start(t)
	type booted struct {
		host   string
		system *pxetest.System
	}
	all := make(chan booted, len(paths))
	golden := map[string]*corev1.Secret{} // by their machines, which get the hosts in any order
	for n, path := range paths {
		g := NewWithT(t)
		content, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		name, secret := fmt.Sprint("m-", n), &corev1.Secret{}
		g.Expect(yaml.UnmarshalStrict(content, secret)).To(Succeed(), path)
		golden[name] = secret
		l.server(name, func(_ context.Context, system *pxetest.System) { all <- booted{name, system} })
		claim := env.NewClaim(t, l.namespace, name)
		controllerstest.Modify(t, env, claim.Bootstrap, func(s *corev1.Secret) { s.Data, s.StringData = nil, secret.StringData })
		l.boots(claim, kernel, func(*v1alpha1.BootSource) {})
	}
	for range paths {
		g := NewWithT(t)
		var b booted
		g.Eventually(all).Should(Receive(&b), "of %d machines these did not boot: %v", len(paths), golden)
		host := &v1alpha1.BareMetalHost{}
		g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: l.namespace, Name: b.host}, host)).To(Succeed())
		secret := golden[host.Spec.ConsumerRef.Name]
		g.Expect(secret).NotTo(BeNil(), "machine %s boots once", host.Spec.ConsumerRef.Name)
		delete(golden, host.Spec.ConsumerRef.Name)
		if value := secret.StringData["value"]; secret.StringData["format"] == "ignition" {
			g.Expect(string(b.system.Ignition)).To(ContainSubstring(base64.StdEncoding.EncodeToString([]byte(value))))
		} else {
			g.Expect(string(b.system.UserData)).To(Equal(value))
		}
	}
}

// TestFormats: bootstrap data of an unsupported format ends the boot at once, and the machine shows it. Ignition is served if the Secret has that format.
func TestFormats(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	boots := func(name, format, value string) *controllerstest.Claim {
		l.server(name, func(_ context.Context, system *pxetest.System) { systems <- system })
		claim := env.NewClaim(t, l.namespace, name)
		controllerstest.Modify(t, env, claim.Bootstrap, func(s *corev1.Secret) {
			s.Data = map[string][]byte{"format": []byte(format), "value": []byte(value)}
		})
		l.boots(claim, kernel, func(*v1alpha1.BootSource) {})
		return claim
	}
	for i, c := range []struct{ format, value, want string }{
		{"powershell", "#ps1_sysnative\n", `has the format "powershell", which no host can be given: set the format of the bootstrap config to one of ["cloud-config" "ignition"]`},
		{"ignition", `{"ignition":{"version":"1.0.0"}}`, `is Ignition of version "1.0.0"`},
	} {
		claim := boots(fmt.Sprint("m-", i), c.format, c.value)
		controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonBootstrapDataInvalid))
			g.Expect(conditions.GetMessage(m, v1alpha1.ReadyCondition)).To(And(ContainSubstring(c.want), ContainSubstring("delete the Machine")))
		})
	}
	boots("m", "ignition", `{"ignition":{"version":"3.4.0"}}`)
	system := <-systems
	g.Expect(system.CommandLine).To(HavePrefix("console=ttyS0 ignition.firstboot "))
	g.Expect(string(system.Ignition)).To(HavePrefix(`{"ignition":{"version":"3.4.0","config":{"merge":[`))
}
