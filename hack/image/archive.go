package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// layer is a part of the image.
type layer struct {
	about string
	files *tree
}

// assemble makes an image from layers.
func assemble(o *options, layers []layer, date time.Time) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range layers {
		var content bytes.Buffer
		if err := l.files.write(&content, date); err != nil {
			return nil, err
		}
		opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
		packed, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: packed, History: v1.History{
			Created: v1.Time{Time: date}, CreatedBy: "hack/image", Comment: l.about,
		}})
		if err != nil {
			return nil, err
		}
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Created, file.Architecture, file.OS = v1.Time{Time: date}, o.arch, "linux"
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/manager"},
		Env:        []string{"PATH=/usr/sbin:/usr/bin", "HOME=/tmp"},
		WorkingDir: "/",
		Labels:     labels(o, date),
	}
	return mutate.ConfigFile(img, file)
}

// labels are the annotations that the image specification names.
func labels(o *options, date time.Time) map[string]string {
	const source = "https://github.com/capbm-io/cluster-api-provider-baremetal"
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":         "cluster-api-provider-baremetal",
		prefix + "description":   "Cluster API infrastructure provider for physical servers",
		prefix + "source":        source,
		prefix + "documentation": source + "/blob/" + o.revision + "/docs/reference/release-files.md",
		prefix + "revision":      o.revision,
		prefix + "version":       o.version,
		prefix + "created":       date.Format(time.RFC3339),
		prefix + "licenses":      "Apache-2.0",
	}
}

// writeArchive writes the image and returns the digest of its manifest. The archive is an OCI image layout. It also has the list that `docker load` needs
// before version 25.
func writeArchive(img v1.Image, o *options, date time.Time) (string, error) {
	folder, err := os.MkdirTemp("", "capbm-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // it is a temporary one
	index, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	tag := o.name[strings.LastIndexByte(o.name, ':')+1:]
	err = index.AppendImage(img, layout.WithPlatform(v1.Platform{OS: "linux", Architecture: o.arch}), layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,    // skopeo, podman
		"io.containerd.image.name":          o.name, // ctr, docker
	}))
	if err != nil {
		return "", err
	}
	if err := writeDockerList(img, o, folder); err != nil {
		return "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", err
	}
	return digest.String(), writeFolder(folder, o.output, date)
}

// writeDockerList writes manifest.json, which lists the parts of an image for versions of Docker that do not read the layout.
func writeDockerList(img v1.Image, o *options, folder string) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	list := tarball.Manifest{{Config: blob(manifest.Config.Digest), RepoTags: []string{o.name}}}
	for _, l := range manifest.Layers {
		list[0].Layers = append(list[0].Layers, blob(l.Digest))
	}
	content, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "manifest.json"), content, 0o600)
}

// writeFolder writes the files of a folder as a tar archive. The archive appears when it is complete.
func writeFolder(folder, output string, date time.Time) error {
	files := newTree()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		return files.copy(filepath.ToSlash(name), path, 0o644)
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil { //nolint:gosec // everybody may read the result
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(output), ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) //nolint:errcheck // it was usually renamed before
	err = files.write(temporary, date)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(temporary.Name(), 0o644) //nolint:gosec // everybody may read the result
	}
	if err != nil {
		return err
	}
	return os.Rename(temporary.Name(), output)
}
