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
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// etcd is the external etcd of the clusters in the rack. With an external etcd, kubeadm's control plane provider does not connect to Pods.
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
	return e, r.waitForEtcd(ctx, e.process)
}

func (r *Rack) waitForEtcd(ctx context.Context, process *proc.Process) error {
	return process.Wait(ctx, time.Minute, listens(r.Address(1).String(), r.ports["etcd"]))
}

// ForgetCluster empties the etcd of the clusters, so that another cluster can be created after one was deleted.
func (r *Rack) ForgetCluster(ctx context.Context) error {
	r.etcd.process.Stop()
	if err := os.RemoveAll(filepath.Join(r.Dir, "etcd", "data")); err != nil {
		return err
	}
	process, err := r.etcd.process.Again(ctx)
	if err != nil {
		return err
	}
	r.etcd.process = process
	return r.waitForEtcd(ctx, process)
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

// EtcdSecrets returns the Secrets of a cluster's external etcd for Cluster API, as YAML.
func (r *Rack) EtcdSecrets(namespace, cluster string) (string, error) {
	var out strings.Builder
	for name, data := range map[string]map[string]string{
		cluster + "-etcd":                  {"tls.crt": string(r.etcd.ca)},
		cluster + "-apiserver-etcd-client": {"tls.crt": string(r.etcd.client), "tls.key": string(r.etcd.key)},
	} {
		secret, err := yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret", "stringData": data,
			"metadata": map[string]any{"namespace": namespace, "name": name, "labels": map[string]string{"cluster.x-k8s.io/cluster-name": cluster}},
		})
		if err != nil {
			return "", err
		}
		out.WriteString("---\n" + string(secret))
	}
	return out.String(), nil
}
