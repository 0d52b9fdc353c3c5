package pxe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"

	"golang.org/x/sync/semaphore"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// A few bytes of JSON can become hundreds in memory: "{}," in a list of disks is 288. So a body is read only after its token, with a limit for each endpoint, and
// its shape is checked before it is decoded.
const (
	// maxAgentText is the maximum length of a text of an agent, in bytes. A failure lists all disks of the server.
	maxAgentText = 16 << 10
	// maxAgentList is the maximum length of a list of an agent.
	maxAgentList = 1024
	// maxAgentTokens is the maximum number of names, values and brackets in a body. The result of an erasure of 64 disks has about 5,000.
	maxAgentTokens = 16384
	// maxAgentDepth is the maximum depth of lists and objects in a body. An Inventory has 4.
	maxAgentDepth = 8
	// maxDecodes is how many bodies are decoded at once. With the limits above they need at most 40 MiB.
	maxDecodes = 8
	// maxBodiesPerHost is how many bodies of one host are read at once: the connection of a lost answer may last longer than its agent waits.
	maxBodiesPerHost = 4
)

var (
	errBodyInvalid = fmt.Errorf("%w: the body is not valid", ErrRefused)
	errManyBodies  = errors.New("the host sends too many bodies at once")
)

// bodies bound the memory for the bodies of agents' requests.
type bodies struct {
	decodes *semaphore.Weighted
	*hostSlots
}

func newBodies() *bodies {
	return &bodies{semaphore.NewWeighted(maxDecodes), newHostSlots(maxBodiesPerHost, math.MaxInt)}
}

// withBody returns the handler of a request whose body is a T of at most limit bytes as JSON. The request has a valid token.
func withBody[T any](b *bodies, limit int64, handle func(http.ResponseWriter, *http.Request, AgentRequest, T) error) func(http.ResponseWriter, *http.Request, AgentRequest) error {
	return func(w http.ResponseWriter, r *http.Request, from AgentRequest) error {
		var body T
		if err := b.read(r, from.Host, limit, &body); err != nil {
			return err
		}
		return handle(w, r, from, body)
	}
}

// read reads the body of a request of a host. Its texts are shown in conditions, events and logs, so they are cleaned here.
func (b *bodies) read(r *http.Request, host string, limit int64, into any) error {
	if !b.enter(host) {
		return fmt.Errorf("%w: %w", ErrNotYet, errManyBodies)
	}
	defer b.leave(host)
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errBodyInvalid, err)
	case int64(len(body)) > limit:
		return fmt.Errorf("%w: it has more than %d bytes", errBodyInvalid, limit)
	}
	return b.decode(r.Context(), body, into)
}

// decode decodes a body, and waits for its turn.
func (b *bodies) decode(ctx context.Context, body []byte, into any) error {
	if err := b.decodes.Acquire(ctx, 1); err != nil { // the client is gone
		return fmt.Errorf("%w: %w", ErrNotYet, err)
	}
	defer b.decodes.Release(1)
	if err := checkShape(body); err != nil {
		return fmt.Errorf("%w: %w", errBodyInvalid, err)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%w: %w", errBodyInvalid, err)
	}
	printable.Clean(into, maxAgentText, maxAgentList)
	return nil
}

// checkShape returns an error for JSON that is too deep, or has too many values or too long a list. It keeps none of them.
func checkShape(body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	var lists []int // for each open list or object, how many tokens it has had
	for tokens := 0; ; tokens++ {
		token, err := decoder.Token()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case tokens >= maxAgentTokens:
			return fmt.Errorf("it has more than %d values", maxAgentTokens)
		}
		delimiter, _ := token.(json.Delim)
		if delimiter == ']' || delimiter == '}' {
			lists = lists[:len(lists)-1]
			continue
		}
		if last := len(lists) - 1; last >= 0 {
			if lists[last]++; lists[last] > maxAgentList {
				return fmt.Errorf("a list has more than %d elements", maxAgentList)
			}
		}
		if delimiter == '[' || delimiter == '{' {
			if lists = append(lists, 0); len(lists) > maxAgentDepth {
				return fmt.Errorf("it is deeper than %d lists", maxAgentDepth)
			}
		}
	}
}
