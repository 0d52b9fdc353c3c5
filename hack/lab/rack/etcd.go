package rack

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// etcd is the external etcd of all clusters in the rack, each of which has its own prefix of keys. With an external etcd, kubeadm's control plane provider does
// not connect to Pods.
type etcd struct {
	endpoint    string
	process     *proc.Process
	ca          []byte
	client, key []byte
}

func startEtcd(ctx context.Context, r *Rack) (*etcd, error) {
	dir := filepath.Join(r.Dir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	e := &etcd{endpoint: "https://" + netip.AddrPortFrom(r.Address(1), r.ports["etcd"]).String()}
	files, err := e.makeCertificates(r.Address(1).AsSlice())
	if err != nil {
		return nil, err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, err
		}
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	peer := "http://" + netip.AddrPortFrom(r.Address(1), r.ports["etcd-peer"]).String()
	e.process, err = proc.Start(ctx, dir, "etcd", nil, filepath.Join(r.Bin, "etcd"),
		"--data-dir="+file("data"), "--listen-client-urls="+e.endpoint, "--advertise-client-urls="+e.endpoint,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer,
		"--cert-file="+file("server.crt"), "--key-file="+file("server.key"), "--trusted-ca-file="+file("ca.crt"), "--client-cert-auth",
		"--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
	)
	if err != nil {
		return nil, err
	}
	return e, e.process.Wait(ctx, time.Minute, listens(r.Address(1).String(), r.ports["etcd"]))
}

// makeCertificates makes a CA and certificates for etcd and for the API servers.
func (e *etcd) makeCertificates(address net.IP) (map[string][]byte, error) {
	caKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	issue := func(name string, serial int64, usage x509.ExtKeyUsage) ([]byte, []byte, error) {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return nil, nil, err
		}
		der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
			SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
			IPAddresses: []net.IP{address}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		}, ca, key.Public(), caKey)
		return pemOf("CERTIFICATE", der), pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), err
	}
	e.ca = pemOf("CERTIFICATE", caDER)
	server, serverKey, err := issue("etcd", 2, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	e.client, e.key, err = issue("apiserver", 3, x509.ExtKeyUsageClientAuth)
	return map[string][]byte{"ca.crt": e.ca, "server.crt": server, "server.key": serverKey}, err
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// EtcdSecrets returns the Secrets of a cluster's external etcd for Cluster API. KubeadmControlPlane becomes the owner of Secrets of this type.
func (r *Rack) EtcdSecrets(namespace, cluster string) []*corev1.Secret {
	named := func(name string, data map[string][]byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: cluster + "-" + name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
			},
			Type: clusterv1.ClusterSecretType, Data: data,
		}
	}
	return []*corev1.Secret{
		named("etcd", map[string][]byte{corev1.TLSCertKey: r.etcd.ca}),
		named("apiserver-etcd-client", map[string][]byte{corev1.TLSCertKey: r.etcd.client, corev1.TLSPrivateKeyKey: r.etcd.key}),
	}
}
