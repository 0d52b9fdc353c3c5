package boot_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso/isotest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// These are the attacks of docs/reference/threat-model.md on a server that boots its agent from a medium, against the boot server over HTTPS.

// medium is a boot from a medium: the boot server, and what is on the medium.
type medium struct {
	*world

	t *testing.T
	// address is that of HTTPS.
	address string
	// pin is the digest of the boot server's key.
	pin string
	// image is the medium as a client of the BMC's network reads it. host and token are those in its configuration.
	image       []byte
	host, token string
}

// parameter matches a parameter of the agent on the command line in a medium.
var parameter = regexp.MustCompile(`'capbm\.(host|token)=([^']+)'`)

// read fetches the medium from its URL, which the BMC's network sees, and reads what it has for the agent.
func (m *medium) read(url string) {
	m.t.Helper()
	g := NewWithT(m.t)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr(malloryAddress).AsSlice()}}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}}
	response, err := client.Get(url) //nolint:noctx // it has a timeout
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	m.image, err = io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	volume, err := isotest.Read(bytes.NewReader(m.image), int64(len(m.image)))
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string]string{}
	for _, match := range parameter.FindAllSubmatch(volume.Files["boot/grub/grub.cfg"], -1) {
		found[string(match[1])] = string(match[2])
	}
	m.host, m.token = found["host"], found["token"]
	g.Expect([]string{m.host, m.token}).NotTo(ContainElement(BeEmpty()))
}

// selfSigned returns a certificate with a new key.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	g := NewWithT(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	g.Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1, 0)}
	content, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	g.Expect(err).NotTo(HaveOccurred())
	leaf, err := x509.ParseCertificate(content)
	g.Expect(err).NotTo(HaveOccurred())
	return tls.Certificate{Certificate: [][]byte{content}, PrivateKey: key, Leaf: leaf}
}

// insert starts a boot server for a boot from a medium.
func insert(t *testing.T) *medium {
	t.Helper()
	g := NewWithT(t)
	w := mediaWorld(t)
	certificate, dir, loaders, agents := selfSigned(t), t.TempDir(), t.TempDir(), t.TempDir()
	g.Expect(pxetest.WriteMediaLoaders(loaders)).To(Succeed())
	_, err := pxetest.WriteAgent(agents)
	g.Expect(err).NotTo(HaveOccurred())
	private, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	g.Expect(err).NotTo(HaveOccurred())
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600)).To(Succeed())
	}
	var at [2]string
	for i := range at {
		port, err := pxetest.FreePort(address)
		g.Expect(err).NotTo(HaveOccurred())
		at[i] = netip.AddrPortFrom(address, port).String()
	}
	s := &server.Server{Booter: w.Booter, Agents: w.Booter, Media: w.Booter, Log: logr.Discard(), Config: server.Config{
		Networks:    []bootconfig.Network{{Name: "test", Mode: bootconfig.Off, Address: address, URL: "http://" + at[0]}},
		HTTPAddress: at[0], HTTPSAddress: at[1], HTTPSBaseURL: "https://" + at[1], CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key"),
		Artifacts: artifact.Options{Dir: t.TempDir()}, LoaderDirs: []string{loaders}, Agent: bootconfig.Agent{Dir: agents},
	}}
	running, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(running) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error { return s.Ready(nil) }, "30s").Should(Succeed())
	m := &medium{world: w, t: t, address: at[1], pin: pxe.KeyDigest(certificate.Leaf)}
	m.read("http://" + at[0] + pxe.MediaPath("dc/h", boot.MediaToken([]byte("key"), w.boot())))
	return m
}

// party is a program that speaks the protocol of agents, with a key of its own.
type party struct {
	m      *medium
	client *http.Client
	image  bool // it has received the image
}

// party returns a party with an address. through is where it connects to.
func (m *medium) party(from, through string) *party {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr(from).AsSlice()}, Timeout: 10 * time.Second}
	return &party{m: m, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, through)
		},
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{selfSigned(m.t)}, NextProtos: []string{agent.TLSProtocol, "http/1.1"},
			InsecureSkipVerify: true, // VerifyConnection checks the key, as the agent does
			VerifyConnection: func(state tls.ConnectionState) error {
				NewWithT(m.t).Expect(pxe.KeyDigest(state.PeerCertificates[0])).To(Equal(m.pin))
				return nil
			},
		},
	}}}
}

// do makes a request with a token, and returns the status and the body.
func (p *party) do(token, endpoint string) (status int, answer string) {
	p.m.t.Helper()
	return p.speak(agent.Version, token, endpoint)
}

// speak is do with a version of the protocol.
func (p *party) speak(version int, token, endpoint string) (status int, answer string) {
	p.m.t.Helper()
	g := NewWithT(p.m.t)
	method, body := http.MethodPost, any(struct{}{})
	switch endpoint {
	case agent.EndpointPlan:
		body = hello
	case agent.EndpointData:
		body = sda
	case agent.EndpointCommit:
		body = agent.CommitRequest{Disk: sda.Disk}
	case agent.EndpointProgress:
		body = agent.Progress{Step: wire.StepWriting}
	case agent.EndpointImage:
		method = http.MethodGet
	case agent.EndpointInventory:
		body = json.RawMessage(`{"version":1,"firmware":{"mode":"UEFI","secureBoot":true}}`) // of version 1
	}
	content, err := json.Marshal(body)
	g.Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(context.Background(), method, "https://"+p.m.address+agent.Path(p.m.host, endpoint), bytes.NewReader(content))
	g.Expect(err).NotTo(HaveOccurred())
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set(agent.HeaderVersion, strconv.Itoa(version))
	response, err := p.client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(read)
}

// asks makes requests with the token of the medium, and returns the last status.
func (p *party) asks(endpoints ...string) (status int) {
	p.m.t.Helper()
	for _, endpoint := range endpoints {
		status, _ = p.do(p.m.token, endpoint)
		p.image = p.image || endpoint == agent.EndpointImage && status == http.StatusOK
		if endpoint == agent.EndpointData && p.image { // the boot server counts the image when its handler ends, after the last byte
			NewWithT(p.m.t).Eventually(func() int {
				status, _ = p.do(p.m.token, endpoint)
				return status
			}).ShouldNot(Equal(http.StatusAccepted))
		}
	}
	return status
}

// refused checks that every request of a party is refused.
func (p *party) refused() {
	p.m.t.Helper()
	for _, endpoint := range agentEndpoints {
		status, answer := p.do(p.m.token, endpoint)
		NewWithT(p.m.t).Expect(status).To(Equal(http.StatusUnauthorized), endpoint)
		NewWithT(p.m.t).Expect(answer).NotTo(ContainSubstring("the bootstrap data"))
	}
}

// TestOlderAgentOverHTTP: an agent of version 1 that had its plan before the boot server was upgraded is refused with that reason at each request, also where this version cannot read the
// body.
func TestOlderAgentOverHTTP(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	own := m.party(serverAddress, m.address)
	g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusOK))
	for _, endpoint := range append(agentEndpoints, agent.EndpointInventory) {
		status, answer := own.speak(1, m.token, endpoint)
		g.Expect(status).To(Equal(http.StatusConflict), endpoint)
		g.Expect(answer).To(ContainSubstring(wire.ReasonVersionDiffers), endpoint)
	}
}

const (
	serverAddress  = "127.0.81.9"
	malloryAddress = "127.0.81.200"
)

// TestAttackMedium: a client of the BMC's network has read the medium, and so the token. It asks at each moment of the boot.
func TestAttackMedium(t *testing.T) {
	write := []string{agent.EndpointPlan, agent.EndpointImage, agent.EndpointProgress}
	for name, c := range map[string]struct {
		before []string // by the agent, before the attack
		attack []string
		status int
		check  func(g Gomega, boot v1alpha1.BareMetalBootSpec)
	}{
		"while the image is written": {write, []string{agent.EndpointPlan}, http.StatusUnauthorized, func(g Gomega, boot v1alpha1.BareMetalBootSpec) {
			g.Expect(boot.AgentRefusedTime).NotTo(BeNil())
			g.Expect(boot.Failure).To(BeNil())
			g.Expect(boot.DataServedTime).To(BeNil(), "nobody gets the bootstrap data in this attempt")
		}},
		"for the bootstrap data at once": {write, []string{agent.EndpointData}, http.StatusUnauthorized, func(g Gomega, boot v1alpha1.BareMetalBootSpec) {
			g.Expect(boot.AgentRefusedTime).NotTo(BeNil())
			g.Expect(boot.DataServedTime).To(BeNil())
		}},
		"after the bootstrap data": {append(write, agent.EndpointData), []string{agent.EndpointData}, http.StatusUnauthorized, func(g Gomega, boot v1alpha1.BareMetalBootSpec) {
			g.Expect(boot.Failure).NotTo(BeNil())
			g.Expect(boot.CommitAllowedTime).To(BeNil(), "no machine runs with data that two clients may have")
		}},
		"after the permission": {append(write, agent.EndpointData, agent.EndpointCommit), agentEndpoints, http.StatusUnauthorized, func(g Gomega, boot v1alpha1.BareMetalBootSpec) {
			g.Expect(boot.Failure).To(BeNil())
			g.Expect(boot.AgentRefusedTime).To(BeNil())
		}},
		"before the agent": {nil, []string{agent.EndpointPlan}, http.StatusOK, func(g Gomega, boot v1alpha1.BareMetalBootSpec) {
			g.Expect(boot.AgentKey).NotTo(BeEmpty())
			g.Expect(boot.DataServedTime).To(BeNil())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			m := insert(t)
			own, mallory := m.party(serverAddress, m.address), m.party(malloryAddress, m.address)
			own.asks(c.before...)
			g.Expect(mallory.asks(c.attack...)).To(Equal(c.status))
			c.check(g, m.boot().Spec)
			switch name {
			case "after the permission":
				g.Expect(own.asks(agent.EndpointResult)).To(Equal(http.StatusOK))
				return
			case "before the agent":
				g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusUnauthorized))
				g.Expect(m.boot().Spec.AgentRefusedTime).NotTo(BeNil(), "the second enrolment ends the attempt")
			}
			own.refused()
			mallory.refused()
		})
	}
}

// TestMediumHasNoBootstrapData: who reads the medium has the token of the agent, and neither the bootstrap data nor the token of the medium's URL.
func TestMediumHasNoBootstrapData(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	for _, secret := range []string{"the bootstrap data", boot.MediaToken([]byte("key"), m.boot())} {
		g.Expect(bytes.Contains(m.image, []byte(secret))).To(BeFalse(), secret)
	}
	own := m.party(serverAddress, m.address)
	own.asks(agent.EndpointPlan, agent.EndpointImage, agent.EndpointProgress, agent.EndpointData)
	_, answer := own.do(m.token, agent.EndpointData)
	encoded := base64.StdEncoding.EncodeToString([]byte("the bootstrap data"))
	g.Expect(answer).To(Or(ContainSubstring("the bootstrap data"), ContainSubstring(encoded)), "which the agent gets with the token")
}

// TestAttackMediumFirst: a client that has read the medium enrols before the agent, and asks for the bootstrap data at once. The data waits until the image is sent, and the
// agent ends the attempt before.
func TestAttackMediumFirst(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	own, mallory := m.party(serverAddress, m.address), m.party(malloryAddress, m.address)
	g.Expect(mallory.asks(agent.EndpointPlan, agent.EndpointData)).To(Equal(http.StatusAccepted))
	g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusUnauthorized))
	g.Expect(m.boot().Spec.AgentRefusedTime).NotTo(BeNil())
	g.Expect(m.boot().Spec.DataServedTime).To(BeNil())
	mallory.refused()
}

// TestAttackMediumWithImage: a client that enrols before the agent, and that has received the image before the agent comes, gets the bootstrap data: this is what remains. The
// boot fails when the agent asks, so no machine runs with that data.
func TestAttackMediumWithImage(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	own, mallory := m.party(serverAddress, m.address), m.party(malloryAddress, m.address)
	g.Expect(mallory.asks(agent.EndpointPlan, agent.EndpointImage, agent.EndpointData)).To(Equal(http.StatusOK), "this is what remains")
	g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusUnauthorized))
	g.Expect(m.boot().Spec.Failure).NotTo(BeNil())
	g.Expect(m.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
	mallory.refused()
}

// TestAttackMediumAgain: who inserts the medium again, or presents its token again, after the attempt gets nothing: the next attempt has another token.
func TestAttackMediumAgain(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	g.Expect(m.party(serverAddress, m.address).asks(agent.EndpointPlan)).To(Equal(http.StatusOK))
	g.Expect(nextBoot(m.world)).To(Succeed())
	g.Expect(m.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Agent, b.Method = true, v1alpha1.MethodVirtualMedia })).To(Succeed())
	m.party(malloryAddress, m.address).refused()
	m.party(serverAddress, m.address).refused()
	boot := m.boot().Spec
	g.Expect([]string{boot.AgentKey, boot.DataAddress}).To(HaveEach(BeEmpty()))
	g.Expect(boot.AgentRefusedTime).To(BeNil(), "an old token ends nothing")
}

// TestAttackAgentAddress: a client of the provisioning network has taken the address of the server. Without the key of the agent it gets nothing.
func TestAttackAgentAddress(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	own, mallory := m.party(serverAddress, m.address), m.party(serverAddress, m.address)
	g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusOK))
	g.Expect(mallory.asks(agent.EndpointData)).To(Equal(http.StatusUnauthorized))
	g.Expect(m.boot().Spec.DataServedTime).To(BeNil())
}

// relay forwards connections to a boot server, and records what it sees.
func relay(t *testing.T, to string) (address string, seen *recorder) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.81.3:0") //nolint:noctx // of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = listener.Close() })
	seen = &recorder{}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			boots, err := net.Dial("tcp4", to) //nolint:noctx // of this test
			if err != nil {
				_ = client.Close()
				return
			}
			copied := func(to, from net.Conn) {
				_, _ = io.Copy(io.MultiWriter(to, seen), from) // until one of them ends
				_ = to.Close()
			}
			go copied(client, boots)
			go copied(boots, client)
		}
	}()
	return listener.Addr().String(), seen
}

// TestAttackListener: a listener between the agent and the boot server sees the whole boot. It learns neither the token, nor the bootstrap data, nor the key of
// the agent, with which it could compute nothing anyway. cmd/agent shows that the agent talks to no boot server with another key (TestImpostor).
func TestAttackListener(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	address, seen := relay(t, m.address)
	own := m.party(serverAddress, address)
	g.Expect(own.asks(agent.EndpointPlan, agent.EndpointImage, agent.EndpointData)).To(Equal(http.StatusOK))
	status, data := own.do(m.token, agent.EndpointData) // again: the answer may be lost
	g.Expect(status).To(Equal(http.StatusOK))
	g.Expect(data).To(ContainSubstring("the bootstrap data"))
	g.Expect(own.asks(agent.EndpointCommit, agent.EndpointResult)).To(Equal(http.StatusOK))
	text := seen.String()
	g.Expect(len(text)).To(BeNumerically(">", len(data)), "it has seen everything")
	g.Expect(strings.Contains(text, m.token) || strings.Contains(text, "the bootstrap data") || strings.Contains(text, "the image")).To(BeFalse())
	g.Expect(strings.Contains(text, m.boot().Spec.AgentKey)).To(BeFalse())
}

// TestAttackAgentTenant: the agent of a tenant, with a token and a key of its own, asks for another host. It gets nothing, and ends nothing.
func TestAttackAgentTenant(t *testing.T) {
	g := NewWithT(t)
	m := insert(t)
	own, tenant := m.party(serverAddress, m.address), m.party(malloryAddress, m.address)
	g.Expect(own.asks(agent.EndpointPlan)).To(Equal(http.StatusOK))
	for _, endpoint := range agentEndpoints {
		status, _ := tenant.do(strings.Repeat("t", 43), endpoint)
		g.Expect(status).To(Equal(http.StatusUnauthorized), endpoint)
	}
	boot := m.boot().Spec
	g.Expect(boot.AgentRefusedTime).To(BeNil())
	g.Expect(boot.Failure).To(BeNil())
	g.Expect(own.asks(agent.EndpointImage, agent.EndpointData)).To(Equal(http.StatusOK))
}
