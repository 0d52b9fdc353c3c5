package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// startHTTPS serves over TLS. It reads the certificate again when its files change, as cert-manager and kubelet change them.
func (s *Server) startHTTPS(ctx context.Context, group *errgroup.Group, web *http.Server) error {
	certificate, err := certwatcher.New(s.Config.CertFile, s.Config.KeyFile)
	if err != nil {
		return fmt.Errorf("read the certificate of HTTPS: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Config.HTTPSAddress)
	if err != nil {
		return fmt.Errorf("listen for HTTPS: %w", err)
	}
	s.Log.Info("Listening", "protocol", "HTTPS", "address", listener.Addr().String())
	web.TLSConfig = tlsConfig(certificate.GetCertificate)
	// Firmware and boot loaders support HTTP/1.1 only.
	web.Protocols = &http.Protocols{}
	web.Protocols.SetHTTP1(true)
	group.Go(func() error { return certificate.Start(ctx) })
	serveHTTP(ctx, group, web, func(web *http.Server) error { return web.ServeTLS(listener, "", "") })
	return nil
}

// tlsConfig asks agents for a certificate, and no other client. An agent proves its key in every connection: none is resumed.
func tlsConfig(certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) *tls.Config {
	agents := &tls.Config{
		GetCertificate: certificate, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true, // the key is the identity: there is no chain to verify
	}
	return &tls.Config{
		GetCertificate: certificate, MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if slices.Contains(hello.SupportedProtos, agent.TLSProtocol) {
				return agents, nil
			}
			return nil, nil // the configuration of all others
		},
	}
}

// pins returns the function for the digests of the public keys that the HTTPS certificate has now, and will have next, nil without HTTPS. The files are read at
// each boot of an agent, because the certificate changes.
func (s *Server) pins() func() ([]string, error) {
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return func() ([]string, error) {
		pair, err := tls.LoadX509KeyPair(s.Config.CertFile, s.Config.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of HTTPS: %w", err)
		}
		pins := []string{pxe.KeyDigest(pair.Leaf)}
		next, err := nextPin(s.Config.NextCertFile)
		if err != nil {
			return nil, fmt.Errorf("read the next certificate of HTTPS: %w", err)
		}
		if next != "" && next != pins[0] {
			pins = append(pins, next)
		}
		return pins, nil
	}
}

// nextPin returns the digest of the public key of the certificate in a PEM file. It is empty without a file: most of the time there is none.
func nextPin(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	content, err := os.ReadFile(file) //nolint:gosec // the administrator names it
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(content)
	switch {
	case block == nil:
		return "", fmt.Errorf("%s has no PEM block", file)
	case block.Type == "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		return pxe.KeyDigest(certificate), nil
	default:
		return "", fmt.Errorf("%s has a PEM block of the type %.40q, and not a CERTIFICATE", file, block.Type)
	}
}

// secureURL returns the function for the HTTPS URL, nil without HTTPS.
func (s *Server) secureURL() func(netip.Addr) string {
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return func(netip.Addr) string { return s.Config.HTTPSBaseURL }
}
