package format

import (
	"bufio"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/therootcompany/xz"
)

// Bounds on the memory of the decoders: what the tools that made a file let it demand of its reader without a special option.
const (
	// maxXZDictionary is the dictionary of xz -9.
	maxXZDictionary = 64 << 20
	// maxZSTDWindow is the largest window that the zstd tool decompresses without --memory or --long=28 and more.
	maxZSTDWindow = 128 << 20
	// readBuffer is how much of a compressed file is read at a time.
	readBuffer = 256 << 10
)

// Decompress returns the content of a compressed file. An error that the content causes is an *InvalidError. An error of from is returned as it is.
func Decompress(ctx context.Context, kind Kind, from io.Reader) (io.ReadCloser, error) {
	in := &input{ctx: ctx, from: from}
	buffered := bufio.NewReaderSize(in, readBuffer)
	out := &decoded{kind: kind, in: in, close: func() {}}
	var err error
	switch kind {
	case GZIP:
		out.from, err = gzip.NewReader(buffered)
	case XZ:
		out.from, err = xz.NewReader(buffered, maxXZDictionary)
	case ZSTD:
		var decoder *zstd.Decoder
		// Concurrency 1 decodes in the calling goroutine: several decoders would each have buffers of the window's size.
		decoder, err = zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZSTDWindow))
		if err == nil {
			out.from, out.close = decoder, decoder.Close
		}
	case BZIP2:
		out.from = bzip2.NewReader(buffered)
	case Raw, QCOW2:
		return nil, fmt.Errorf("%s is not compressed", kind)
	}
	if err != nil {
		return nil, out.classify(err)
	}
	return out, nil
}

// input ends when its context does, and remembers its error.
type input struct {
	ctx  context.Context //nolint:containedctx // io.Reader has no parameter for it
	from io.Reader
	err  error
}

func (i *input) Read(p []byte) (int, error) {
	if i.err = i.ctx.Err(); i.err != nil {
		return 0, i.err
	}
	n, err := i.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		i.err = err
	}
	return n, err
}

// decoded distinguishes the errors of a decoder from those of its input.
type decoded struct {
	kind  Kind
	in    *input
	from  io.Reader
	close func()
}

func (d *decoded) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = d.classify(err)
	}
	return n, err
}

func (d *decoded) Close() error {
	d.close()
	return nil
}

func (d *decoded) classify(err error) error {
	switch {
	case d.in.err != nil:
		return d.in.err
	case errors.Is(err, xz.ErrMemlimit):
		return invalid("the xz file needs a dictionary of more than %d bytes: compress it with xz -9 or less", maxXZDictionary)
	case errors.Is(err, zstd.ErrWindowSizeExceeded), errors.Is(err, zstd.ErrDecoderSizeExceeded): // the latter for a frame without a window, whose content is the window
		return invalid("the zstd file needs a window of more than %d bytes: compress it without --long, or with --long=27 at most", maxZSTDWindow)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return invalid("the %s file is truncated", d.kind)
	default:
		return invalid("the %s file is damaged: %.200s", d.kind, err.Error())
	}
}
