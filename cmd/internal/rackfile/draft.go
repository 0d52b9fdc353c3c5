package rackfile

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// SecretSuffix is appended to the name of a host for the name of its Secret.
const SecretSuffix = "-bmc"

// draft is a server during the reading of its line.
type draft struct {
	host               *v1alpha1.BareMetalHost
	secret             *corev1.Secret
	username, password string
}

func newDraft(namespace string) *draft {
	return &draft{host: &v1alpha1.BareMetalHost{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
	}}
}

// credentials makes the Secret, unless the line names one. The error applies to the column.
func (d *draft) credentials() (column string, err error) {
	switch named := d.host.Spec.BMC.CredentialsSecretName != ""; {
	case named && (d.username != "" || d.password != ""):
		return columnCredentials, errors.New("it is set together with username or password: write these two, or the name of an existing Secret")
	case named:
		return "", nil
	case d.username == "":
		return columnUsername, errors.New("it is empty: write it, or name an existing Secret in credentialsSecretName")
	case d.password == "":
		return columnPassword, errors.New("it is empty: write it, or name an existing Secret in credentialsSecretName")
	}
	d.host.Spec.BMC.CredentialsSecretName = d.host.Name + SecretSuffix
	d.secret = &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		// With MoveLabel, `clusterctl move` includes the Secret from the start; the host controller would set the label later.
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.host.Namespace, Name: d.host.Spec.BMC.CredentialsSecretName,
			Labels:      map[string]string{v1alpha1.MoveLabel: "", v1alpha1.BMCSecretLabel: ""},
			Annotations: map[string]string{v1alpha1.BMCHostsAnnotation: bmcHost(d.host.Spec.BMC.Address)},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"username": []byte(d.username), "password": []byte(d.password)},
	}
	return "", nil
}

// bmcHost returns the host name or IP address of a BMC's address: the credentials of the line are sent only there. It returns "" for an invalid address, which the
// API server refuses.
func bmcHost(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// Identity is a property that must be unique among servers.
type Identity struct {
	// Key is the normalized value.
	Key string
	// Column is its column. Text describes it in messages.
	Column, Text string
}

func (d *draft) identities() []Identity {
	var out []Identity
	if d.host.Name != "" {
		out = append(out, Identity{"name " + d.host.Name, columnName, fmt.Sprintf("the name %q", d.host.Name)})
	}
	return append(out, Hardware(d.host)...)
}

// Hardware returns the identities of a host's server: its MAC address and its BMC.
func Hardware(h *v1alpha1.BareMetalHost) []Identity {
	var out []Identity
	for _, mac := range h.Spec.BootMACAddresses {
		out = append(out, Identity{"mac " + mac, columnMAC, "the MAC address " + mac})
	}
	if address := h.Spec.BMC.Address; address != "" {
		out = append(out, Identity{"bmc " + bmcKey(address), columnBMC, "the BMC " + address})
	}
	return out
}

// SameBMC is true if both addresses lead to the same BMC and the same system.
func SameBMC(a, b string) bool { return bmcKey(a) == bmcKey(b) }

// bmcKey is the host, the port if it is given, and the path, because one BMC may manage several systems. It does not contain the protocol,
// because a server has one BMC for all protocols, and no parameters.
func bmcKey(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.ToLower(u.Host) + strings.TrimRight(u.Path, "/")
}
