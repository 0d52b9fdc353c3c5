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

// SecretSuffix stands behind the name of a host in the name of the Secret that is made for it.
const SecretSuffix = "-bmc"

// draft is a server while its line is read.
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

// credentials makes the Secret, unless the line names one. The error belongs to the column.
func (d *draft) credentials() (column string, err error) {
	switch named := d.host.Spec.BMC.CredentialsSecretName != ""; {
	case named && (d.username != "" || d.password != ""):
		return columnCredentials, errors.New("it stands beside username or password: write these two, or the name of a Secret that exists")
	case named:
		return "", nil
	case d.username == "":
		return columnUsername, errors.New("it is empty: write it, or name a Secret that exists in credentialsSecretName")
	case d.password == "":
		return columnPassword, errors.New("it is empty: write it, or name a Secret that exists in credentialsSecretName")
	}
	d.host.Spec.BMC.CredentialsSecretName = d.host.Name + SecretSuffix
	d.secret = &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		// MoveLabel makes `clusterctl move` take it along from the first moment on; the host controller would set it too.
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

// bmcHost returns the host name or IP address of a BMC's address: the credentials of the line are sent nowhere else. It is "" for an address that is none, which
// the API server refuses.
func bmcHost(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return parsed.Hostname()
}

// Identity is what no two servers share.
type Identity struct {
	// Key is the same for the same thing, however it is written.
	Key string
	// Column is where it stands, Text names it to a person.
	Column, Text string
}

func (d *draft) identities() []Identity {
	var out []Identity
	if d.host.Name != "" {
		out = append(out, Identity{"name " + d.host.Name, columnName, fmt.Sprintf("the name %q", d.host.Name)})
	}
	return append(out, Hardware(d.host)...)
}

// Hardware returns the identities of the server that a host stands for: its MAC address and its BMC.
func Hardware(h *v1alpha1.BareMetalHost) []Identity {
	var out []Identity
	if mac := h.Spec.BootMACAddress; mac != "" {
		out = append(out, Identity{"mac " + mac, columnMAC, "the MAC address " + mac})
	}
	if address := h.Spec.BMC.Address; address != "" {
		out = append(out, Identity{"bmc " + bmcKey(address), columnBMC, "the BMC " + address})
	}
	return out
}

// SameBMC is true when both addresses lead to the same BMC, and there to the same system.
func SameBMC(a, b string) bool { return bmcKey(a) == bmcKey(b) }

// bmcKey is the host, the port where one is written, and the path: one BMC may manage several systems. The protocol does not count, since
// one server has one BMC whatever is spoken to it; the parameters do not either.
func bmcKey(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return strings.ToLower(u.Host) + strings.TrimRight(u.Path, "/")
}
