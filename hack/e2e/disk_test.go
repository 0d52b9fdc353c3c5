package e2e_test

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// diskSays is what a disk writes to the serial line when it is booted.
const diskSays = "e2e: booted from disk"

// sector is the first sector of a disk, which a BIOS loads to 0000:7c00. Its message follows.
var sector = []byte{
	0xfc,             // cld
	0x31, 0xc0, 0x8e, // xor ax,ax
	0xd8,             // mov ds,ax
	0xbe, 0x16, 0x7c, // mov si,7c16: the message
	0xac,       // 1: lodsb
	0x84, 0xc0, // test al,al
	0x74, 0x06, // jz 2
	0xba, 0xf8, 0x03, // mov dx,3f8: the serial line
	0xee,       // out dx,al
	0xeb, 0xf5, // jmp 1
	0xf4,       // 2: hlt
	0xeb, 0xfd, // jmp 2
}

// program is the same for a processor in 64 bit mode, as UEFI runs it.
var program = []byte{
	0x48, 0x8d, 0x35, 0x10, 0, 0, 0, // lea rsi,[rip+10]: the message
	0xfc,       // cld
	0xac,       // 1: lodsb
	0x84, 0xc0, // test al,al
	0x74, 0x07, // jz 2
	0x66, 0xba, 0xf8, 0x03, // mov dx,3f8
	0xee,       // out dx,al
	0xeb, 0xf4, // jmp 1
	0xf4,       // 2: hlt
	0xeb, 0xfd, // jmp 2
}

// makeDisk makes a disk in the folder that says so when it is booted, and returns the properties of its -drive.
func makeDisk(t *testing.T, folder string, uefi bool) string {
	t.Helper()
	g := NewWithT(t)
	message := []byte("\r\n" + diskSays + "\r\n\x00")
	if uefi {
		// Of a folder QEMU makes a disk with a FAT file system.
		boot := filepath.Join(folder, "disk", "EFI", "BOOT")
		g.Expect(os.MkdirAll(boot, 0o700)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(boot, "BOOTX64.EFI"), efiProgram(t, append(program, message...)), 0o600)).To(Succeed())
		return "format=raw,readonly=on,file=fat:" + filepath.Join(folder, "disk")
	}
	disk := make([]byte, 8<<20) // a BIOS wants a disk of some cylinders
	copy(disk, append(sector, message...))
	disk[510], disk[511] = 0x55, 0xaa
	path := filepath.Join(folder, "disk.raw")
	g.Expect(os.WriteFile(path, disk, 0o600)).To(Succeed())
	return "format=raw,file=" + path
}

// efiProgram wraps code that runs wherever it is loaded into what UEFI takes for a program (PE32+, UEFI 2.10 section 2.1.1).
func efiProgram(t *testing.T, code []byte) []byte {
	t.Helper()
	const headers, page, applications = 0x200, 0x1000, 10
	var image bytes.Buffer
	image.Write(append([]byte("MZ"), make([]byte, 58)...))
	for _, part := range []any{
		uint32(64), []byte("PE\x00\x00"), // the offset of the rest is at 3c
		pe.FileHeader{
			Machine: pe.IMAGE_FILE_MACHINE_AMD64, NumberOfSections: 1, SizeOfOptionalHeader: uint16(binary.Size(pe.OptionalHeader64{})),
			Characteristics: pe.IMAGE_FILE_EXECUTABLE_IMAGE | pe.IMAGE_FILE_LARGE_ADDRESS_AWARE,
		},
		pe.OptionalHeader64{
			Magic: 0x20b, SizeOfCode: headers, AddressOfEntryPoint: page, BaseOfCode: page, SectionAlignment: page, FileAlignment: headers,
			SizeOfImage: 2 * page, SizeOfHeaders: headers, Subsystem: applications, NumberOfRvaAndSizes: 16,
		},
		pe.SectionHeader32{
			Name: [8]uint8{'.', 't', 'e', 'x', 't'}, VirtualSize: page, VirtualAddress: page, SizeOfRawData: headers, PointerToRawData: headers,
			Characteristics: pe.IMAGE_SCN_CNT_CODE | pe.IMAGE_SCN_MEM_EXECUTE | pe.IMAGE_SCN_MEM_READ,
		},
	} {
		NewWithT(t).Expect(binary.Write(&image, binary.LittleEndian, part)).To(Succeed())
	}
	image.Write(make([]byte, headers-image.Len()))
	image.Write(append(code, make([]byte, headers-len(code))...))
	return image.Bytes()
}
