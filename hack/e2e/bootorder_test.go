package e2e_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// networkThenDisk changes the boot order in the firmware's variables to PXE over IPv4, then the disk, and lets the server obey them: like a user who
// sets it up in the firmware's menu. QEMU itself can only put all kinds of network boot before the disk, and OVMF waits minutes for
// HTTP boot over IPv6.
func (c *chassis) networkThenDisk(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	path := c.file("vars")
	store, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	variables := efiVariables(store)
	order := variables["BootOrder"]
	g.Expect(order).NotTo(BeEmpty())
	var pxe, disk, rest []byte
	for entry := range slices.Chunk(order, 2) {
		switch description := variables[fmt.Sprintf("Boot%04X", binary.LittleEndian.Uint16(entry))]; {
		case bytes.Contains(description, utf16("PXEv4")) && pxe == nil:
			pxe = entry
		case bytes.Contains(description, utf16("UEFI Misc Device")):
			disk = entry
		default:
			rest = append(rest, entry...)
		}
	}
	g.Expect(pxe).NotTo(BeNil(), "PXE is in the boot order")
	g.Expect(disk).NotTo(BeNil(), "the disk is in the boot order")
	copy(order, slices.Concat(pxe, disk, rest)) // in the store
	g.Expect(os.WriteFile(path, store, 0o600)).To(Succeed())
	c.ownOrder = true
}

// bootsAgentEntry expects one boot entry of agents in the firmware's variables, that of a machine, and expects it first in the boot order.
func (c *chassis) bootsAgentEntry(t *testing.T, machine string) {
	t.Helper()
	g := NewWithT(t)
	store, err := os.ReadFile(c.file("vars"))
	g.Expect(err).NotTo(HaveOccurred())
	variables := efiVariables(store)
	entries := map[string]string{}
	for name, value := range variables {
		// A load option is 6 bytes, then its description in UTF-16 (UEFI 2.10, section 3.1.3). BootNext is shorter.
		if len(name) != len("Boot0000") || !strings.HasPrefix(name, "Boot") || len(value) <= 6 {
			continue
		}
		text, _, _ := bytes.Cut(value[6:], []byte{0, 0, 0})
		if description := strings.ReplaceAll(string(text), "\x00", ""); strings.HasPrefix(description, "capbm: ") {
			entries[name] = description
		}
	}
	order := variables["BootOrder"]
	g.Expect(order).NotTo(BeEmpty())
	g.Expect(entries).To(Equal(map[string]string{fmt.Sprintf("Boot%04X", binary.LittleEndian.Uint16(order)): "capbm: " + machine}))
}

// efiVariables finds the variables in OVMF's store (AUTHENTICATED_VARIABLE_HEADER of EDK2's VariableFormat.h). Their values are parts of
// the store.
func efiVariables(store []byte) map[string][]byte {
	const volume, header, valid = 72, 60, 0x3f
	// Behind the variables are copies that the firmware makes while it compacts them (VARIABLE_STORE_HEADER has their size).
	store = store[:volume+int(binary.LittleEndian.Uint32(store[volume+16:]))]
	found := map[string][]byte{}
	for at := 0; at+header < len(store); at += 4 {
		h := store[at:]
		if h[0] != 0xaa || h[1] != 0x55 || h[2] != valid {
			continue
		}
		name, data := int(binary.LittleEndian.Uint32(h[36:])), int(binary.LittleEndian.Uint32(h[40:]))
		if name < 2 || name > 256 || data > 4096 || header+name+data > len(h) {
			continue
		}
		key := strings.ReplaceAll(string(h[header:header+name]), "\x00", "")
		found[key] = h[header+name : header+name+data]
	}
	return found
}

func utf16(ascii string) []byte {
	var out []byte
	for _, c := range []byte(ascii) {
		out = append(out, c, 0)
	}
	return out
}
