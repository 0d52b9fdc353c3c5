package system_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestWaitForever: a program without cgo, as the agent is, does not end when none of its goroutines can run again.
func TestWaitForever(t *testing.T) {
	g := NewWithT(t)
	program := filepath.Join(t.TempDir(), "waits")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/waits")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	child := exec.CommandContext(t.Context(), program)
	said, err := child.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(child.Start()).To(Succeed())
	_, err = io.ReadFull(said, make([]byte, len("waiting\n")))
	g.Expect(err).NotTo(HaveOccurred())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	g.Consistently(ended, time.Second).ShouldNot(Receive())
	g.Expect(child.Process.Kill()).To(Succeed())
	g.Eventually(ended, time.Minute).Should(Receive())
}
