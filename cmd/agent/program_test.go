//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/runner"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/system"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/agenttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// pipes is a network in memory, which the clock of a bubble works with.
type pipes chan net.Conn

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestDataNotYet: the agent asks for the bootstrap data for as long as the boot server answers "not yet", longer than it asks a boot server that does not
// answer, and reports progress meanwhile.
func TestDataNotYet(t *testing.T) {
	const mib, size, notYetFor, notYetEvery = 1 << 20, 5 << 30, 20 * time.Minute, 5 * time.Second
	content := disktest.Random(3, 8*mib)
	gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 4095, Name: "root"}})
	m, err := manifest.New(manifest.Header{Size: 8 * mib, SectorSize: 512, Table: manifest.GPT, EFILoaders: []string{"x64", "aa64"}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Chunks() {
		m.SetData(i, sha256.Sum256(content[i*mib:(i+1)*mib]))
	}
	encoded, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "S1")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var asked time.Time // when the data was first asked for
		boots := &agenttest.Server{Host: "default/host-1", Token: "t", Next: agent.Reboot, Plan: agent.Plan{Purpose: agent.Provision, Provision: &agent.ProvisionPlan{
			Manifest: manifest.DigestOf(encoded), RootDevice: agent.RootDevice{SerialNumber: "S1"}, DataSource: wire.DataSourceNoCloud, DataSize: mib,
			PartitionGUID: "0b6ddf2c-62fb-4b7e-a5a4-2a3bb7a0b0c1",
		}}}
		boots.Handle = func(endpoint string, w http.ResponseWriter, r *http.Request) {
			switch endpoint {
			case agent.EndpointManifest:
				_, _ = w.Write(encoded)
			case agent.EndpointImage:
				http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
			case agent.EndpointData:
				if asked.IsZero() {
					asked = time.Now()
				}
				if time.Since(asked) < notYetFor {
					w.Header().Set("Retry-After", "5")
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set(agent.HeaderDigest, manifest.DigestOf([]byte("secret")))
				_, _ = w.Write([]byte("secret"))
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}
		network := make(pipes)
		web := &http.Server{Handler: boots, ReadHeaderTimeout: time.Minute}
		go func() { _ = web.Serve(network) }()
		defer func() { _ = web.Close() }()
		tail := &system.Log{To: t.Output(), Max: agent.MaxLog}
		session, err := newSession(system.Parameters{Server: "http://boot", Host: boots.Host, Token: "t"}, wire.FirmwareUEFI, network.dial, runner.FileDisks{name},
			slog.New(slog.DiscardHandler), tail)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(session.Run(t.Context())).To(Equal(agent.Reboot))

		result := boots.Result()
		g.Expect(result.Failure).To(BeNil())
		g.Expect(result.Written.Committed).To(BeTrue())
		g.Expect(len(boots.Requests(agent.EndpointData))).To(BeNumerically("~", notYetFor/notYetEvery, 2), "it waits as long as the boot server says")
		last := asked
		for _, r := range boots.Requests(agent.EndpointProgress) {
			var p agent.Progress
			g.Expect(json.Unmarshal(r.Body, &p)).To(Succeed())
			if p.Step == wire.StepData {
				g.Expect(r.At.Sub(last)).To(BeNumerically("<", 15*time.Second))
				last = r.At
			}
		}
		g.Expect(last.Sub(asked)).To(BeNumerically("~", notYetFor, 15*time.Second))
	})
	disk, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	if !pxetest.Bootable(disk, size, 512) {
		t.Error("the disk does not boot")
	}
}
