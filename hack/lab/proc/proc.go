// Package proc runs the programs of the lab, each with its own log file, and ends them by their process ID.
package proc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Process is a running program.
type Process struct {
	name string
	log  string
	done chan struct{}
	err  error
	cmd  *exec.Cmd
}

// Start runs a program in the background until ctx ends or Stop is called. It appends to NAME.log in the folder dir.
func Start(ctx context.Context, dir, name string, env []string, program string, args ...string) (*Process, error) {
	path := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // in the lab's own folder
	if err != nil {
		return nil, err
	}
	p := &Process{name: name, log: path, done: make(chan struct{}), cmd: exec.CommandContext(ctx, program, args...)} //nolint:gosec // the lab's own programs
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	// A Ctrl-C in the terminal must reach only the lab, which ends its programs in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = 10 * time.Second
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	go func() {
		p.err = errors.Join(p.cmd.Wait(), log.Close())
		close(p.done)
	}()
	return p, nil
}

// Stop ends the program and waits for its end.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// Again starts a program that has ended once more, with the same arguments.
func (p *Process) Again(ctx context.Context) (*Process, error) {
	return Start(ctx, filepath.Dir(p.log), p.name, p.cmd.Env, p.cmd.Path, p.cmd.Args[1:]...)
}

// Kill kills the program as a crash does, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.done
}

// Signal sends the program a signal.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Pid returns the program's process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until ready is nil. It returns an error when the program ends before, or at the timeout.
func (p *Process) Wait(ctx context.Context, timeout time.Duration, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %w; the end of %s:\n%s", p.name, p.err, p.log, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; the end of %s:\n%s", p.name, err, p.log, p.tail())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (p *Process) tail() string {
	content, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// Run runs a program to its end, and returns what it printed.
func Run(ctx context.Context, env []string, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // the lab's own programs
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Healthy returns a check that an HTTP or HTTPS URL answers 200.
func Healthy(url string) func(context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the lab's own, on loopback
	}}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", url, response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}
}
