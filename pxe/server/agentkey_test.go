package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

func newCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)} // it has expired
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	leaf, err := x509.ParseCertificate(content)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{content}, PrivateKey: key, Leaf: leaf}
}

// keys records the keys of agents.
type keys struct {
	pxe.Agents

	all []string
}

func (k *keys) CheckToken(context.Context, pxe.AgentRequest) error { return nil }

func (k *keys) Progress(_ context.Context, r pxe.AgentRequest, _ agent.Progress) error {
	k.all = append(k.all, r.Key)
	return nil
}

// TestKeysOfAgents: an agent must prove a key, in each connection. Other clients are not asked for one: iPXE would end the handshake.
func TestKeysOfAgents(t *testing.T) {
	g := NewWithT(t)
	certificate, agents := newCertificate(t), &keys{}
	web := httptest.NewUnstartedServer((&pxe.Handler{Agents: agents}).Mux())
	web.TLS = tlsConfig(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil })
	web.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(t.Output(), nil), slog.LevelInfo)
	web.StartTLS()
	defer web.Close()
	cache := tls.NewLRUClientSessionCache(8)
	ask := func(own *tls.Certificate, protocols ...string) (asked, resumed bool, err error) {
		transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true, NextProtos: protocols, ClientSessionCache: cache, ServerName: "boot", // it is about the client
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				if own == nil {
					return &tls.Certificate{}, nil
				}
				return own, nil
			},
		}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+agent.Path("dc/h", agent.EndpointProgress), strings.NewReader("{}"))
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Authorization", "Bearer t")
		response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
		if err != nil {
			return asked, false, err
		}
		return asked, response.TLS.DidResume, response.Body.Close()
	}
	first, second := newCertificate(t), newCertificate(t)
	for _, own := range []*tls.Certificate{&first, &second, &first} {
		asked, resumed, err := ask(own, agent.TLSProtocol, "http/1.1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]bool{asked, resumed}).To(Equal([]bool{true, false}))
	}
	_, _, err := ask(nil, agent.TLSProtocol, "http/1.1")
	g.Expect(err).To(MatchError(ContainSubstring("certificate required")))
	g.Expect(agents.all).To(Equal([]string{pxe.KeyDigest(first.Leaf), pxe.KeyDigest(second.Leaf), pxe.KeyDigest(first.Leaf)}))

	agents.all = nil
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		asked, _, err := ask(&first, protocols...)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(asked).To(BeFalse())
	}
	g.Expect(agents.all).To(Equal([]string{"", ""}))
}

// TestPins: agents trust the key of the certificate, and that of the next one while there is one.
func TestPins(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	current, next := newCertificate(t), newCertificate(t)
	put := func(name, kind string, content []byte) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)).To(Succeed())
	}
	use := func(c tls.Certificate) {
		private, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
		g.Expect(err).NotTo(HaveOccurred())
		put("tls.crt", "CERTIFICATE", c.Certificate[0])
		put("tls.key", "PRIVATE KEY", private)
	}
	use(current)
	s := &Server{Config: Config{HTTPSAddress: "x", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}}
	g.Expect(s.pins()()).To(Equal([]string{pxe.KeyDigest(current.Leaf)}))
	s.Config.NextCertFile = filepath.Join(dir, "next.crt")
	g.Expect(s.pins()()).To(Equal([]string{pxe.KeyDigest(current.Leaf)}), "the file is missing most of the time")
	put("next.crt", "CERTIFICATE", next.Certificate[0])
	g.Expect(s.pins()()).To(Equal([]string{pxe.KeyDigest(current.Leaf), pxe.KeyDigest(next.Leaf)}))
	use(next)
	g.Expect(s.pins()()).To(Equal([]string{pxe.KeyDigest(next.Leaf)}), "the change is made, and the file is still there")
	for content, want := range map[string]string{
		"": "no PEM block", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "x509",
		"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n": "not a CERTIFICATE",
	} {
		g.Expect(os.WriteFile(s.Config.NextCertFile, []byte(content), 0o600)).To(Succeed())
		_, err := s.pins()()
		g.Expect(err).To(MatchError(ContainSubstring(want)))
	}
	g.Expect((&Server{}).pins()).To(BeNil())
}
