// Command fetch takes release binaries of other projects from their download hosts, or from a mirror. It installs what has the checksum of
// hack/downloads.sha256, and nothing else. hack/build.sh runs it, and builds what it reports as failed. It needs only the standard library:
// a first run compiles it before anything else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	os.Exit(run())
}

// run returns the exit code. A download that fails is a line of the output, and no error.
func run() int {
	sums := flag.String("sums", "", "file with the checksums")
	into := flag.String("into", "", "folder to install programs into")
	mirror := flag.String("mirror", "", "base URL of a mirror that serves the paths of the checksums")
	probe := flag.Bool("probe", false, "attempt once to reach the server of PATH")
	hash := flag.Bool("hash", false, "print the checksum and the path of each PATH, without a check")
	show := flag.Bool("print", false, "print the content of each PATH, without a check")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: fetch -sums FILE -into FOLDER [-mirror URL] NAME=PATH[!MEMBER]...\n       fetch -probe|-hash|-print [-mirror URL] PATH...")
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	f := newFetcher(*mirror, *into)
	var err error
	switch {
	case *probe:
		err = f.probe(ctx, flag.Arg(0))
	case *hash || *show:
		for _, path := range flag.Args() {
			err = errors.Join(err, f.inspect(ctx, path, *show))
		}
	case *sums != "" && *into != "":
		err = f.all(ctx, *sums, flag.Args())
	default:
		flag.Usage()
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetch:", err)
		return 1
	}
	return 0
}

// all fetches the programs one after the other and prints a line for each: its name, a tab, and "ok" or why it failed.
func (f *fetcher) all(ctx context.Context, sums string, wanted []string) error {
	known, err := readSums(sums)
	if err != nil {
		return err
	}
	down := map[string]error{}
	for _, want := range wanted {
		p, err := parseProgram(want, known)
		if err != nil {
			return err
		}
		host, _, _ := strings.Cut(p.path, "/")
		err = down[host]
		if err == nil {
			err = f.install(ctx, p)
		}
		var broken *connectionError
		if errors.As(err, &broken) {
			down[host] = err // a host that fails costs its time limit once
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		outcome := "ok"
		if err != nil {
			outcome = strings.ReplaceAll(err.Error(), "\n", " ")
		}
		fmt.Printf("%s\t%s\n", p.name, outcome)
	}
	return nil
}
