package rack

import (
	"fmt"
	"net/http"
	"net/url"
)

// Image is what a server boots: the URLs of a kernel and an initrd, and their checksums.
type Image struct {
	Kernel, KernelChecksum, Initrd, InitrdChecksum string
}

// kernel and initrd are the files of the images. The firmware checks what it gets and runs none of it.
const kernel = "an emulated kernel"

func initrd(version string) string { return "an emulated initrd with Kubernetes " + version }

// Image returns the image with a version of Kubernetes. An empty one is the version that the lab's programs were built of. The version is a
// stamp: a server that boots the image runs the same programs, whose kubelet says that it is of this version; so it may differ from theirs
// only in what is behind the patch version, as in v1.36.3+2.
func (r *Rack) Image(version string) Image {
	checksum := "sha256:" + sum(initrd(version))
	r.images.Store(checksum, version)
	base := "http://" + r.origin.Addr
	return Image{Kernel: base + "/kernel", KernelChecksum: "sha256:" + sum(kernel), Initrd: base + "/initrd?version=" + url.QueryEscape(version), InitrdChecksum: checksum}
}

// versionOf returns the version of Kubernetes on the image that a server got, by the checksums of its files.
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
