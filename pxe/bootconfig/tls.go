package bootconfig

import (
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// tls checks the section of HTTPS. The certificate itself is checked when it is read.
func (s tlsSection) tls(r *reader, httpPort uint16) *TLS {
	path := field.NewPath("http", "tls")
	out := &TLS{Port: port(s.Port, DefaultHTTPSPort), CertFile: s.CertFile, KeyFile: s.KeyFile, NextCertFile: s.NextCertFile}
	if out.Port == 0 || out.Port == httpPort {
		r.invalid(path.Child("port"), out.Port, "give a port from 1 to 65535 that is not http.port")
	}
	files := []struct{ key, path string }{{"certFile", s.CertFile}, {"keyFile", s.KeyFile}}
	if s.NextCertFile != "" {
		files = append(files, struct{ key, path string }{"nextCertFile", s.NextCertFile})
	}
	for _, file := range files {
		if !filepath.IsAbs(file.path) {
			r.invalid(path.Child(file.key), file.path, "give the absolute path of a PEM file")
		}
	}
	if !strings.HasPrefix(s.URL, "https://") {
		r.invalid(path.Child("url"), s.URL, "give the URL at which servers find it, like https://boot.example.com:8481, with a name that the certificate has")
		return out
	}
	out.URL = r.url(s.URL, path.Child("url"))
	return out
}
