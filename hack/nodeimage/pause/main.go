// Command pause is the first process of a Pod: it keeps the namespaces of the Pod, reaps its orphans, and ends with a signal. The container image that
// hack/nodeimage.sh makes of it stands in for registry.k8s.io/pause where no registry can be reached.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap takes the exit status of all children that have ended. One signal may stand for several.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return // none is left
		}
	}
}
