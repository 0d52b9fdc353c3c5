package peertest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// htpasswd is Username with Password in the format of sushy-tools: bcrypt, with the lowest cost, because each request computes it.
const htpasswd = Username + ":$2b$04$lVGC7DuXcjdZ5pw2Lnl7guvTG13t8K5O60sQokkwfzYJ4aE0QD1p.\n"

// Sushy is a running emulator of sushy-tools.
type Sushy struct {
	// Address is its host and port.
	Address string
	// CA is the certificate of its CA; nil without TLS.
	CA []byte
}

// Endpoint is the endpoint of a system. Without a name, it is the emulator's only system.
func (s *Sushy) Endpoint(system string) bmc.Endpoint {
	u := &url.URL{Scheme: "redfish", Host: s.Address}
	if s.CA == nil {
		u.Scheme = "redfish+http"
	}
	if system != "" {
		u.Path = "/redfish/v1/Systems/" + system
	}
	return bmc.Endpoint{URL: u, Username: Username, Password: Password, CA: s.CA}
}

// StartSushyFake starts an emulator with sushy-tools' fake driver, whose systems, named by UUIDs, exist only in its memory. If secure is
// true, it serves HTTPS.
func StartSushyFake(tb testing.TB, secure bool, systems ...string) *Sushy {
	tb.Helper()
	entries := make([]string, len(systems))
	for i, uuid := range systems {
		entries[i] = fmt.Sprintf("    {'uuid': '%s', 'name': 'fake-%d', 'power_state': 'Off', 'nics': [{'mac': '52:54:00:fa:ce:%02x'}]},\n", uuid, i, i)
	}
	config := "SUSHY_EMULATOR_FAKE_DRIVER = True\nSUSHY_EMULATOR_FAKE_SYSTEMS = [\n" + strings.Join(entries, "") + "]\n"
	return startSushy(tb, config, secure)
}

// StartSushyLibvirt starts an emulator in front of libvirt's machines.
func StartSushyLibvirt(tb testing.TB, l *Libvirt) *Sushy {
	tb.Helper()
	// The names of the firmware in Debian. The emulator's defaults are the names of another build, which does not fit the machines.
	return startSushy(tb, fmt.Sprintf(`SUSHY_EMULATOR_LIBVIRT_URI = '%s'
SUSHY_EMULATOR_BOOT_LOADER_MAP = {'UEFI': {'x86_64': '%s'}, 'Legacy': {'x86_64': None}}
SUSHY_EMULATOR_SECURE_BOOT_DISABLED_NVRAM = '%s'
SUSHY_EMULATOR_SECURE_BOOT_ENABLED_NVRAM = '%s'
`, l.URI, firmware, firmwareVars, firmwareVarsSecure), false)
}

// startSushy starts an emulator with additional configuration, in Python.
func startSushy(tb testing.TB, config string, secure bool) *Sushy {
	tb.Helper()
	home := tb.TempDir()
	write(tb, filepath.Join(home, "htpasswd"), htpasswd)
	// Port 0 selects a free port, which the emulator writes to its log.
	config += fmt.Sprintf(`SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'
SUSHY_EMULATOR_LISTEN_PORT = 0
SUSHY_EMULATOR_AUTH_FILE = '%[1]s/htpasswd'
SUSHY_EMULATOR_STATE_DIR = '%[1]s'
`, home)
	sushy := &Sushy{}
	if secure {
		sushy.CA = writeCertificate(tb, filepath.Join(home, "cert.pem"), filepath.Join(home, "key.pem"))
		config += fmt.Sprintf("SUSHY_EMULATOR_SSL_CERT = '%[1]s/cert.pem'\nSUSHY_EMULATOR_SSL_KEY = '%[1]s/key.pem'\n", home)
	}
	write(tb, filepath.Join(home, "config.py"), config)
	p := start(tb, program{
		path: inVenv(tb, "python"), args: []string{inVenv(tb, "sushy-emulator"), "--config", filepath.Join(home, "config.py")}, home: home,
		// It fetches images. The proxy settings refuse other computers at once, on every network.
		env: []string{"PYTHONUNBUFFERED=1", "http_proxy=http://127.0.0.1:9", "https_proxy=http://127.0.0.1:9", "no_proxy=127.0.0.1"},
	})
	await(tb, p, func(ctx context.Context) error {
		log, err := os.ReadFile(p.log)
		if err != nil {
			return err
		}
		match := runningOn.FindSubmatch(log)
		if match == nil {
			return errors.New("its log does not contain its address")
		}
		sushy.Address = string(match[1])
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp4", sushy.Address)
		if err != nil {
			return err
		}
		return connection.Close()
	})
	return sushy
}

// runningOn matches the log line with the emulator's address.
var runningOn = regexp.MustCompile(`Running on https?://(127\.0\.0\.1:[0-9]+)`)

// writeCertificate writes a certificate for 127.0.0.1 and its key, and returns the certificate of its CA.
func writeCertificate(tb testing.TB, certificate, key string) []byte {
	tb.Helper()
	authority, authorityKey := sign(tb, &x509.Certificate{
		Subject: pkix.Name{CommonName: "peertest's authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	leaf, leafKey := sign(tb, &x509.Certificate{
		Subject: pkix.Name{CommonName: "sushy-tools"}, IPAddresses: []net.IP{netip.MustParseAddr("127.0.0.1").AsSlice()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority, authorityKey)
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, certificate, pemOf("CERTIFICATE", leaf.Raw))
	write(tb, key, pemOf("PRIVATE KEY", der))
	return []byte(pemOf("CERTIFICATE", authority.Raw))
}

// sign makes a certificate with a new key. Without a CA it is self-signed.
func sign(tb testing.TB, template, authority *x509.Certificate, authorityKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	if authority == nil {
		authority, authorityKey = template, key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, authority, key.Public(), authorityKey)
	if err != nil {
		tb.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return made, key
}

func pemOf(kind string, der []byte) string {
	var text strings.Builder
	if err := pem.Encode(&text, &pem.Block{Type: kind, Bytes: der}); err != nil {
		panic(err) // a strings.Builder returns no errors
	}
	return text.String()
}
