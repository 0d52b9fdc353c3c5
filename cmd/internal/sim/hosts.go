package sim

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// manifests returns the Secrets and BareMetalHosts of all servers, for kubectl apply.
func (r *rack) manifests() string {
	credentials, ca := r.opts.prefix+"-credentials", ""
	var b strings.Builder
	fmt.Fprintf(&b, "# %d servers of bmcsim.\n", len(r.servers))
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  labels: {%s: \"\"}\nstringData:\n  username: %s\n  password: %s\n",
		credentials, v1alpha1.BMCSecretLabel, quote(r.opts.username), quote(r.opts.password))
	if len(r.ca) > 0 {
		ca = r.opts.prefix + "-ca"
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  labels: {%s: \"\"}\nstringData:\n  ca.crt: %s\n", ca, v1alpha1.BMCSecretLabel, quote(string(r.ca)))
	}
	for _, s := range r.servers {
		fmt.Fprintf(&b, `---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: BareMetalHost
metadata:
  name: %s
  labels:
    bmcsim: %s
spec:
  bmc:
    address: %s
    credentialsSecretName: %s
`, s.name, quote(r.opts.prefix), quote(s.url), credentials)
		if ca != "" && s.protocol == protocolRedfish {
			fmt.Fprintf(&b, "    caSecretName: %s\n", ca)
		}
		fmt.Fprintf(&b, "  bootMACAddresses: [%s]\n  power: \"Off\"\n", quote(s.mac))
	}
	return b.String()
}

// quote writes a string for YAML, which reads those of JSON.
func quote(text string) string {
	quoted, _ := json.Marshal(text) //nolint:errchkjson // a string always can be
	return string(quoted)
}
