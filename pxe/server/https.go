package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
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
	web.TLSConfig = &tls.Config{GetCertificate: certificate.GetCertificate, MinVersion: tls.VersionTLS12}
	// Firmware and boot loaders support HTTP/1.1 only.
	web.Protocols = &http.Protocols{}
	web.Protocols.SetHTTP1(true)
	group.Go(func() error { return certificate.Start(ctx) })
	serveHTTP(ctx, group, web, func(web *http.Server) error { return web.ServeTLS(listener, "", "") })
	return nil
}

// pins returns the function for the digests of the public keys of the HTTPS certificate, nil without HTTPS. The file is read at each boot of an agent, because
// the certificate changes.
func (s *Server) pins() func() ([]string, error) {
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return func() ([]string, error) {
		pair, err := tls.LoadX509KeyPair(s.Config.CertFile, s.Config.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate of HTTPS: %w", err)
		}
		digest := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
		return []string{base64.RawURLEncoding.EncodeToString(digest[:])}, nil
	}
}

// secureURL returns the function for the HTTPS URL, nil without HTTPS.
func (s *Server) secureURL() func(netip.Addr) string {
	if s.Config.HTTPSAddress == "" {
		return nil
	}
	return func(netip.Addr) string { return s.Config.HTTPSBaseURL }
}
