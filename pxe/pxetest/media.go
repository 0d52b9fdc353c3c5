package pxetest

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
)

// Media is a hand-written pxe.Media whose hosts boot the agent with a medium. Each host of the namespace dc has the token "token-NAME". It records its calls,
// and fails on demand.
type Media struct {
	Medium pxe.Medium
	Script pxe.Script
	// Err is returned by every method, and ScriptErr by MediaScript.
	Err, ScriptErr error

	mu      sync.Mutex
	parts   []pxe.MediaPart
	refused []error
	scripts int
	clients map[string]int
}

var _ pxe.Media = &Media{}

// NewMedia returns media with the agent for amd64.
func NewMedia() *Media {
	return &Media{
		Medium: pxe.Medium{
			MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Time: time.Date(2026, time.November, 25, 10, 0, 0, 0, time.UTC), Architecture: "amd64", Agent: true,
			Namespace: "dc",
		},
		Script:  pxe.Script{Title: "dc/h for m, boot attempt 1", Agent: &pxe.AgentScript{Architecture: "amd64", Host: "dc/h", Token: "agent-token"}},
		clients: map[string]int{},
	}
}

func (m *Media) check(r pxe.MediaRequest) error {
	name, ok := strings.CutPrefix(r.Host, "dc/")
	if !ok || r.Token != "token-"+name {
		return pxe.ErrRefused
	}
	return m.Err
}

// Media returns Medium for the right token.
func (m *Media) Media(_ context.Context, r pxe.MediaRequest) (pxe.Medium, error) {
	if err := m.check(r); err != nil {
		return pxe.Medium{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.clients[r.Host]++
	medium := m.Medium
	medium.Observe = func(part pxe.MediaPart) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.parts) == 0 || m.parts[len(m.parts)-1] != part {
			m.parts = append(m.parts, part)
		}
	}
	medium.ObserveRefusal = func(why error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.refused = append(m.refused, why)
	}
	return medium, nil
}

// MediaScript returns Script for the right token.
func (m *Media) MediaScript(_ context.Context, r pxe.MediaRequest) (pxe.Script, error) {
	if err := m.check(r); err != nil {
		return pxe.Script{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scripts++
	return m.Script, m.ScriptErr
}

// Parts returns the observed parts in their order, without repetitions.
func (m *Media) Parts() []pxe.MediaPart {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]pxe.MediaPart(nil), m.parts...)
}

// Refusals returns the observed refusals in their order.
func (m *Media) Refusals() []error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]error(nil), m.refused...)
}

// ScriptCount counts the calls of MediaScript.
func (m *Media) ScriptCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.scripts
}

// WriteMediaLoaders writes emulated boot loaders of media, of a size that they can have, and the list of their checksums to a folder.
func WriteMediaLoaders(dir string) error {
	list := []byte("# emulated\n")
	var problems []error
	for _, name := range []string{"shimx64.efi", "gcdx64.efi", "eltorito.img", "shimaa64.efi", "gcdaa64.efi"} {
		content := []byte(strings.Repeat("loader "+name+"\n", 20000))
		problems = append(problems, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		list = append(list, checksum(content)+"  "+name+"\n"...)
	}
	return errors.Join(append(problems, os.WriteFile(filepath.Join(dir, loader.Manifest), list, 0o600))...)
}
