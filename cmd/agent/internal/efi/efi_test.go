package efi_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/efi"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var loader = efi.Loader{
	Partition: 1, Start: 2048, Size: 204800, GUID: uuid.MustParse("6f1c54aa-1b2c-4d5e-8f90-0123456789ab"), Path: `\EFI\BOOT\BOOTX64.EFI`,
}

// store is a Store in memory that fails on demand.
type store struct {
	values map[string][]byte
	// fail returns the error of a call.
	fail  func(call, name string) error
	calls []string
}

func (s *store) call(ctx context.Context, call, name string) error {
	s.calls = append(s.calls, call+" "+name)
	if s.fail != nil {
		if err := s.fail(call, name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *store) List(ctx context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(s.values)), s.call(ctx, "list", "")
}

func (s *store) Read(ctx context.Context, name string) ([]byte, error) {
	if err := s.call(ctx, "read", name); err != nil {
		return nil, err
	}
	value, ok := s.values[name]
	if !ok {
		return nil, efi.ErrNotFound
	}
	return value, nil
}

func (s *store) Write(ctx context.Context, name string, _ uint32, value []byte) error {
	if err := s.call(ctx, "write", name); err != nil {
		return err
	}
	s.values[name] = slices.Clone(value)
	return nil
}

func (s *store) Delete(ctx context.Context, name string) error {
	if err := s.call(ctx, "delete", name); err != nil {
		return err
	}
	delete(s.values, name)
	return nil
}

func entry(t interface {
	Helper()
	Fatal(args ...any)
}, description string,
) []byte {
	t.Helper()
	out, err := efi.EncodeLoadOption(efi.LoadOption{Active: true, Description: description, Loader: &loader})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestInstall(t *testing.T) {
	full := func(call, _ string) error {
		if call == "write" {
			return fmt.Errorf("write: %w", efi.ErrFull)
		}
		return nil
	}
	on := func(call, name string, err error) func(string, string) error {
		return func(c, n string) error {
			if c == call && n == name {
				return err
			}
			return nil
		}
	}
	ours, theirs := entry(t, efi.Prefix+"old"), entry(t, "PXE")
	for _, c := range []struct {
		name     string
		values   map[string][]byte
		fail     func(call, name string) error
		entry    string
		order    []uint16
		kept     []string
		warnings []string
	}{
		{"an empty NVRAM", map[string][]byte{}, nil, "Boot0000", []uint16{0}, []string{"Boot0000", "BootOrder"}, nil},
		{
			"others are kept", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{3, 1}), "Boot0003": theirs, "Boot0001": theirs, "BootNext": {1, 0}, "Boot000a": ours}, nil,
			"Boot0000", []uint16{0, 3, 1},
			[]string{"Boot0000", "Boot0001", "Boot0003", "Boot000a", "BootNext", "BootOrder"}, nil,
		},
		{
			"stale ones are deleted", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{1, 0, 2, 0}), "Boot0000": theirs, "Boot0001": ours, "Boot0002": ours, "Boot0007": ours}, nil,
			"Boot0001", []uint16{1, 0}, []string{"Boot0000", "Boot0001", "BootOrder"}, nil,
		},
		{
			"damaged entries are kept", map[string][]byte{"Boot0000": {1, 2}, "BootOrder": {0, 0, 9}}, nil, "Boot0001", []uint16{1, 0},
			[]string{"Boot0000", "Boot0001", "BootOrder"}, []string{"BootOrder is damaged and is written again: it has an odd number of bytes"},
		},
		{
			"numbers without a variable are left out", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{7, 1, 1}), "Boot0001": theirs}, nil, "Boot0000", []uint16{0, 1},
			[]string{"Boot0000", "Boot0001", "BootOrder"}, nil,
		},
		{
			"a full NVRAM", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{0}), "Boot0000": theirs}, full, "", []uint16{0}, []string{"Boot0000", "BootOrder"},
			[]string{"Boot0001 cannot be written: write: the NVRAM has no space"},
		},
		{
			"no space for the order", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{0}), "Boot0000": theirs}, on("write", "BootOrder", efi.ErrFull), "", []uint16{0},
			[]string{"Boot0000", "BootOrder"}, []string{"BootOrder cannot be written"},
		},
		{
			"no space for the entry after a deletion", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{1, 0}), "Boot0000": theirs, "Boot0001": ours},
			on("write", "Boot0001", efi.ErrFull), "", []uint16{0}, []string{"Boot0000", "BootOrder"}, []string{"Boot0001 cannot be written"},
		},
		{
			"a stale entry cannot be deleted", map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{0}), "Boot0000": ours}, on("delete", "Boot0000", efi.ErrReadOnly), "Boot0001",
			[]uint16{1, 0}, []string{"Boot0000", "Boot0001", "BootOrder"}, []string{`the stale UEFI boot entry Boot0000 ("capbm: old") cannot be deleted`},
		},
		{
			"no list", map[string][]byte{"Boot0000": ours}, on("list", "", errors.New("EIO")), "", nil, []string{"Boot0000"}, []string{"cannot be listed: EIO"},
		},
		{
			"an order that cannot be read", map[string][]byte{"Boot0000": ours}, on("read", "BootOrder", errors.New("EIO")), "", nil, []string{"Boot0000"},
			[]string{"no UEFI boot entry was written"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := &store{values: maps.Clone(c.values), fail: c.fail}
			r := efi.Install(t.Context(), s, "node", loader)
			g.Expect(r.Entry).To(Equal(c.entry))
			g.Expect(r.Warnings).To(HaveLen(len(c.warnings)), strings.Join(r.Warnings, "\n"))
			for i, w := range c.warnings {
				g.Expect(r.Warnings[i]).To(ContainSubstring(w))
			}
			g.Expect(slices.Sorted(maps.Keys(s.values))).To(Equal(c.kept))
			order, _ := efi.DecodeOrder(s.values["BootOrder"])
			g.Expect(order).To(Equal(c.order))
			if c.entry != "" {
				option, err := efi.DecodeLoadOption(s.values[c.entry])
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(option).To(Equal(efi.LoadOption{Active: true, Description: "capbm: node", Loader: &loader}))
			}
		})
	}
}

// TestInstallIsIdempotent: a second call leaves one entry, whatever call of the first failed.
func TestInstallIsIdempotent(t *testing.T) {
	for n := range 12 {
		g := NewWithT(t)
		calls := 0
		s := &store{values: map[string][]byte{"BootOrder": efi.EncodeOrder([]uint16{0, 5}), "Boot0000": entry(t, "PXE"), "Boot0005": entry(t, efi.Prefix+"x")}}
		s.fail = func(string, string) error {
			if calls++; calls > n {
				return errors.New("the power is cut")
			}
			return nil
		}
		efi.Install(t.Context(), s, "a", loader)
		s.fail = nil
		r := efi.Install(t.Context(), s, "b", loader)
		g.Expect(r.Entry).NotTo(BeEmpty())
		ours := 0
		for name, value := range s.values {
			if option, err := efi.DecodeLoadOption(value); err == nil && name != "BootOrder" && strings.HasPrefix(option.Description, efi.Prefix) {
				ours++
			}
		}
		g.Expect(ours).To(Equal(1))
		order, err := efi.DecodeOrder(s.values["BootOrder"])
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(order).To(HaveLen(2))
	}
}

// TestSlowFirmware: Install returns at the end of its context although the firmware still works.
func TestSlowFirmware(t *testing.T) {
	g := NewWithT(t)
	release := make(chan struct{})
	defer close(release)
	started := make(chan struct{})
	s := &store{values: map[string][]byte{}, fail: func(string, string) error {
		close(started)
		<-release
		return errors.New("too late")
	}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	go func() {
		<-started
		cancel()
	}()
	g.Expect(efi.Install(ctx, s, "a", loader).Warnings).To(ConsistOf(ContainSubstring("did not write the UEFI boot entry in time")))
}

func TestInvalidLoaders(t *testing.T) {
	for name, change := range map[string]func(*efi.Loader){
		"no partition": func(l *efi.Loader) { l.Partition = 0 }, "no GUID": func(l *efi.Loader) { l.GUID = uuid.Nil }, "no size": func(l *efi.Loader) { l.Size = 0 },
		"slashes": func(l *efi.Loader) { l.Path = "/EFI/BOOT" }, "zero": func(l *efi.Loader) { l.Path = "\\a\x00b" }, "long": func(l *efi.Loader) { l.Path = `\` + strings.Repeat("a", 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			l := loader
			change(&l)
			s := &store{values: map[string][]byte{}}
			r := efi.Install(t.Context(), s, "a", l)
			NewWithT(t).Expect(r.Warnings).To(HaveLen(1))
			NewWithT(t).Expect(s.calls).To(BeEmpty())
		})
	}
}

// TestGoldenOption compares an option with the bytes of the specification: attributes, length, description, HD node, file node, end node.
func TestGoldenOption(t *testing.T) {
	g := NewWithT(t)
	got, err := efi.EncodeLoadOption(efi.LoadOption{Active: true, Description: "a", Loader: &efi.Loader{
		Partition: 2, Start: 0x800, Size: 0x1000, GUID: uuid.MustParse("00112233-4455-6677-8899-aabbccddeeff"), Path: `\x`,
	}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hex.EncodeToString(got)).To(Equal("01000000" + "3800" + "61000000" +
		"04012a00" + "02000000" + "0008000000000000" + "0010000000000000" + "33221100554477668899aabbccddeeff" + "0202" +
		"04040a00" + "5c0078000000" + "7fff0400"))
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		option := efi.LoadOption{
			Active: rapid.Bool().Draw(t, "active"), Description: rapid.StringMatching(`[ -~äöü€😀]{1,20}`).Draw(t, "description"),
			Loader: &efi.Loader{
				Partition: rapid.Uint32Min(1).Draw(t, "partition"), Start: rapid.Uint64().Draw(t, "start"), Size: rapid.Uint64Min(1).Draw(t, "size"),
				GUID: uuid.UUID(rapid.SliceOfN(rapid.ByteRange(1, 255), 16, 16).Draw(t, "GUID")), Path: `\` + rapid.StringMatching(`[ -~é]{1,40}`).Draw(t, "path"),
			},
		}
		encoded, err := efi.EncodeLoadOption(option)
		g.Expect(err).NotTo(HaveOccurred())
		decoded, err := efi.DecodeLoadOption(encoded)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(decoded).To(Equal(option))
		// Firmware may add optional data at the end.
		decoded, err = efi.DecodeLoadOption(append(encoded, rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "optional data")...))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(decoded).To(Equal(option))
		order := rapid.SliceOf(rapid.Uint16()).Draw(t, "order")
		got, err := efi.DecodeOrder(efi.EncodeOrder(order))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(HaveLen(len(order)))
	})
}

// TestOtherEntries: entries of other loaders are decoded without a loader.
func TestOtherEntries(t *testing.T) {
	g := NewWithT(t)
	// EFI Internal Shell of EDK2: FvVol(...)/FvFile(...).
	shell := "01000000" + "2c00" + hexText("Shell") + "04071400c9bdb87cebf8344faaea3ee4af6516a1" + "0406140083a5047c3e9e1c4fad65e05268d0b4d1" + "7fff0400"
	data, err := hex.DecodeString(shell)
	g.Expect(err).NotTo(HaveOccurred())
	option, err := efi.DecodeLoadOption(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(option).To(Equal(efi.LoadOption{Active: true, Description: "Shell"}))
	for _, damaged := range [][]byte{nil, data[:5], data[:12], data[:len(data)-1]} {
		_, err := efi.DecodeLoadOption(damaged)
		g.Expect(err).To(HaveOccurred())
	}
}

func hexText(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		fmt.Fprintf(&out, "%02x00", c)
	}
	return out.String() + "0000"
}

func FuzzDecodeLoadOption(f *testing.F) {
	f.Add(entry(f, "seed"))
	f.Add([]byte{1, 0, 0, 0, 4, 0, 0, 0, 0x7f, 0xff, 4, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		option, err := efi.DecodeLoadOption(data)
		if err != nil || option.Loader == nil {
			return
		}
		encoded, err := efi.EncodeLoadOption(option)
		if err != nil {
			return // a loader that this project would not write
		}
		again, err := efi.DecodeLoadOption(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if *again.Loader != *option.Loader || again.Description != option.Description {
			t.Fatalf("%+v becomes %+v", option, again)
		}
	})
}

// TestVariables: the store in a folder, which has no flags, and no firmware that refuses.
func TestVariables(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	v := efi.Variables{Folder: folder}
	_, err := v.List(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("efivarfs is not mounted")))
	g.Expect(os.WriteFile(filepath.Join(folder, "Other-12345678-93ca-11d2-aa0d-00e098032b8c"), []byte{1}, 0o600)).To(Succeed())
	_, err = v.Read(t.Context(), "Boot0000")
	g.Expect(err).To(MatchError(efi.ErrNotFound))
	g.Expect(v.Write(t.Context(), "Boot0000", 7, []byte("abc"))).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(folder, "Boot0000-8be4df61-93ca-11d2-aa0d-00e098032b8c"))).To(BeEquivalentTo("\x07\x00\x00\x00abc"))
	g.Expect(v.List(t.Context())).To(Equal([]string{"Boot0000"}))
	g.Expect(v.Read(t.Context(), "Boot0000")).To(BeEquivalentTo("abc"))
	g.Expect(v.Delete(t.Context(), "Boot0000")).To(Succeed())
	g.Expect(v.Delete(t.Context(), "Boot0000")).To(Succeed())
	g.Expect(v.Write(t.Context(), strings.Repeat("x", 300), 7, nil)).To(MatchError(ContainSubstring("file name too long")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(v.Write(ctx, "a", 7, nil)).To(MatchError(context.Canceled))
	g.Expect(v.Delete(ctx, "a")).To(MatchError(context.Canceled))
	_, err = v.Read(ctx, "a")
	g.Expect(err).To(MatchError(context.Canceled))
	_, err = v.List(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
}
