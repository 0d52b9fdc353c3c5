package rig

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// diskSize is the size of the disks, in bytes. They take no space before they are erased. The image and the partition of its bootstrap data fill most of it: an erasure of
// all disks writes and reads each byte.
const diskSize = 80 << 20

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
	return filepath.Join(filepath.Dir(s.Disk), prefix+s.Name)
}

// Data returns the serial numbers of the disks that have other bytes than zeros. No agent may write at the moment.
func (s *Server) Data() (serials []string, err error) {
	s.disk.Lock()
	defer s.disk.Unlock()
	return s.Hardware.Data()
}

// AgentLog is what the agents of the server logged.
func (s *Server) AgentLog() string {
	if s.Hardware == nil {
		return ""
	}
	log, err := os.ReadFile(s.Log)
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
	if s.Hardware == nil {
		return false, false, nil
	}
	s.disk.Lock()
	defer s.disk.Unlock()
	if boots, err = s.Bootable(); err != nil {
		return false, false, err
	}
	s.mu.Lock()
	offsets := slices.Clone(s.dataOffsets)
	s.mu.Unlock()
	for _, offset := range offsets {
		found, err := s.HasData(offset, agent.DataPartitionSize)
		if err != nil {
			return false, false, err
		}
		data = data || found
	}
	return boots, data, nil
}

// judgeDisk records a disk that firmware boots although it is not complete. s.disk is held.
func (s *Server) judgeDisk() error {
	problem, err := s.Hardware.Torn(s.site.emulated.Origin.ImageFile(imageVersion), imageBytes)
	if problem != "" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.torn = append(s.torn, "the disk boots, and "+problem)
	}
	return err
}

// Torn are the times at which the disk was bootable and not complete.
func (s *Server) Torn() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.torn)
}
