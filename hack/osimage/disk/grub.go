package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// The places in GRUB 2.12's boot.img and in the first sector of its core image that grub-bios-setup changes (include/grub/i386/pc/boot.h).
const (
	// bootKernelSector is the LBA of the core image.
	bootKernelSector = 0x5c
	// bootDriveCheck is a jump over a repair of the drive number, for a BIOS that passes a wrong one. grub-bios-setup replaces it by two nop on hard disks.
	bootDriveCheck = 0x66
	// bootCodeEnd is where the partition table of an MBR, with the disk's signature, begins.
	bootCodeEnd = 440
	// blockList is the first entry of the list of blocks that the first sector of the core image loads: LBA (8 bytes), sectors (2), segment (2).
	blockList = 512 - 12
)

// writeGRUB writes the core image to the BIOS boot partition, or without one between the MBR and the first partition, and the code of the MBR to first.
func (i *Image) writeGRUB(to io.WriterAt, first []byte) error {
	boot, err := os.ReadFile(i.Boot)
	if err != nil {
		return err
	}
	core, err := os.ReadFile(i.Core)
	if err != nil {
		return err
	}
	if len(boot) != 512 || len(core) <= 512 || i.SectorSize != 512 {
		return errors.New("boot.img has one sector, core.img more, and both need sectors of 512 bytes")
	}
	at, space := int64(512), int64(alignment-512)
	if !i.MBR {
		if at, space = i.biosBoot(); space == 0 {
			return errors.New("there is no BIOS boot partition for the core image")
		}
	}
	if int64(len(core)) > space {
		return fmt.Errorf("the core image has %d bytes, and there are %d", len(core), space)
	}
	rest := (len(core) - 1) / 512
	if sectors := int(binary.LittleEndian.Uint16(core[blockList+8:])); sectors != rest {
		return fmt.Errorf("the core image loads %d sectors, and has %d more: this is not the format of GRUB 2.12", sectors, rest)
	}
	binary.LittleEndian.PutUint64(core[blockList:], uint64(at/512)+1)
	if _, err := to.WriteAt(core, at); err != nil {
		return err
	}
	copy(first, boot[:bootCodeEnd])
	binary.LittleEndian.PutUint64(first[bootKernelSector:], uint64(at/512))
	first[bootDriveCheck], first[bootDriveCheck+1] = 0x90, 0x90
	return nil
}

// biosBoot is where the BIOS boot partition is, and its size; 0 if there is none.
func (i *Image) biosBoot() (at, size int64) {
	for _, p := range i.Partitions {
		if p.Type == BIOSBoot {
			return p.start, p.size
		}
	}
	return 0, 0
}
