package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// ask asks a person, and returns the answer without white space around it. It ends when ctx does, so that an interrupt ends the program at the question.
func (t *tool) ask(ctx context.Context, question string) (string, error) {
	view.Printf(t.streams.ErrOut, "%s ", question)
	if t.answers == nil {
		t.answers = bufio.NewReader(t.streams.In)
	}
	type answer struct {
		text string
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		text, err := t.answers.ReadString('\n')
		if errors.Is(err, io.EOF) && text != "" {
			err = nil
		}
		answered <- answer{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-answered:
		if errors.Is(a.err, io.EOF) {
			return "", usageErrorf("the input ended before the question was answered: nothing was changed")
		}
		return strings.TrimSpace(a.text), a.err
	}
}

// askReason returns the reason of a change: that of the flag, or the answer of a person.
func (t *tool) askReason(ctx context.Context, flag string) (string, error) {
	reason := terminal.Line(flag)
	if reason == "" && t.interactive {
		answer, err := t.ask(ctx, "Reason:")
		if err != nil {
			return "", err
		}
		reason = terminal.Line(answer)
	}
	if reason == "" {
		return "", usageErrorf("a change needs a reason, which other users read: use --reason TEXT")
	}
	return reason, nil
}

// consentFlags are the flags by which a program gives its consent.
type consentFlags struct {
	yes     bool
	claimed string // the name of a host, whose server runs a machine
	hosts   int    // the number of selected hosts
}

// askConsent returns nil if the user consents. word is what the user has to type; empty for a yes. given is true if a flag has given the consent. without says which flag does.
func (t *tool) askConsent(ctx context.Context, word string, given bool, without string) error {
	if given {
		return nil
	}
	if !t.interactive {
		return usageErrorf("nothing was changed: a person has to consent. Without a terminal, use %s", without)
	}
	question, accepted := "Continue? [y/N]", []string{"y", "yes"}
	if word != "" {
		question, accepted = "Type "+terminal.Line(word)+" to continue:", []string{word}
	}
	answer, err := t.ask(ctx, question)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(accepted, func(text string) bool { return strings.EqualFold(answer, text) }) {
		return nil
	}
	return &exitError{exitFault, errors.New("nothing was changed")}
}
