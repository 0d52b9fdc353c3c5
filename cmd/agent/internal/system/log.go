// Package system is what an operating system does for the agent otherwise: file systems, the console, the parameters of the kernel, and the end of the
// server's work.
package system

import (
	"io"
	"sync"
)

// Log writes to a writer and keeps the end of what was written. It is safe for concurrent use.
type Log struct {
	// To gets everything. Its errors are ignored: a console that does not take the log must not end the agent.
	To io.Writer
	// Max is how many bytes Tail returns at most.
	Max int

	mu   sync.Mutex
	kept []byte
	// cut is true if kept is not everything: its first line may be a part of one.
	cut bool
}

// Write implements io.Writer. It never fails.
func (l *Log) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, text...)
	if len(l.kept) > 2*l.Max { // copied once for each Max bytes
		l.kept, l.cut = append([]byte(nil), l.kept[len(l.kept)-l.Max:]...), true
	}
	if l.To != nil {
		_, _ = l.To.Write(text)
	}
	return len(text), nil
}

// Tail returns the end of the log. It begins with a line, if a line ends in it.
func (l *Log) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.kept) <= l.Max && !l.cut {
		return string(l.kept)
	}
	tail := l.kept[max(len(l.kept)-l.Max, 0):]
	for i, c := range tail[:len(tail)-1] {
		if c == '\n' {
			return string(tail[i+1:])
		}
	}
	return string(tail)
}
