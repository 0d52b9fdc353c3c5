// Package simtest runs bmcsim in tests, on free ports.
package simtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/sim"
)

// The credentials of every simulated BMC.
const (
	Username = "admin"
	Password = "sim-Secret-1"
)

// Sim is a running simulator.
type Sim struct {
	tb      testing.TB
	control string
	stop    context.CancelFunc
	// Summary is the line that the simulator printed.
	Summary string
}

// Server is a server in the responses of the control server.
type Server struct {
	Name          string         `json:"name"`
	Protocol      string         `json:"protocol"`
	Address       string         `json:"address"`
	MACAddress    string         `json:"macAddress"`
	UUID          string         `json:"uuid"`
	Power         string         `json:"power"`
	Image         string         `json:"image"`
	RefusedLogins int            `json:"refusedLogins"`
	Commands      int            `json:"commands"`
	Faults        map[string]int `json:"faults"`
	BootOverride  struct {
		Target string `json:"target"`
	} `json:"bootOverride"`
}

var controlURL = regexp.MustCompile(`control at (http://[^;]+)/;`)

// Start starts the simulator with these flags, and waits until everything listens. It ends with the test.
func Start(tb testing.TB, args ...string) *Sim {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	environment := map[string]string{"BMC_USERNAME": Username, "BMC_PASSWORD": Password}
	args = append([]string{"--listen", "127.0.0.1:0", "--ipmi-listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}, args...)
	lines, stdout := io.Pipe()
	var (
		stderr bytes.Buffer
		code   int
		done   = make(chan struct{})
	)
	go func() {
		defer close(done)
		code = sim.Run(ctx, args, func(name string) string { return environment[name] }, stdout, &stderr)
		_ = stdout.CloseWithError(errors.New("the simulator ended"))
	}()
	s := &Sim{tb: tb, stop: sync.OnceFunc(func() {
		cancel()
		<-done
		if code != 0 {
			tb.Errorf("the simulator ended with %d: %s", code, &stderr)
		}
	})}
	tb.Cleanup(s.stop)
	summary, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		tb.Fatalf("the simulator printed no summary: %v", err)
	}
	s.Summary = summary
	match := controlURL.FindStringSubmatch(summary)
	if match == nil {
		tb.Fatalf("the simulator has no control server: %s", summary)
	}
	s.control = match[1]
	return s
}

// Stop stops the simulator, and waits until it has stopped.
func (s *Sim) Stop() { s.stop() }

// Servers returns the servers.
func (s *Sim) Servers() []Server {
	s.tb.Helper()
	status, body := s.Do(http.MethodGet, "/servers")
	var servers []Server
	if err := json.Unmarshal([]byte(body), &servers); err != nil || status != http.StatusOK {
		s.tb.Fatalf("GET /servers: %d, %v: %s", status, err, body)
	}
	return servers
}

// Must sends a request to the control server, which must succeed.
func (s *Sim) Must(method, path string) string {
	s.tb.Helper()
	status, body := s.Do(method, path)
	if status/100 != 2 {
		s.tb.Fatalf("%s %s: %d: %s", method, path, status, body)
	}
	return body
}

// Do sends a request to the control server.
func (s *Sim) Do(method, path string) (status int, body string) {
	s.tb.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, s.control+path, http.NoBody)
	if err != nil {
		s.tb.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.tb.Fatal(fmt.Errorf("%s %s: %w", method, path, err))
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		s.tb.Fatal(err)
	}
	return response.StatusCode, string(content)
}
