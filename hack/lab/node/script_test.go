package node

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const template = `## template: jinja
#cloud-config
write_files:
- path: /etc/example/config
  content: |
    server: {{ ds.meta_data.hostname }}
    token: <% quote .Values.token %>
`

// boot carries out what a BareMetalConfig with these commands renders to, on a new disk.
func boot(t *testing.T, text string, commands ...string) (*Node, []string, error) {
	t.Helper()
	spec := &bootstrapv1.BareMetalConfigSpec{Format: bootstrapv1.FormatCloudConfig, UserData: text, Commands: commands}
	data, err := render.BootstrapData(spec, text, render.Data{Values: map[string]string{"token": "abc"}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	n := &Node{Dir: t.TempDir(), Bin: t.TempDir()}
	var stages []string
	err = n.Run(t.Context(), &pxetest.System{UserData: data, VendorData: []byte("none"), MetaData: map[string]string{
		"hostname": "it's-server-1", "provider_id": "baremetal://default/server-1/m", "instance-id": "claim-1",
	}}, func(stage string) { stages = append(stages, stage) })
	return n, stages, err
}

// TestScript: the commands find the files of the user data and the facts of the server, and the sentinel file is written below the server's disk after them.
func TestScript(t *testing.T) {
	g := NewWithT(t)
	n, stages, err := boot(t, template,
		`grep -q "server: $CAPBM_HOSTNAME" /etc/example/config`,
		`grep -q 'token: "abc"' /etc/example/config`,
		`[ "$CAPBM_PROVIDER_ID $CAPBM_INSTANCE_ID ${CAPBM_FAILURE_DOMAIN-unset}" = "baremetal://default/server-1/m claim-1 unset" ]`,
		`[ ! -e /run/cluster-api/bootstrap-success.complete ]`,
	)
	g.Expect(err).To(MatchError(ContainSubstring("report in")), "the test has no boot server")
	g.Expect(stages).To(Equal([]string{"joined"}))
	content, err := os.ReadFile(filepath.Join(n.Dir, sentinel))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal("success\n"))
}

// TestScriptFails: after a command that fails the server neither joins nor reports in.
func TestScriptFails(t *testing.T) {
	for name, test := range map[string]struct {
		userData, command, says string
	}{
		"a command":              {template, "echo a message; false", "a message"},
		"a fact is missing":      {template, `echo "$CAPBM_FAILURE_DOMAIN"`, "CAPBM_FAILURE_DOMAIN: "},
		"a program is missing":   {template, "no-such-program", "not found"},
		"no cluster to join":     {template, "kubeadm join --config /etc/none", "kubeadm: the bootstrap data has neither"},
		"another way of joining": {template, "kubeadm join --token abc", "kubeadm of the lab only knows join --config FILE"},
		"a key of cloud-init":    {template + "runcmd: [reboot]\n", "true", "does not carry out runcmd"},
		"a boothook":             {"#cloud-boothook\nx", "true", "is no cloud-config"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n, stages, err := boot(t, test.userData, test.command, "touch /etc/after")
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			g.Expect(stages).To(BeEmpty())
			g.Expect(n.exists(sentinel)).To(BeFalse())
			g.Expect(n.exists("/etc/after")).To(BeFalse())
		})
	}
}

// TestScriptWithoutSentinel: a script that succeeds without the sentinel file is no success.
func TestScriptWithoutSentinel(t *testing.T) {
	g := NewWithT(t)
	n := &Node{Dir: t.TempDir(), Bin: t.TempDir()}
	err := n.Run(t.Context(), &pxetest.System{UserData: []byte("#cloud-config-archive\n- filename: mine\n  content: |\n    #!/bin/sh\n    true\n")}, func(string) {})
	g.Expect(err).To(MatchError(ContainSubstring("without the sentinel file")))
}
