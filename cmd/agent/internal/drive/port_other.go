//go:build !linux

package drive

import "errors"

// KernelPort is a drive of this server. It answers nothing: the agent runs on Linux.
type KernelPort string

// Admin implements Port.
func (KernelPort) Admin(*AdminCommand) error { return errors.ErrUnsupported }

// Namespace implements Port.
func (KernelPort) Namespace() (uint32, error) { return 0, errors.ErrUnsupported }

// SCSI implements Port.
func (KernelPort) SCSI(*SCSICommand) error { return errors.ErrUnsupported }
