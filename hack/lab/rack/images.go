package rack

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/imaging"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Image is what a server boots: the URLs and checksums of a kernel and an initrd.
type Image struct {
	Kernel, KernelChecksum, Initrd, InitrdChecksum string
}

// kernel and initrd are the files of the images. The firmware checks their checksums and runs none of them.
const kernel = "an emulated kernel"

func initrd(version string) string { return "an emulated initrd with Kubernetes " + version }

// Image returns the image of a version of Kubernetes. The empty version is that of the lab's programs. The version is only a stamp: the server runs the
// same programs, and its kubelet reports this version. It may therefore differ only behind the patch version, as in v1.36.3+2.
func (r *Rack) Image(version string) Image {
	checksum := "sha256:" + sum(initrd(version))
	r.images.Store(checksum, version)
	base := "http://" + r.origin.Addr
	return Image{Kernel: base + "/kernel", KernelChecksum: "sha256:" + sum(kernel), Initrd: base + "/initrd?version=" + url.QueryEscape(version), InitrdChecksum: checksum}
}

// versionOf returns the version of Kubernetes of a system that was booted, by the checksums of its files or by the stamp on its disk.
func (r *Rack) versionOf(system *pxetest.System) (string, error) {
	if version, ok := imaging.Version(system); ok {
		return version, nil
	}
	if files := system.Files; len(files) == 2 && files[0] == sum(kernel) {
		if version, ok := r.images.Load("sha256:" + files[1]); ok {
			return version.(string), nil //nolint:forcetypeassert // nothing else is stored
		}
	}
	return "", fmt.Errorf("the kernel, the initrd or the disk is not what it should be: %v", system.Files)
}

func serveKernel(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kernel)) }

func serveInitrd(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(initrd(r.URL.Query().Get("version"))))
}

// DiskImage is an image for the disk of a server.
type DiskImage struct{ URL, Checksum string }

// DiskImage returns the disk image of a version of Kubernetes, as Image does. It has ImageBytes of data.
func (r *Rack) DiskImage(version string) (DiskImage, error) {
	r.diskImages.Lock()
	defer r.diskImages.Unlock()
	image := DiskImage{URL: "http://" + r.origin.Addr + "/image?version=" + url.QueryEscape(version), Checksum: r.diskImages.checksums[version]}
	if image.Checksum != "" {
		return image, nil
	}
	path := r.diskImagePath(version)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		image.Checksum, err = imaging.WriteImage(path, version, r.ImageBytes)
	}
	if err == nil {
		r.diskImages.checksums[version] = image.Checksum
	}
	return image, err
}

// diskImagePath is the file of the disk image of a version.
func (r *Rack) diskImagePath(version string) string {
	return filepath.Join(r.Dir, "images", "kubernetes-"+filepath.Base(version)+".raw")
}

func (r *Rack) serveDiskImage(w http.ResponseWriter, request *http.Request) {
	http.ServeFile(w, request, r.diskImagePath(request.URL.Query().Get("version")))
}
