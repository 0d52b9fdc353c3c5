// Command recording makes an animated SVG of what a program prints: `make demo | recording > demo.svg`. Lines appear as they came; longer pauses are cut.
package main

import (
	"bufio"
	"fmt"
	"os"
	"time"
)

func main() {
	command := "make demo"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	var lines []line
	last := time.Now()
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		fmt.Fprintln(os.Stderr, scanner.Text()) // the user sees the output, too
		now := time.Now()
		lines = append(lines, line{after: now.Sub(last), text: scanner.Text()})
		last = now
	}
	if err := scanner.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
	if err := write(os.Stdout, command, lines); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}
