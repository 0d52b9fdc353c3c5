package emulated

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Origin serves what the servers of a site boot, by the version of Kubernetes. The version is only a stamp on the files. The empty one is that of the programs.
type Origin struct {
	dir     string // of the disk images
	web     *http.Server
	initrds sync.Map // the versions by the checksums of their initrds

	mu        sync.Mutex
	checksums map[string]string // of the disk images, by their versions
}

// kernel and initrd are the files of a network boot. The firmware checks their checksums and runs none of them.
const kernel = "an emulated kernel"

func initrd(version string) string { return "an emulated initrd with Kubernetes " + version }

func newOrigin(ctx context.Context, address netip.Addr, dir string) (*Origin, error) {
	o := &Origin{dir: dir, checksums: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /kernel", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kernel)) })
	mux.HandleFunc("GET /initrd", func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(initrd(r.URL.Query().Get("version"))))
	})
	mux.HandleFunc("GET /image", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, o.ImageFile(r.URL.Query().Get("version")))
	})
	var err error
	if o.web, err = serve(ctx, address, mux); err != nil {
		return nil, err
	}
	return o, os.MkdirAll(dir, 0o700)
}

// serve serves HTTP at an address, until the server is closed. Its Addr has the port.
func serve(ctx context.Context, address netip.Addr, handler http.Handler) (*http.Server, error) {
	listener, err := listen(ctx, address, 0)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Addr: listener.Addr().String(), Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // ends with Close
	return server, nil
}

func (o *Origin) url(file, version string) string {
	return "http://" + o.web.Addr + "/" + file + "?version=" + url.QueryEscape(version)
}

// Kernel returns the kernel.
func (o *Origin) Kernel() v1alpha1.Artifact {
	return v1alpha1.Artifact{URL: "http://" + o.web.Addr + "/kernel", Checksum: "sha256:" + sum([]byte(kernel))}
}

// Initrd returns the initrd of a version.
func (o *Origin) Initrd(version string) v1alpha1.Artifact {
	checksum := sum([]byte(initrd(version)))
	o.initrds.Store(checksum, version)
	return v1alpha1.Artifact{URL: o.url("initrd", version), Checksum: "sha256:" + checksum}
}

// DiskImage returns the disk image of a version, with this many bytes of data. The first call decides about the bytes.
func (o *Origin) DiskImage(version string, dataBytes int64) (*v1alpha1.Image, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.checksums[version] == "" {
		checksum, err := WriteImage(o.ImageFile(version), version, dataBytes)
		if err != nil {
			return nil, err
		}
		o.checksums[version] = checksum
	}
	return &v1alpha1.Image{URL: o.url("image", version), Checksum: o.checksums[version], DataSource: wire.DataSourceNoCloud}, nil
}

// ImageFile is the file of the disk image of a version.
func (o *Origin) ImageFile(version string) string {
	return filepath.Join(o.dir, "kubernetes-"+filepath.Base(version)+".raw")
}

// VersionOf returns the version of a system that was booted, by the checksums of its files or by the stamp on its disk.
func (o *Origin) VersionOf(system *pxetest.System) (string, error) {
	if version, ok := Version(system); ok {
		return version, nil
	}
	if files := system.Files; len(files) == 2 && files[0] == sum([]byte(kernel)) {
		if version, ok := o.initrds.Load(files[1]); ok {
			return version.(string), nil //nolint:forcetypeassert // nothing else is stored
		}
	}
	return "", fmt.Errorf("the kernel, the initrd or the disk is not what it should be: %v", system.Files)
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}
