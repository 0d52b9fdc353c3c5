package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

const (
	// drawInterval is the minimum time between two drawings. With many hosts it is longer: at most a quarter of the time is spent on drawing.
	drawInterval = 250 * time.Millisecond
	drawShare    = 4

	watchRetryDelay = 2 * time.Second
	// watchPollInterval is the time between two reads of all hosts if something may not be watched.
	watchPollInterval = 30 * time.Second
)

// The control sequences for a terminal (ECMA-48): the cursor moves to the first line, and what is right of and below the cursor is erased.
const (
	cursorHome  = "\x1b[H"
	eraseScreen = "\x1b[2J"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
)

// follow shows all hosts until the user ends it. A connection that is lost is shown with its age, and opened again.
func (s *status) follow(ctx context.Context, cluster *access.Cluster, namespace string) error {
	follower := &fleet.Follower{Client: cluster.Client, Namespace: namespace, Options: s.options, RetryDelay: watchRetryDelay, PollInterval: watchPollInterval}
	if width, height := s.screen(); height > 0 {
		view.Printf(s.out(), eraseScreen)
		d := &drawing{status: s, namespace: namespace, style: view.Style{Color: s.style().Color, Width: width}, height: height}
		return follower.Run(ctx, d.draw)
	}
	lines := &changedLines{status: s, namespace: namespace, shown: map[string]string{}}
	return follower.Run(ctx, lines.print)
}

// drawing draws on a terminal.
type drawing struct {
	*status

	namespace string
	style     view.Style
	height    int
	updated   time.Time // of the last objects that were up to date
}

// draw returns the time until the next drawing.
func (d *drawing) draw(snapshot fleet.Snapshot) time.Duration {
	start := time.Now()
	if snapshot.Lost == nil {
		d.updated = start
	}
	var b bytes.Buffer
	if snapshot.Lost != nil {
		view.Printf(&b, "NOT UP TO DATE for %s: %s\n", view.Age(d.updated, start), terminal.Line(snapshot.Lost.Error()))
	}
	if len(snapshot.Unwatched) > 0 {
		view.Printf(&b, "%s\n", unwatched(snapshot))
	}
	document := d.document(snapshot.Objects, d.namespace)
	if d.hosts || d.output.format == formatWide {
		_ = document.WriteRows(&b, d.style, d.output.format == formatWide) // into memory
	} else {
		_ = document.WriteSummary(&b, d.style)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	lines = lines[:min(len(lines), d.height-1)]
	view.Printf(d.out(), "%s", cursorHome+strings.Join(lines, eraseLine+"\r\n")+eraseLine+"\r\n"+eraseBelow)
	return max(drawInterval, (drawShare-1)*time.Since(start))
}

// unwatched says which kinds may not be watched; empty if all may.
func unwatched(snapshot fleet.Snapshot) string {
	if len(snapshot.Unwatched) == 0 {
		return ""
	}
	return fmt.Sprintf("watching %s is not permitted: all is read every %s", strings.Join(snapshot.Unwatched, ", "), watchPollInterval)
}

// changedLines prints a line for each host that changed, where nothing can be drawn.
type changedLines struct {
	*status

	namespace string
	shown     map[string]string // by namespace, kind and name
	unwatched string            // as it was printed
}

// print returns the time until the next lines.
func (c *changedLines) print(snapshot fleet.Snapshot) time.Duration {
	if snapshot.Lost != nil {
		view.Printf(c.streams.ErrOut, "kubectl baremetal: not up to date: %s\n", terminal.Line(snapshot.Lost.Error()))
		return drawInterval
	}
	if text := unwatched(snapshot); text != c.unwatched {
		c.unwatched = text
		view.Printf(c.streams.ErrOut, "kubectl baremetal: %s\n", text)
	}
	document := c.document(snapshot.Objects, c.namespace)
	var changed []fleet.Row
	for _, row := range document.Rows {
		key := row.Namespace + "/" + row.Kind + "/" + row.Name
		text := strings.Join([]string{string(row.State), row.Phase, row.Power, row.Reason, row.Health, row.Machine}, "|")
		if c.shown[key] != text {
			changed, c.shown[key] = append(changed, row), text
		}
	}
	if len(changed) == 0 {
		return 0
	}
	document.Rows = changed
	_ = document.WriteRows(c.out(), c.style(), c.output.format == formatWide) // a closed pipe ends the program
	return drawInterval
}
