package main

import (
	"bytes"
	"encoding/json"
	"errors"
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
	about  string
	packed v1.Layer
}

// pack makes a layer of files.
func pack(about string, files *tree, date time.Time) (layer, error) {
	var content bytes.Buffer
	if err := files.write(&content, date); err != nil {
		return layer{}, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	packed, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	return layer{about, packed}, err
}

// platformImage is the image of an architecture.
type platformImage struct {
	arch  string
	image v1.Image
}

// assemble makes an image of layers.
func assemble(o *options, arch string, layers []layer) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, l := range layers {
		var err error
		img, err = mutate.Append(img, mutate.Addendum{Layer: l.packed, History: v1.History{
			Created: v1.Time{Time: o.date()}, CreatedBy: "hack/image", Comment: l.about,
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
	file.Created, file.Architecture, file.OS = v1.Time{Time: o.date()}, arch, "linux"
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", user, user),
		Entrypoint: []string{"/manager"},
		Env:        []string{"PATH=/usr/sbin:/usr/bin", "HOME=/tmp"},
		WorkingDir: "/",
		Labels:     labels(o),
	}
	return mutate.ConfigFile(img, file)
}

// labels are the annotations that the image specification names.
func labels(o *options) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":         "cluster-api-provider-baremetal",
		prefix + "description":   "Cluster API infrastructure provider for physical servers",
		prefix + "source":        source,
		prefix + "documentation": source + "/blob/" + o.revision + "/docs/reference/release-files.md",
		prefix + "revision":      o.revision,
		prefix + "version":       o.version,
		prefix + "created":       o.date().Format(time.RFC3339),
		prefix + "licenses":      "Apache-2.0",
	}
}

// writeArchive writes an OCI image layout with one entry, which is the image or the index of several. It returns the entry's digest. The archive of one image
// also has the list that `docker load` needs before version 25.
func writeArchive(images []platformImage, o *options) (string, error) {
	folder, err := os.MkdirTemp("", "capbm-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // it is a temporary one
	path, err := layout.Write(folder, empty.Index)
	if err != nil {
		return "", err
	}
	named := layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": o.name[strings.LastIndexByte(o.name, ':')+1:], // skopeo, podman
		"io.containerd.image.name":          o.name,                                        // ctr, docker
	})
	var digest v1.Hash
	if len(images) == 1 {
		digest, err = appendImage(path, images[0], o, named)
	} else {
		digest, err = appendIndex(path, images, o, named)
	}
	if err != nil {
		return "", err
	}
	return digest.String(), writeFolder(folder, o.output, o.date())
}

func platform(arch string) *v1.Platform { return &v1.Platform{OS: "linux", Architecture: arch} }

func appendImage(to layout.Path, p platformImage, o *options, named layout.Option) (v1.Hash, error) {
	if err := to.AppendImage(p.image, layout.WithPlatform(*platform(p.arch)), named); err != nil {
		return v1.Hash{}, err
	}
	if err := writeDockerList(p.image, o, string(to)); err != nil {
		return v1.Hash{}, err
	}
	return p.image.Digest()
}

func appendIndex(to layout.Path, images []platformImage, o *options, named layout.Option) (v1.Hash, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: p.image, Descriptor: v1.Descriptor{Platform: platform(p.arch)}})
	}
	// Registries show the annotations of the index.
	annotated, ok := mutate.Annotations(index, labels(o)).(v1.ImageIndex)
	if !ok {
		return v1.Hash{}, errors.New("an index with annotations is no index any more")
	}
	if err := to.AppendIndex(annotated, named); err != nil {
		return v1.Hash{}, err
	}
	return annotated.Digest()
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
