package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
)

// taskOf returns the path of the task monitor, or of the task, of a request that the BMC carries out in the background (DSP0266, 13.5); "" if it names none.
func (s *service) taskOf(answer resource, header http.Header) string {
	if path := s.wire.localPath(header.Get("Location")); path != "" {
		return path
	}
	if answer.text("TaskState") == "" {
		return ""
	}
	return answer.link("@odata.id")
}

// readTask returns whether a task runs, and an error if it has failed. A task that cannot be read does not run: BMCs delete completed tasks.
func (s *service) readTask(ctx context.Context, task string) (runs bool, failure error) {
	if task == "" {
		return false, nil
	}
	t, err := s.fetch(ctx, task)
	if err != nil {
		return false, s.unavailable(ctx)
	}
	switch state := cmp.Or(t.text("TaskState"), t.text("JobState")); state {
	case "", "Completed":
		return false, nil
	case "Exception", "Killed", "Cancelled", "Failed", "CompletedWithErrors":
		return false, fmt.Errorf("the BMC accepted the request, and its task ended as %s: %s", state, s.masker.masked(taskMessages(t)))
	default:
		return true, nil
	}
}

// taskMessages returns the messages of a task.
func taskMessages(task resource) string {
	var texts []string
	for _, message := range task.list("Messages") {
		if text := message.text("Message"); text != "" {
			texts = append(texts, text)
		}
	}
	return cmp.Or(strings.Join(texts, "; "), "it has no message")
}
