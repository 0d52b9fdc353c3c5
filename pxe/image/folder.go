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

	"k8s.io/utils/lru"

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

// maxFolders is how many folders a folders remembers. One entry has some hundred bytes.
const maxFolders = 1024

// folders opens the images in a folder. It remembers the description of each: an agent opens its image for each range that it requests, and a manifest has up to
// maxManifestFile bytes.
type folders struct {
	dir   string
	known *lru.Cache // from the name of a folder to *described
}

// described is the description of an image, and the manifest file that it was read from.
type described struct {
	file fs.FileInfo
	info Info
}

func newFolders(dir string) *folders { return &folders{dir: dir, known: lru.New(maxFolders)} }

// open opens the image with a key.
func (f *folders) open(key string) (*Opened, error) {
	d, err := f.describe(key)
	if err != nil {
		return nil, err
	}
	data, err := os.Open(filepath.Join(f.dir, key, dataName)) //nolint:gosec // made of a checked checksum
	if err != nil {
		return nil, err
	}
	if info, err := data.Stat(); err != nil || info.Size() != d.info.Header.Size {
		return nil, errors.Join(errDamaged, err, data.Close())
	}
	return &Opened{
		Manifest: func() ([]byte, error) { return f.manifest(key, d.info.ManifestDigest) }, Data: data, Modified: d.file.ModTime(), Info: d.info,
	}, nil
}

// describe returns the description of the image with a key. It decodes the manifest only if the file is another one than at the last call.
func (f *folders) describe(key string) (*described, error) {
	file, err := os.Stat(filepath.Join(f.dir, key, manifestName))
	if err != nil {
		f.known.Remove(key)
		return nil, err
	}
	if known, ok := f.known.Get(key); ok {
		was := known.(*described) //nolint:forcetypeassert // nothing else is put in
		if os.SameFile(was.file, file) && was.file.Size() == file.Size() && was.file.ModTime().Equal(file.ModTime()) {
			return was, nil
		}
	}
	encoded, err := f.manifest(key, "")
	if err != nil {
		return nil, err
	}
	m, err := manifest.Decode(encoded)
	if err != nil {
		return nil, err
	}
	d := &described{file, Info{ManifestDigest: manifest.DigestOf(encoded), Header: m.Header, DataBytes: m.DataBytes()}}
	f.known.Add(key, d)
	return d, nil
}

// manifest reads the encoded manifest of the image with a key, which must have the digest if that is not empty.
func (f *folders) manifest(key, want string) ([]byte, error) {
	raw, err := readFile(filepath.Join(f.dir, key, manifestName))
	if err != nil {
		return nil, err
	}
	recorded, encoded, _ := bytes.Cut(raw, []byte("\n"))
	if digest := manifest.DigestOf(encoded); digest != string(recorded) || want != "" && digest != want {
		return nil, errDamaged
	}
	return encoded, nil
}

// readFile reads a file with a bounded size.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // made of a checked checksum
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || info.Size() > maxManifestFile {
		return nil, errors.Join(errDamaged, err)
	}
	return io.ReadAll(f)
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
	opened, err := s.folders.open(entry.Name())
	if err != nil {
		return 0, used, err
	}
	encoded, err := opened.Manifest()
	return opened.Info.DataBytes + int64(len(encoded)) + folderBytes, info.ModTime(), errors.Join(err, opened.Close())
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
func (s *Service) verify(ctx context.Context, j *job) error {
	leave, err := s.conversions.Enter(ctx, origin.LimitKey{Namespace: j.namespace})
	if err != nil {
		return err
	}
	defer leave()
	if _, ok := s.use(j.namespace, j.key); ok { // another job verified it meanwhile
		return nil
	}
	opened, err := s.folders.open(j.key)
	if err != nil {
		return err
	}
	defer func() { _ = opened.Close() }()
	encoded, err := opened.Manifest()
	if err != nil {
		return err
	}
	m, err := manifest.Decode(encoded)
	if err != nil {
		return err
	}
	if err := verifyData(ctx, m, opened.Data, &j.progress); err != nil {
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
