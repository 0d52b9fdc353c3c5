package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// A complete image is a folder that has the checksum as its name. It has the file data, and the file manifest: the digest of the encoded manifest, a line feed,
// and the encoded manifest. A folder gets its name when both are on the disk.

const (
	// maxManifestFile bounds the file with the manifest, in bytes: a disk of manifest.MaxSize is never stored, and one of 4 TiB full of data needs 130 MiB.
	maxManifestFile = 256 << 20
	// folderBytes is what the folder of an image counts beside its data and its manifest.
	folderBytes = 16 << 10
)

// errDamaged means that the files of an image are not as they were written.
var errDamaged = errors.New("the image on the disk is damaged")

// openFolder opens the image in a folder of dir.
func openFolder(dir, key string) (*Opened, error) {
	folder := filepath.Join(dir, key)
	raw, modified, err := readFile(filepath.Join(folder, manifestName))
	if err != nil {
		return nil, err
	}
	digest, encoded, _ := bytes.Cut(raw, []byte("\n"))
	if manifest.DigestOf(encoded) != string(digest) {
		return nil, errDamaged
	}
	m, err := manifest.Decode(encoded)
	if err != nil {
		return nil, err
	}
	data, err := os.Open(filepath.Join(folder, dataName)) //nolint:gosec // made of a checked checksum
	if err != nil {
		return nil, err
	}
	if info, err := data.Stat(); err != nil || info.Size() != m.Size {
		return nil, errors.Join(errDamaged, err, data.Close())
	}
	return &Opened{
		Manifest: encoded, Data: data, Modified: modified,
		Info: Info{ManifestDigest: string(digest), Header: m.Header, DataBytes: m.DataBytes()},
	}, nil
}

// readFile reads a file with a bounded size.
func readFile(path string) (content []byte, modified time.Time, err error) {
	f, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		return nil, modified, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() > maxManifestFile {
		return nil, modified, errors.Join(errDamaged, err)
	}
	content, err = io.ReadAll(f)
	return content, info.ModTime(), err
}

// loadDir reads the folder, and deletes the incomplete images of an earlier process.
func (s *Service) loadDir() error {
	if err := os.MkdirAll(s.opts.Dir, 0o755); err != nil { //nolint:gosec // the boot server reads it
		return err
	}
	entries, err := os.ReadDir(s.opts.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		kind, digest, _ := strings.Cut(entry.Name(), "-")
		size, used, err := s.found(entry)
		if _, parseErr := origin.ParseChecksum(kind + ":" + digest); parseErr != nil || err != nil {
			// What is neither complete nor incomplete, such as lost+found, is not ours.
			if !strings.HasPrefix(entry.Name(), partialPrefix) && parseErr != nil {
				continue
			}
			if err := os.RemoveAll(filepath.Join(s.opts.Dir, entry.Name())); err != nil {
				return err
			}
			continue
		}
		s.space.Found(entry.Name(), size, used)
	}
	return s.space.Trim()
}

// found returns the size and the last use of an image that an earlier process left.
func (s *Service) found(entry fs.DirEntry) (size int64, used time.Time, err error) {
	info, err := entry.Info()
	if err != nil {
		return 0, used, err
	}
	opened, err := openFolder(s.opts.Dir, entry.Name())
	if err != nil {
		return 0, used, err
	}
	return imageBytes(opened), info.ModTime(), opened.Close()
}

// imageBytes is what a complete image counts.
func imageBytes(o *Opened) int64 {
	return o.Info.DataBytes + int64(len(o.Manifest)) + folderBytes
}

// touch records the last use for the next process. The folder may be deleted already.
func (s *Service) touch(key string) {
	now := time.Now()
	_ = os.Chtimes(filepath.Join(s.opts.Dir, key), now, now)
}

// delete deletes a complete image. It gets the name of an incomplete one first, so that a half deleted image never has the name of a complete one.
func (s *Service) delete(key string) error {
	s.mu.Lock()
	delete(s.ready, key)
	s.mu.Unlock()
	gone, err := os.MkdirTemp(s.opts.Dir, partialPrefix)
	if err != nil {
		return err
	}
	err = os.Rename(filepath.Join(s.opts.Dir, key), filepath.Join(gone, key))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(gone))
}

// verify reads an image that an earlier process left, and makes it ready.
func (s *Service) verify(j *job) error {
	leave, err := s.conversions.Enter(s.ctx, origin.Lane{Namespace: j.namespace})
	if err != nil {
		return err
	}
	defer leave()
	opened, err := openFolder(s.opts.Dir, j.key)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	m, err := manifest.Decode(opened.Manifest)
	if err != nil {
		return err
	}
	if err := verifyData(s.ctx, m, opened.Data, &j.progress); err != nil {
		return err
	}
	s.setReady(j.key, opened.Info)
	s.space.Verified(j.namespace, j.key)
	return nil
}

func (s *Service) setReady(key string, info Info) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[key] = info
}

// verifyData compares the data with the manifest.
func verifyData(ctx context.Context, m *manifest.Manifest, data io.ReaderAt, p *progress) error {
	chunk := make([]byte, manifest.ChunkSize)
	zeros := make([]byte, manifest.ChunkSize)
	for c := range m.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.set(Verifying, c.Offset, m.Size)
		content := chunk[:c.Length]
		if _, err := data.ReadAt(content, c.Offset); err != nil {
			return err
		}
		if c.Hole && !bytes.Equal(content, zeros[:c.Length]) || !c.Hole && sha256.Sum256(content) != c.Digest {
			return fmt.Errorf("%w: chunk %d differs", errDamaged, c.Index)
		}
	}
	return nil
}
