package drive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

const (
	opTestUnitReady   = 0x00 // SPC-6, 6.48
	opRequestSense    = 0x03 // SPC-6, 6.39
	opInquiry         = 0x12 // SPC-6, 6.7
	opSCSISanitize    = 0x48 // SBC-5, 5.34
	opReadCapacity    = 0x9e // SBC-5, 5.22: READ CAPACITY (16), service action 10h
	opSecurityIn      = 0xa2 // SPC-6, 6.43
	opMaintenanceIn   = 0xa3 // SPC-6, 6.37: REPORT SUPPORTED OPERATION CODES, service action 0Ch
	vpdATA            = 0x89 // SAT-5, 12.4.2
	maxUnitAttentions = 8
)

// sanitizeSCSI are the service actions of SANITIZE.
var sanitizeSCSI = []struct {
	command Command
	action  byte
}{{SCSISanitizeCrypto, 0x03}, {SCSISanitizeBlock, 0x02}, {SCSISanitizeOverwrite, 0x01}}

// scsi sends a command that reads. A drive reports what has happened to it, such as a reset, once, in the place of the answer: the command is repeated then.
func (d *Drive) scsi(cdb []byte, length int) ([]byte, error) {
	for attempt := 0; ; attempt++ {
		c := SCSICommand{CDB: cdb, Data: make([]byte, length), Timeout: askTimeout}
		err := d.Port.SCSI(&c)
		if attempt < maxUnitAttentions && isUnitAttention(err) {
			continue
		}
		return c.Data[:max(0, min(c.Received, length))], err
	}
}

func isUnitAttention(err error) bool {
	var sense *SenseError
	if !errors.As(err, &sense) {
		return false
	}
	s, err := ParseSense(sense.Sense)
	return err == nil && s.Key == keyUnitAttention
}

// vitalPages returns the numbers of the pages of vital product data (SPC-6, 7.7.16).
func (d *Drive) vitalPages() ([]byte, error) {
	data, err := d.scsi([]byte{opInquiry, 1, 0, 0, 255, 0}, 255)
	if err != nil {
		return nil, fmt.Errorf("SCSI INQUIRY: %w", err)
	}
	return ParseVitalPages(data)
}

// ParseVitalPages parses the page 00h of vital product data.
func ParseVitalPages(data []byte) ([]byte, error) {
	if len(data) < 4 || data[1] != 0 {
		return nil, errors.New("the drive has no list of vital product data pages")
	}
	length := int(binary.BigEndian.Uint16(data[2:]))
	if length > len(data)-4 {
		return nil, fmt.Errorf("the list of vital product data pages has %d bytes of %d", len(data)-4, length)
	}
	return data[4 : 4+length], nil
}

// supportsSanitize asks whether the drive has a service action of SANITIZE, by REPORT SUPPORTED OPERATION CODES for one command (SPC-6, 6.37.3).
func (d *Drive) supportsSanitize(action byte) bool {
	const length = 64
	data, err := d.scsi([]byte{opMaintenanceIn, 0x0c, 2, opSCSISanitize, 0, action, 0, 0, 0, length, 0, 0}, length)
	return err == nil && ParseSupported(data)
}

// ParseSupported is true if a drive has a command. The value 3 of SUPPORT is "as in a standard"; 5, "in a vendor specific manner", is not relied on.
func ParseSupported(data []byte) bool { return len(data) >= 4 && data[1]&7 == 3 }

// startSanitizeSCSI starts a sanitize operation with IMMED, so that it goes on in the background. AUSE stays 0: a drive on which the operation fails gives no
// access to data until another one succeeds. An overwrite has one pass with zeros (SBC-5, 5.34.2).
func (d *Drive) startSanitizeSCSI(command Command) error {
	at := slices.IndexFunc(sanitizeSCSI, func(s struct {
		command Command
		action  byte
	}) bool {
		return s.command == command
	})
	c := SCSICommand{CDB: []byte{opSCSISanitize, 0x80 | sanitizeSCSI[at].action, 0, 0, 0, 0, 0, 0, 0, 0}, Send: true, Timeout: startTimeout}
	if command == SCSISanitizeOverwrite {
		c.Data = []byte{1, 0, 0, 4, 0, 0, 0, 0}                    // one pass, a pattern of four bytes
		binary.BigEndian.PutUint16(c.CDB[7:], uint16(len(c.Data))) //nolint:gosec // eight bytes
	}
	err := d.Port.SCSI(&c)
	for attempt := 0; attempt < maxUnitAttentions && isUnitAttention(err); attempt++ {
		err = d.Port.SCSI(&c)
	}
	if err != nil {
		return fmt.Errorf("SCSI SANITIZE: %w", err)
	}
	return nil
}

// sanitizeStatusSCSI reads the state by TEST UNIT READY. Where its sense data has no progress, REQUEST SENSE has it (SBC-5, 4.12.4).
func (d *Drive) sanitizeStatusSCSI() (SanitizeStatus, error) {
	_, err := d.scsi([]byte{opTestUnitReady, 0, 0, 0, 0, 0}, 0)
	var refused *SenseError
	switch {
	case err == nil:
		return SanitizeStatus{State: SanitizeDone, Percent: 100}, nil
	case !errors.As(err, &refused):
		return SanitizeStatus{}, fmt.Errorf("SCSI TEST UNIT READY: %w", err)
	}
	s, parsed := ParseSense(refused.Sense)
	switch {
	case parsed != nil:
		return SanitizeStatus{}, fmt.Errorf("SCSI TEST UNIT READY: %w", err)
	case s.SanitizeFailed():
		return SanitizeStatus{State: SanitizeFailed}, nil
	case !s.Sanitizing():
		return SanitizeStatus{}, fmt.Errorf("SCSI TEST UNIT READY: %w", err)
	}
	if s.Progress < 0 {
		if data, err := d.scsi([]byte{opRequestSense, 1, 0, 0, 64, 0}, 64); err == nil {
			if asked, err := ParseSense(data); err == nil {
				s.Progress = asked.Progress
			}
		}
	}
	return SanitizeStatus{State: SanitizeRuns, Percent: max(0, s.Progress*100>>16)}, nil
}

// ParseProtection is true if the logical blocks have protection information, from the parameter data of READ CAPACITY (16): PROT_EN (SBC-5, 5.22.2).
func ParseProtection(data []byte) bool { return len(data) >= 32 && data[12]&1 != 0 }

func (d *Drive) probeSCSI(f *Facts) error {
	pages, err := d.vitalPages()
	if err != nil {
		return err
	}
	if slices.Contains(pages, vpdATA) {
		d.Kind = ATA
		return d.probeATA(f)
	}
	d.Kind = SCSI
	for _, s := range sanitizeSCSI {
		f.offer(d.supportsSanitize(s.action), s.command)
	}
	// A cryptographic erase has to make all logical blocks unreadable (SBC-5, 4.12): a drive that has it encrypts all of them.
	f.Encrypts = slices.Contains(f.Commands, SCSISanitizeCrypto)
	d.probeLocking(f)
	if len(f.Commands) == 1 {
		return nil
	}
	status, err := d.sanitizeStatusSCSI()
	if err != nil {
		return err
	}
	f.Sanitizing, f.FailureMode = status.State == SanitizeRuns, status.State == SanitizeFailed
	cdb := []byte{opReadCapacity, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0}
	if data, err := d.scsi(cdb, 32); err == nil {
		f.MayNotRead = ParseProtection(data)
	}
	return nil
}
