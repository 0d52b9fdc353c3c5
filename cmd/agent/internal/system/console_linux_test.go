package system

import (
	"bufio"
	"io"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestConsoleNames(t *testing.T) {
	NewWithT(t).Expect(consoleNames("tty0                 -WU (EC p  )    4:7\nttyS1                -W- (E  p a)    4:65\n\n")).To(Equal([]string{"tty0", "ttyS1"}))
}

// TestConsoles: a console that takes nothing keeps neither the text from the others, nor the agent from its work.
func TestConsoles(t *testing.T) {
	g := NewWithT(t)
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() {
			_ = r.Close()
			_ = w.Close()
		})
		return r, w
	}
	_, stuck := pipe()
	broken, closed := pipe()
	g.Expect(broken.Close()).To(Succeed())
	reader, works := pipe()
	c := &consoles{open: []*os.File{stuck, closed, works}, timeout: time.Second}
	lines := make(chan string)
	go func() {
		line, _ := bufio.NewReader(reader).ReadString('\n')
		lines <- line
	}()
	g.Expect(c.Write([]byte("first\n"))).To(Equal(6))
	g.Eventually(lines).Should(Receive(Equal("first\n")))
	g.Expect(c.open).To(Equal([]*os.File{stuck, works}), "nobody reads the other one")

	go func() { _, _ = io.Copy(io.Discard, reader) }()
	text := make([]byte, 1<<20) // more than a pipe holds
	g.Expect(c.Write(text)).To(Equal(len(text)))
	g.Expect(c.open).To(Equal([]*os.File{works}))
}
