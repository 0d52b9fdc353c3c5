package pxetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxChains bounds how often a script may chain to another one.
const maxChains = 100

// runScript runs the scripts that this project writes as iPXE does. Any other command is an error.
func (f *Firmware) runScript(ctx context.Context, s *System, url string) error {
	var content []byte
	for range maxChains {
		var err error
		content, err = get(ctx, s.client, url)
		if err != nil {
			return fmt.Errorf("fetch the script: %w", err)
		}
		lines := strings.Split(string(content), "\n")
		if lines[0] != "#!ipxe" {
			return fmt.Errorf("no iPXE script: %.100q", content)
		}
		next, err := f.runLines(ctx, s, lines[1:])
		if err != nil || next == "" {
			return err
		}
		url = next
	}
	return fmt.Errorf("the scripts chain without end; the last one is %q", content)
}

// runLines runs a script, and returns the URL that it chains to.
func (f *Firmware) runLines(ctx context.Context, s *System, lines []string) (string, error) {
	for _, line := range lines {
		line, _, _ = strings.Cut(line, " || ")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "echo":
		case "sleep":
			seconds, err := strconv.Atoi(words[1])
			if err != nil {
				return "", err
			}
			select {
			case <-time.After(time.Duration(seconds) * time.Second):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		case "chain":
			return words[len(words)-1], nil
		case "exit", "sanboot":
			s.Disk = true
			return "", nil
		case "kernel", "initrd":
			if err := f.load(ctx, s, words); err != nil {
				return "", err
			}
		case "boot":
			if len(s.Files) == 0 {
				return "", errors.New("boot without a kernel")
			}
			return "", nil
		default:
			return "", fmt.Errorf("unknown command: %s", line)
		}
	}
	return "", errors.New("the script ends without booting")
}

// load fetches a kernel or an initrd: COMMAND --name NAME URL [ARGUMENT...].
func (f *Firmware) load(ctx context.Context, s *System, words []string) error {
	if len(words) < 4 || words[1] != "--name" {
		return fmt.Errorf("unknown form: %v", words)
	}
	if words[0] == "kernel" {
		f.stage("script")
		s.CommandLine = strings.Join(words[4:], " ")
	}
	content, err := get(ctx, s.client, words[3])
	if err == nil && words[0] == "kernel" {
		content, err = unzipped(content)
	}
	if err != nil {
		return fmt.Errorf("fetch the %s: %w", words[0], err)
	}
	s.Files = append(s.Files, checksum(content))
	return nil
}
