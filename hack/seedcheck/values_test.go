package seedcheck

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// hostileValues are texts that some reader between a Secret and a file of the node would interpret, and some random ones.
func hostileValues() []string {
	values := []string{
		hostileToken, "", " ", "'", `"`, `\`, `\\n`, "a\nb", "a\nb\n", "\n\na\n\n", "  indented\n    more\nless", "tab\there", "carriage\r\nreturn\r", "trailing  \nspaces  ",
		"<% .Machine.Name %>", "{{ ds.meta_data.hostname }}", "{{", "{%", "{#", "{{{{%", "a{", "{", "{% raw %}", "{# comment #}", "{{ '{{' }}",
		"$HOME ${HOME} $(touch /pwned) `touch /pwned`", "; touch /pwned", "' ; touch /pwned; '", "EOF\ntouch /pwned", "!history", "*?[a]~",
		"null", "~", "yes", "1e3", "0x10", "010", "2001-01-01", "- a", "a: b", "a #b", "#cloud-config", "&a *a !t", "@", "`", "%TAG", "---\na", "...", "|", ">", "[", "{a: b}", "? a",
		"é ключ 🔑 \u6c49\u5b57", "\u00a0nbsp", "next\u0085line", "line\u2028paragraph\u2029", "\ufeffmark", "del\u007f c1\u0080\u009f", "\ufffe\uffff\ufffd", "\u0001\u001b[0m", "right\u202eleft",
		"-----BEGIN CERTIFICATE-----\nMIIB+/==\n-----END CERTIFICATE-----\n", strings.Repeat("long ", 2000),
	}
	random := rapid.StringN(1, 40, -1).Filter(func(s string) bool { return !strings.Contains(s, "\x00") })
	for i := range 40 {
		values = append(values, random.Example(i))
	}
	return values
}

// bootWith boots a server with a config whose values are those, and returns it.
func bootWith(t *testing.T, spec *bootstrapv1.BareMetalConfigSpec, values []string) (*node, string) {
	t.Helper()
	named := map[string]string{}
	for i, v := range values {
		named[fmt.Sprintf("v%d", i)] = v
	}
	spec.Format, spec.Sentinel = bootstrapv1.FormatCloudConfig, bootstrapv1.SentinelCommands
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c"}}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m-1"}}
	out, err := render.BootstrapData(spec, spec.UserData, render.DataOf(cluster, machine, named))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	d := data(t)
	d.UserData, d.SucceededPath, d.FailedPath = out, "", ""
	n := newNode(t)
	return n, n.boot(serve(t, d).commandLine)
}

// TestValuesArriveUnchanged: with quote and base64 in the user data, and with shellQuote and base64 in commands, every value arrives in a file as it was. It
// does not matter whether Jinja reads the user data, too.
func TestValuesArriveUnchanged(t *testing.T) {
	values := hostileValues()
	for name, first := range map[string]string{"with Jinja": "## template: jinja\n#cloud-config\n", "without Jinja": "#cloud-config\n"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var userData strings.Builder
			_, _ = userData.WriteString(first + "write_files:\n- path: /out/plain\n  content: a\n")
			spec := &bootstrapv1.BareMetalConfigSpec{}
			for i := range values {
				_, _ = fmt.Fprintf(&userData, "- path: /out/quote-%[1]d\n  content: <%% quote .Values.v%[1]d %%>\n", i)
				_, _ = fmt.Fprintf(&userData, "- path: /out/base64-%[1]d\n  encoding: b64\n  content: \"<%% base64 .Values.v%[1]d %%>\"\n", i)
				spec.Commands = append(spec.Commands, fmt.Sprintf(
					"printf %%s <%% shellQuote .Values.v%[1]d %%> >/out/shell-%[1]d\necho <%% base64 .Values.v%[1]d %%> | base64 -d >/out/decoded-%[1]d", i))
			}
			spec.UserData = userData.String()
			n, log := bootWith(t, spec, values)
			for i, v := range values {
				for _, function := range []string{"quote", "base64", "shell", "decoded"} {
					g.Expect(n.has(fmt.Sprintf("/out/%s-%d", function, i))).To(BeTrue(), log)
					g.Expect(n.read(fmt.Sprintf("/out/%s-%d", function, i))).To(Equal(v), "%s of %q", function, v)
				}
			}
			n.expectSuccess(log)
		})
	}
}

// TestIndent: a text of lines arrives in a block of YAML.
func TestIndent(t *testing.T) {
	const text = "-----BEGIN CERTIFICATE-----\nMIIB+/==\n  \"quoted\": 'x' # y\n-----END CERTIFICATE-----\n"
	n, log := bootWith(t, &bootstrapv1.BareMetalConfigSpec{
		UserData: "#cloud-config\nwrite_files:\n- path: /out/indent\n  content: |\n    <% indent 4 .Values.v0 %>\n", Commands: []string{"true"},
	}, []string{text})
	NewWithT(t).Expect(n.read("/out/indent")).To(Equal(text), log)
	n.expectSuccess(log)
}

// TestOrder: the commands run after everything in the user data, and nothing runs after the one that failed.
func TestOrder(t *testing.T) {
	g := NewWithT(t)
	n, log := bootWith(t, &bootstrapv1.BareMetalConfigSpec{
		UserData: "#cloud-config\nwrite_files: [{path: /calls, content: \"files\\n\"}]\nruncmd: [echo runcmd >>/calls]\n",
		Commands: []string{"echo first >>/calls", "[ -e /fails ] || false", "echo never >>/calls"},
	}, nil)
	g.Expect(n.calls()).To(Equal([]string{"files", "runcmd", "first"}), log)
	g.Expect(n.has(render.Sentinel)).To(BeFalse())
	g.Expect(log).To(ContainSubstring("zz-capbm-commands"), "cloud-init reports the script that failed")

	n, log = bootWith(t, &bootstrapv1.BareMetalConfigSpec{
		UserData: "#!/bin/sh\necho script >>/calls\n", Commands: []string{"echo first >>/calls"},
	}, nil)
	g.Expect(n.calls()).To(Equal([]string{"script", "first"}), log)
	n.expectSuccess(log)
}

// TestFacts: commands have the facts of the server in their environment, from the real instance data. One that the seed does not give is unset.
func TestFacts(t *testing.T) {
	// A program of a command has them, too.
	const facts = `sh -c 'printf "%s|%s|%s|%s\n" "$CAPBM_PROVIDER_ID" "$CAPBM_HOSTNAME" "$CAPBM_INSTANCE_ID" "${CAPBM_FAILURE_DOMAIN-unset}"' >/facts`
	for domain, want := range map[string]string{
		"rack 'one' $HOME": "baremetal://dc/h/m-1|m-1|i-1|rack 'one' $HOME\n", "": "baremetal://dc/h/m-1|m-1|i-1|unset\n",
	} {
		t.Run(domain, func(t *testing.T) {
			g := NewWithT(t)
			spec := &bootstrapv1.BareMetalConfigSpec{Format: bootstrapv1.FormatCloudConfig, Commands: []string{facts}}
			out, err := render.BootstrapData(spec, "", render.Data{})
			g.Expect(err).NotTo(HaveOccurred())
			d := data(t)
			d.UserData, d.FailureDomain, d.SucceededPath, d.FailedPath = out, domain, "", ""
			n := newNode(t)
			log := n.boot(serve(t, d).commandLine)
			n.expectSuccess(log)
			g.Expect(n.read("/facts")).To(Equal(want))

			// The same answers come from a file that is named.
			query := "cloud-init query --instance-data /run/cloud-init/instance-data-sensitive.json "
			g.Expect(n.mustRun(query + "ds.meta_data.provider_id; " + query + "ds.meta_data.hostname; " + query + "v1.instance_id")).To(
				Equal("baremetal://dc/h/m-1\nm-1\ni-1\n"))
			answer, _, err := n.run(query + "ds.meta_data.failure_domain")
			g.Expect(err == nil).To(Equal(domain != ""))
			g.Expect(strings.TrimSuffix(answer, "\n")).To(Equal(domain))
		})
	}
}
