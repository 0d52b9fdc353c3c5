package pxe

import (
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxIdleFiles is how many files of boot media stay open without being read.
	maxIdleFiles = 256
	// idleFileTime is how long such a file stays open. A file that the cache has deleted takes its space on the disk for as long.
	idleFileTime = time.Minute
	// idleSweepInterval is how often the files that stayed open for too long are closed.
	idleSweepInterval = 15 * time.Second
)

// idleFiles are files of boot media that stay open between two requests: a BMC reads a medium in thousands of ranges, one after the other. Each is used by one request at
// a time, because the kernel sends a file from its offset. A medium keeps its own files, so that it does not change while a server reads it.
type idleFiles struct {
	mu       sync.Mutex
	files    map[idleKey][]idleFile // the last one was used last
	count    int
	sweeping bool // a sweep is scheduled
}

// idleKey is a file of a medium by its number in the medium.
type idleKey struct {
	medium *mediaLayout
	number int
}

type idleFile struct {
	file  io.ReadSeekCloser
	since time.Time
}

func newIdleFiles() *idleFiles { return &idleFiles{files: map[idleKey][]idleFile{}} }

// take returns a file that no other request uses; nil while others use all of them.
func (i *idleFiles) take(key idleKey) io.ReadSeekCloser {
	i.mu.Lock()
	defer i.mu.Unlock()
	files := i.files[key]
	if len(files) == 0 {
		return nil
	}
	last := len(files) - 1
	taken := files[last].file
	files[last] = idleFile{} // for the garbage collector
	i.keep(key, files[:last])
	i.count--
	return taken
}

// keep sets the files of a key. i.mu is held.
func (i *idleFiles) keep(key idleKey, files []idleFile) {
	if len(files) == 0 {
		delete(i.files, key)
		return
	}
	i.files[key] = files
}

// put keeps a file for the next request, or closes it if there are too many.
func (i *idleFiles) put(key idleKey, file io.ReadSeekCloser) {
	if !i.add(key, file) {
		_ = file.Close() // it was only read
	}
}

func (i *idleFiles) add(key idleKey, file io.ReadSeekCloser) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.count >= maxIdleFiles {
		return false
	}
	i.files[key] = append(i.files[key], idleFile{file, time.Now()})
	i.count++
	if !i.sweeping {
		i.sweeping = true
		time.AfterFunc(idleSweepInterval, i.sweep)
	}
	return true
}

// sweep closes the files that stayed open for too long.
func (i *idleFiles) sweep() {
	for _, file := range i.expired(time.Now()) {
		_ = file.Close() // it was only read
	}
}

// expired removes the files that stayed open for too long, and schedules the next sweep if there are others.
func (i *idleFiles) expired(now time.Time) []io.Closer {
	i.mu.Lock()
	defer i.mu.Unlock()
	var old []io.Closer
	for key, files := range i.files {
		i.keep(key, slices.DeleteFunc(files, func(f idleFile) bool {
			isOld := now.Sub(f.since) >= idleFileTime
			if isOld {
				old = append(old, f.file)
			}
			return isOld
		}))
	}
	i.count -= len(old)
	if i.sweeping = i.count > 0; i.sweeping {
		time.AfterFunc(idleSweepInterval, i.sweep)
	}
	return old
}
