package bundle

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"strings"
)

const (
	// MaxLogLines is how many lines of each log are kept: the last ones.
	MaxLogLines = 5000
	// maxLogLine is the maximum length of a line, in bytes. A longer one is cut.
	maxLogLine = 16 << 10
)

// Words returns the pattern that finds these names as whole words: server-1 is not found in server-10.
func Words(names ...string) *regexp.Regexp {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		if name != "" {
			quoted = append(quoted, regexp.QuoteMeta(name))
		}
	}
	return regexp.MustCompile(`(?:^|[^-.\w])(?:` + strings.Join(quoted, "|") + `)(?:$|[^-.\w]|\.(?:$|\s))`)
}

// Lines returns the last lines of a log that match, as one text.
func Lines(log io.Reader, match *regexp.Regexp) ([]byte, error) {
	reader := bufio.NewReaderSize(log, maxLogLine)
	var kept [][]byte
	for {
		line, err := reader.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		if match.Match(line) {
			kept = append(kept, append(bytes.TrimRight(bytes.Clone(line), "\r\n"), '\n'))
			if len(kept) > MaxLogLines {
				kept = kept[1:]
			}
		}
		for long { // the rest of a long line
			_, err = reader.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if errors.Is(err, io.EOF) {
			return bytes.Join(kept, nil), nil
		}
		if err != nil {
			return bytes.Join(kept, nil), err
		}
	}
}
