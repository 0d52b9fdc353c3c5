package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/imaging"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
)

// diskSize is the size of the disks, in bytes. They take no space before they are erased. The image and the partition of its bootstrap data fill most of it: an erasure of
// all disks writes and reads each byte.
const diskSize = 80 << 20

// addDisk gives the server an empty disk.
func (s *Server) addDisk(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	program, err := buildAgent()
	g.Expect(err).NotTo(HaveOccurred())
	folder := t.TempDir()
	s.machine = &imaging.Machine{Program: program, Disk: filepath.Join(folder, "DISK-"+s.Name), Firmware: agent.BIOS, Log: filepath.Join(folder, "agent.log")}
	s.machine.More = []string{s.diskFile(SecondDisk), s.diskFile(ThirdDisk)}
	g.Expect(imaging.NewDisk(s.machine.Disk, diskSize)).To(Succeed())
}

// The prefixes of the serial numbers of the disks that a server may have besides its first one.
const (
	SecondDisk = "DISK2-"
	ThirdDisk  = "DISK3-"
)

// moreSize is the size of these disks, in bytes.
const moreSize = 4 << 20

// AddDisk gives the server its second or third disk, with random content. It may be called while the server runs.
func (s *Server) AddDisk(t *testing.T, prefix string) (serial string) {
	t.Helper()
	content := make([]byte, moreSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
	NewWithT(t).Expect(os.WriteFile(s.diskFile(prefix), content, 0o600)).To(Succeed())
	return prefix + s.Name
}

// RemoveDisk removes a disk of AddDisk. It may be called while the server runs.
func (s *Server) RemoveDisk(t *testing.T, prefix string) {
	t.Helper()
	NewWithT(t).Expect(os.Remove(s.diskFile(prefix))).To(Succeed())
}

func (s *Server) diskFile(prefix string) string {
	return filepath.Join(filepath.Dir(s.machine.Disk), prefix+s.Name)
}

// Data returns the serial numbers of the disks that have other bytes than zeros. No agent may write at the moment.
func (s *Server) Data() (serials []string, err error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	for _, name := range append([]string{s.machine.Disk}, s.machine.More...) {
		content, err := os.ReadFile(name) //nolint:gosec // a file of the rig
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		case len(bytes.Trim(content, "\x00")) > 0:
			serials = append(serials, filepath.Base(name))
		}
	}
	return serials, nil
}

// AgentLog is what the agents of the server logged.
func (s *Server) AgentLog() string {
	if s.machine == nil {
		return ""
	}
	log, err := os.ReadFile(s.machine.Log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(log)
}

// dataAt records where an agent is to write bootstrap data.
func (s *Server) dataAt(offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.dataOffsets, offset) {
		s.dataOffsets = append(s.dataOffsets, offset)
	}
}

// Left returns what is left on the disk of a server that no agent writes at the moment: whether it boots, and whether bootstrap data is where agents wrote it.
func (s *Server) Left() (boots, data bool, err error) {
	if s.machine == nil {
		return false, false, nil
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	if boots, err = s.machine.Bootable(); err != nil {
		return false, false, err
	}
	s.mu.Lock()
	offsets := slices.Clone(s.dataOffsets)
	s.mu.Unlock()
	for _, offset := range offsets {
		content, err := readRange(s.machine.Disk, offset, agent.DataPartitionSize)
		if err != nil {
			return false, false, err
		}
		data = data || len(bytes.Trim(content, "\x00")) > 0
	}
	return boots, data, nil
}

func readRange(name string, offset, length int64) (content []byte, err error) {
	file, err := os.Open(name) //nolint:gosec // a file of the rig
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content = make([]byte, length)
	_, err = io.ReadFull(io.NewSectionReader(file, offset, length), content)
	return content, err
}

// imageStart is where the partitions of the image begin, in bytes. What is before them differs between the image and the disk: the partition table.
const imageStart = 1 << 20

// CorruptDisk changes a byte of the image on the disk, as a disk does that returns other data than was written to it.
func (s *Server) CorruptDisk() (err error) {
	const at = imageStart + fat16.Size // the data of the image, which has no holes
	content, err := readRange(s.machine.Disk, at, 1)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(s.machine.Disk, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteAt([]byte{^content[0]}, at)
	return err
}

// judgeDisk records a disk that firmware boots although it is not complete. s.disk is held.
func (s *Server) judgeDisk() error {
	boots, err := s.machine.Bootable()
	if err != nil || !boots {
		return err
	}
	// The address does not matter: only what is on the disk is read.
	system, err := s.machine.BootDisk(netip.IPv4Unspecified(), 0)
	if err == nil && system.MetaData["instance-id"] == "" {
		err = errors.New("it has no bootstrap data")
	}
	const length = fat16.Size + imageBytes
	want, wantErr := readRange(s.site.imageFile(), imageStart, length)
	got, gotErr := readRange(s.machine.Disk, imageStart, length)
	if err == nil && !bytes.Equal(want, got) {
		err = errors.New("it does not have the whole image")
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.torn = append(s.torn, fmt.Sprintf("the disk boots, and %v", err))
	}
	return errors.Join(wantErr, gotErr)
}

// Torn are the times at which the disk was bootable and not complete.
func (s *Server) Torn() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.torn)
}

// bootDisk boots the operating system on the disk. It returns nil if there is none. A system that an agent wrote is another life than the one before.
func (s *Server) bootDisk(ctx context.Context) *Life {
	s.mu.Lock()
	installed, address := s.installed, s.address
	s.mu.Unlock()
	if s.machine == nil {
		return installed
	}
	if err := s.pass(ctx, DiskPoint); err != nil {
		s.note(ctx, err)
		return nil
	}
	s.disk.Lock()
	system, err := s.machine.BootDisk(address, bootServerTimeout)
	s.disk.Unlock()
	switch {
	case errors.Is(err, pxetest.ErrNotBootable):
		return installed
	case err != nil:
		s.note(ctx, err)
		return nil
	case installed != nil && installed.System.MetaData["instance-id"] == system.MetaData["instance-id"]:
		return installed
	}
	return s.begin(&Life{System: system, Machine: system.MetaData["hostname"], At: time.Now(), FromDisk: true, server: s})
}

// begin records a life, which is on the disk from now on.
func (s *Server) begin(life *Life) *Life {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives, s.installed = append(s.lives, life), life
	return life
}

// setBody replaces the body of a request that was read.
func setBody(r *http.Request, body []byte) {
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}
