package rack

import (
	"fmt"
	"net/http"
	"net/url"
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

// versionOf returns the version of Kubernetes of a booted image, by the checksums of its files.
func (r *Rack) versionOf(files []string) (string, error) {
	if len(files) == 2 && files[0] == sum(kernel) {
		if version, ok := r.images.Load("sha256:" + files[1]); ok {
			return version.(string), nil //nolint:forcetypeassert // nothing else is stored
		}
	}
	return "", fmt.Errorf("the kernel or the initrd is not what it should be: %v", files)
}

func serveKernel(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kernel)) }

func serveInitrd(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(initrd(r.URL.Query().Get("version"))))
}
