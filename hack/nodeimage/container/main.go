// Command container makes a container image of programs, without a container engine and without a registry: an archive in the layout of the Open Container
// Initiative (OCI) with one layer, which containerd imports under its name. hack/nodeimage.sh runs it. The same programs give the same bytes.
//
//	container -name NAME:TAG -out FILE PROGRAM...
//
// Each program is in /usr/local/bin, and the first one is the entry point.
package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Media types of the image specification (OCI image-spec 1.1).
const (
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// folder is where the programs are in the image.
const folder = "usr/local/bin"

func main() {
	name := flag.String("name", "", "name and tag of the image")
	out := flag.String("out", "", "the archive to write")
	arch := flag.String("arch", "amd64", "architecture of the programs")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: container -name NAME:TAG -out FILE PROGRAM...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *name == "" || *out == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*name, *arch, *out, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "container:", err)
		os.Exit(1)
	}
}

// file is a file of an archive. A name that ends with a slash is a folder.
type file struct {
	name    string
	mode    int64
	content []byte
}

// descriptor refers to a blob of the layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// archive collects the files of an OCI layout.
type archive struct{ files []file }

func (a *archive) add(mediaType string, content []byte) descriptor {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	a.files = append(a.files, file{"blobs/sha256/" + digest, 0o644, content})
	return descriptor{MediaType: mediaType, Digest: "sha256:" + digest, Size: len(content)}
}

func (a *archive) addJSON(mediaType string, value any) (descriptor, error) {
	content, err := json.Marshal(value)
	return a.add(mediaType, content), err
}

func run(name, arch, out string, programs []string) error {
	content := []file{{"usr/", 0o755, nil}, {"usr/local/", 0o755, nil}, {folder + "/", 0o755, nil}}
	for _, path := range programs {
		program, err := os.ReadFile(path) //nolint:gosec // named on the command line
		if err != nil {
			return err
		}
		content = append(content, file{folder + "/" + filepath.Base(path), 0o755, program})
	}
	layer, err := pack(content)
	if err != nil {
		return err
	}
	a := &archive{}
	layerAt := a.add(typeLayer, layer)
	config, err := a.addJSON(typeConfig, map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/" + folder + "/" + filepath.Base(programs[0])}, "Env": []string{"PATH=/" + folder}},
		// The layer is not compressed, so both digests are equal.
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerAt.Digest}},
	})
	if err != nil {
		return err
	}
	manifest, err := a.addJSON(typeManifest, map[string]any{
		"schemaVersion": 2, "mediaType": typeManifest, "config": config, "layers": []descriptor{layerAt},
	})
	if err != nil {
		return err
	}
	manifest.Annotations = map[string]string{"io.containerd.image.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}})
	if err != nil {
		return err
	}
	packed, err := pack(append([]file{
		{"oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", 0o644, index}, {"blobs/", 0o755, nil}, {"blobs/sha256/", 0o755, nil},
	}, a.files...))
	if err != nil {
		return err
	}
	return os.WriteFile(out, packed, 0o644) //nolint:gosec // it has no secret
}

// pack writes files to a tar archive, all of root and of the same time.
func pack(files []file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: time.Unix(0, 0), Typeflag: tar.TypeReg}
		if f.name[len(f.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close() // writes the end of the archive
	return out.Bytes(), err
}
