package pxe

import (
	"bytes"
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// countedFile counts how often it is closed.
type countedFile struct {
	io.ReadSeeker

	closed int
}

func (f *countedFile) Close() error {
	f.closed++
	return nil
}

func newCountedFile(size int) *countedFile {
	return &countedFile{ReadSeeker: bytes.NewReader(make([]byte, size))}
}

// TestIdleFiles: a file has one reader at a time, few stay open, and after a minute without a reader none does.
func TestIdleFiles(t *testing.T) {
	g := NewWithT(t)
	i, one, other := newIdleFiles(), idleKey{&mediaLayout{}, 0}, idleKey{&mediaLayout{}, 0}
	g.Expect(i.take(one)).To(BeNil())
	first, second := newCountedFile(1), newCountedFile(1)
	i.put(one, first)
	i.put(one, second)
	g.Expect(i.take(other)).To(BeNil(), "each medium has its own files")
	g.Expect(i.take(one)).To(BeIdenticalTo(second), "the last used one")
	g.Expect(i.take(one)).To(BeIdenticalTo(first))
	g.Expect(i.take(one)).To(BeNil())
	g.Expect(i.files).To(BeEmpty())

	files := make([]*countedFile, maxIdleFiles+3)
	closed := func() (n int) {
		for _, f := range files {
			n += f.closed
		}
		return n
	}
	for n := range files {
		files[n] = newCountedFile(1)
		i.put(idleKey{&mediaLayout{}, n}, files[n])
	}
	g.Expect(closed()).To(Equal(3), "there are too many")
	g.Expect(i.expired(time.Now())).To(BeEmpty())
	for _, file := range i.expired(time.Now().Add(idleFileTime)) {
		g.Expect(file.Close()).To(Succeed())
	}
	g.Expect(closed()).To(Equal(len(files)))
	g.Expect(i.files).To(BeEmpty())
	g.Expect(i.count).To(BeZero())
	g.Expect(i.sweeping).To(BeFalse(), "nothing is scheduled without files")
}

// TestMediaFile: a file is opened when it is read, once for several requests, and again if it was changed where it is.
func TestMediaFile(t *testing.T) {
	g := NewWithT(t)
	idle, key := newIdleFiles(), idleKey{&mediaLayout{}, 0}
	var opened []*countedFile
	request := func() *mediaFile {
		return &mediaFile{size: 5, idle: idle, key: key, open: func() (io.ReadSeekCloser, error) {
			opened = append(opened, newCountedFile(5))
			return opened[len(opened)-1], nil
		}}
	}
	unread := request()
	unread.close()
	g.Expect(opened).To(BeEmpty())
	for range 3 {
		f := request()
		g.Expect(f.ensure()).To(Succeed())
		g.Expect(f.ensure()).To(Succeed())
		f.close()
	}
	g.Expect(opened).To(HaveLen(1))
	g.Expect(opened[0].closed).To(BeZero())
	opened[0].ReadSeeker = bytes.NewReader(make([]byte, 4))
	f := request()
	g.Expect(f.ensure()).To(Succeed())
	g.Expect(opened).To(HaveLen(2))
	g.Expect(opened[0].closed).To(Equal(1))
	f.close()
	f = request()
	f.size = 6
	g.Expect(f.ensure()).To(MatchError(errMediaChanged))
	f.close()
	for _, file := range opened {
		g.Expect(file.closed).To(Equal(1))
	}
	g.Expect(idle.count).To(BeZero())
}
