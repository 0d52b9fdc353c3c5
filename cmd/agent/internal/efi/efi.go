// Package efi writes the UEFI boot entry of an installed system, by efivarfs. It removes the entries that this project wrote before, puts the new one first in
// BootOrder, and keeps all others. It does not use BootNext: an entry that is used only once would leave the server to its old order at the next boot.
//
// Clauses are those of the Unified Extensible Firmware Interface Specification, release 2.10.
package efi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Prefix is the beginning of the descriptions of all boot entries that this project writes. By it stale ones are found.
const Prefix = "capbm: "

// The variables of boot entries (3.3). All are of the vendor EFI_GLOBAL_VARIABLE.
const (
	globalVendor  = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	bootOrder     = "BootOrder"
	entryPrefix   = "Boot"
	maxEntries    = 0x10000
	maxStaleReads = 512
)

// bootAttributes are EFI_VARIABLE_NON_VOLATILE, EFI_VARIABLE_BOOTSERVICE_ACCESS and EFI_VARIABLE_RUNTIME_ACCESS (8.2.2).
const bootAttributes = 7

// The errors of a Store.
var (
	// ErrNotFound means that the variable does not exist.
	ErrNotFound = errors.New("the variable does not exist")
	// ErrFull means that the NVRAM has no space.
	ErrFull = errors.New("the NVRAM has no space")
	// ErrReadOnly means that variables cannot be written.
	ErrReadOnly = errors.New("the NVRAM cannot be written")
)

// Store is a store of UEFI variables of the vendor EFI_GLOBAL_VARIABLE.
type Store interface {
	// List returns the names of all variables.
	List(ctx context.Context) ([]string, error)
	// Read returns the value of a variable without its attributes, or ErrNotFound.
	Read(ctx context.Context, name string) ([]byte, error)
	// Write creates or replaces a variable. It returns ErrFull or ErrReadOnly if that is the cause.
	Write(ctx context.Context, name string, attributes uint32, value []byte) error
	// Delete deletes a variable. One that does not exist is no error.
	Delete(ctx context.Context, name string) error
}

// Result is what Install did.
type Result struct {
	// Entry is the name of the entry, such as Boot0003, or empty if none was written.
	Entry string
	// Warnings are problems that do not fail the boot: the firmware boots the fallback path of the disk then (3.5.1.1), if its order does.
	Warnings []string
}

// Install removes the stale entries of this project, writes an entry for a loader and puts it first in BootOrder. description is the name that firmware shows:
// Install puts Prefix before it. Every problem is a warning. The firmware runs the calls of a Store, and the kernel cannot interrupt it: at the end of ctx
// Install returns, and the call may still be carried out.
//
// The order of the writes keeps the firmware bootable if it is interrupted: BootOrder never names an entry that is not yet written. Stale entries are deleted
// first, because a full NVRAM may have space for one entry only after that.
func Install(ctx context.Context, s Store, description string, loader Loader) Result {
	done := make(chan Result, 1)
	go func() { done <- install(ctx, s, description, loader) }()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return Result{Warnings: []string{fmt.Sprintf("the firmware did not write the UEFI boot entry in time (%v): it may be missing", context.Cause(ctx))}}
	}
}

func install(ctx context.Context, s Store, description string, loader Loader) Result {
	i := &installation{store: s}
	entry, err := EncodeLoadOption(LoadOption{Active: true, Description: Prefix + strings.TrimPrefix(description, Prefix), Loader: &loader})
	if err != nil {
		i.warnf("the UEFI boot entry cannot be written: %v", err)
		return i.result
	}
	names, err := s.List(ctx)
	if err != nil {
		i.warnf("the UEFI boot entries cannot be listed: %v: the server boots the disk only if its boot order does", err)
		return i.result
	}
	order, err := i.order(ctx)
	if err != nil {
		i.warnf("BootOrder cannot be read: %v: no UEFI boot entry was written, and the server boots the disk only if its boot order does", err)
		return i.result
	}
	used := i.removeStale(ctx, names)
	// A power cut after a deletion leaves a number without a variable in BootOrder. Firmware skips such numbers, and they are left out here.
	order = slices.DeleteFunc(order, func(n uint16) bool { return !slices.Contains(names, entryName(n)) })
	name, number, ok := freeName(used)
	if !ok {
		i.warnf("all %d UEFI boot entries are in use: delete some in the firmware's setup", maxEntries)
		return i.result
	}
	if err := s.Write(ctx, name, bootAttributes, entry); err != nil {
		i.warnf("the UEFI boot entry %s cannot be written: %v: the server boots the disk only if its boot order does", name, err)
		i.repairOrder(ctx, order)
		return i.result
	}
	i.result.Entry = name
	i.commit(ctx, name, number, order)
	return i.result
}

// installation is one call of Install.
type installation struct {
	store   Store
	deleted []uint16
	result  Result
}

func (i *installation) warnf(format string, args ...any) {
	i.result.Warnings = append(i.result.Warnings, fmt.Sprintf(format, args...))
}

// order reads BootOrder. One that is absent or has an odd length is empty: firmware that lost its NVRAM has no BootOrder.
func (i *installation) order(ctx context.Context) ([]uint16, error) {
	value, err := i.store.Read(ctx, bootOrder)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	order, err := DecodeOrder(value)
	if err != nil {
		i.warnf("BootOrder is damaged and is written again: %v", err)
	}
	return order, nil
}

// removeStale deletes the entries with Prefix. It returns the numbers of the entries that are left.
func (i *installation) removeStale(ctx context.Context, names []string) map[uint16]bool {
	used := map[uint16]bool{}
	reads := 0
	for _, name := range names {
		number, ok := parseEntryName(name)
		if !ok {
			continue
		}
		used[number] = true
		if reads++; reads > maxStaleReads {
			continue
		}
		value, err := i.store.Read(ctx, name)
		if err != nil {
			i.warnf("the UEFI boot entry %s cannot be read: %v", name, err)
			continue
		}
		// An entry that cannot be decoded is of others: it is kept.
		option, err := DecodeLoadOption(value)
		if err != nil || !strings.HasPrefix(option.Description, Prefix) {
			continue
		}
		if err := i.store.Delete(ctx, name); err != nil {
			i.warnf("the stale UEFI boot entry %s (%q) cannot be deleted: %v", name, option.Description, err)
			continue
		}
		i.deleted = append(i.deleted, number)
		delete(used, number)
	}
	return used
}

// commit puts an entry first in BootOrder. Without that the entry is of no use, so it is deleted again if BootOrder cannot be written.
func (i *installation) commit(ctx context.Context, name string, number uint16, order []uint16) {
	wanted := append([]uint16{number}, i.remaining(order)...)
	if err := i.store.Write(ctx, bootOrder, bootAttributes, EncodeOrder(wanted)); err != nil {
		i.warnf("BootOrder cannot be written: %v: the server boots the disk only if its boot order does", err)
		i.result.Entry = ""
		if err := i.store.Delete(ctx, name); err != nil {
			i.warnf("the UEFI boot entry %s is not in BootOrder and cannot be deleted: %v", name, err)
		}
		return
	}
	// Some firmware accepts a write and forgets it.
	value, err := i.store.Read(ctx, bootOrder)
	if err != nil {
		i.warnf("BootOrder cannot be read back: %v", err)
		return
	}
	if got, err := DecodeOrder(value); err != nil || len(got) == 0 || got[0] != number {
		i.warnf("the firmware did not keep BootOrder: it has %04x instead of %04x first", got, number)
	}
}

// repairOrder removes the deleted entries from BootOrder.
func (i *installation) repairOrder(ctx context.Context, order []uint16) {
	if len(i.deleted) == 0 {
		return
	}
	if err := i.store.Write(ctx, bootOrder, bootAttributes, EncodeOrder(i.remaining(order))); err != nil {
		i.warnf("BootOrder cannot be written: %v", err)
	}
}

// remaining returns the entries of an order that were not deleted, each once.
func (i *installation) remaining(order []uint16) []uint16 {
	var out []uint16
	for _, n := range order {
		if !slices.Contains(i.deleted, n) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// freeName returns the entry with the lowest number that is not in use.
func freeName(used map[uint16]bool) (string, uint16, bool) {
	for n := range maxEntries {
		if number := uint16(n); !used[number] {
			return entryName(number), number, true
		}
	}
	return "", 0, false
}

func entryName(number uint16) string { return fmt.Sprintf("%s%04X", entryPrefix, number) }

// parseEntryName parses Boot####: four hexadecimal digits in capital letters (3.1.1). BootOrder and BootNext are not such names.
func parseEntryName(name string) (uint16, bool) {
	digits, ok := strings.CutPrefix(name, entryPrefix)
	if !ok || len(digits) != 4 {
		return 0, false
	}
	var number uint16
	for _, c := range []byte(digits) {
		value := strings.IndexByte("0123456789ABCDEF", c)
		if value < 0 {
			return 0, false
		}
		number = number<<4 | uint16(value) //nolint:gosec // less than 16
	}
	return number, true
}
