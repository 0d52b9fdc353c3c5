package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// progressInterval is the time between two reads of the BareMetalBoots.
const progressInterval = 300 * time.Millisecond

// agents prints what the agents do, as the BareMetalBoots show it.
type agents struct {
	report  *printer
	printed map[string]string // the last line of each host
	writing bool              // a line had the progress of an image
}

// writingLine matches a line with the progress of an image that an agent writes.
var writingLine = regexp.MustCompile(`: Writing \d+ %`)

// errNoProgress means that the BareMetalBoots showed no progress of an image.
var errNoProgress = errors.New(`no agent showed the progress of its image: no line had "Writing ... %"`)

// watchAgents prints the progress of the agents until the returned function is called. An error ends the demo. The function returns errNoProgress if no progress
// of an image was printed.
func watchAgents(ctx context.Context, report *printer, p *plane.Plane, fail context.CancelCauseFunc) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	a := &agents{report: report, printed: map[string]string{}}
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := a.print(ctx, p); err != nil && ctx.Err() == nil {
				fail(fmt.Errorf("read the BareMetalBoots: %w", err))
			}
			select {
			case <-ctx.Done():
			case <-time.After(progressInterval):
			}
		}
	}()
	return func() error {
		cancel()
		<-done
		return a.check()
	}
}

// check returns errNoProgress before a line had the progress of an image.
func (a *agents) check() error {
	if !a.writing {
		return errNoProgress
	}
	return nil
}

func (a *agents) print(ctx context.Context, p *plane.Plane) error {
	var boots v1alpha1.BareMetalBootList
	if err := p.Client.List(ctx, &boots, client.InNamespace(site.Namespace)); err != nil {
		return err
	}
	for _, b := range boots.Items {
		a.show(&b)
	}
	return nil
}

// show prints what the agent of a boot does, if that changed.
func (a *agents) show(b *v1alpha1.BareMetalBoot) {
	line := describeAgent(b)
	if line == "" || line == a.printed[b.Name] {
		return
	}
	a.printed[b.Name], a.writing = line, a.writing || writingLine.MatchString(line)
	a.report.linef(b.Name, "%s", line)
}

// reports says what an agent has done when it reported, for each purpose of a boot.
var reports = map[v1alpha1.BootPurpose]string{
	v1alpha1.PurposeProvision: "agent reported: the image is written and verified",
	v1alpha1.PurposeClean:     "agent reported: the disk is erased",
	v1alpha1.PurposeConfigure: "agent reported: the server restarted, and no disk was opened",
}

// describeAgent says what the agent of a boot does; empty for a boot without an agent, or before its agent reported.
func describeAgent(b *v1alpha1.BareMetalBoot) string {
	if !b.Spec.Agent {
		return ""
	}
	if b.Spec.AgentDoneTime != nil {
		return reports[b.Spec.Purpose]
	}
	if now := b.Status.Agent; now != nil && now.Number == b.Spec.Number {
		return "agent: " + lifecycle.AgentProgressText(now)
	}
	return ""
}
