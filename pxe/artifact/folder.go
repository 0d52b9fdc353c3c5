package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errRevoked ends the fetch of a namespace that uses more than its share when another namespace needs the space.
var errRevoked = errors.New("it gave way to the files of another namespace because the cache is full: raise artifacts.maxSize of the boot server's configuration file")

// fullError returns the error for a file that does not fit.
func fullError(maxBytes int64) error {
	return fmt.Errorf("the cache may have %d bytes, and has no room for it beside what servers boot now; or the namespace has used its share: "+
		"raise artifacts.maxSize of the boot server's configuration file", maxBytes)
}

// loadDir reads the folder, and deletes the incomplete files of an earlier process.
func (c *Cache) loadDir() error {
	entries, err := os.ReadDir(c.opts.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(c.opts.Dir, entry.Name())
		if strings.HasPrefix(entry.Name(), partialPrefix) {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() {
			c.space.Found(path, info.Size(), info.ModTime())
		}
	}
	return nil
}

// remove deletes a file. A file that is not there is no error.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
