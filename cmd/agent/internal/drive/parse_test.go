package drive

import (
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func bytesOf(t *testing.T, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestRecordedSanitizeLogs: log pages of SSDs after a block erase and a crypto erase, as recorded in the tests of google/ecclesia-machine-management
// (ecclesia/magent/lib/nvme/sanitize_log_page_test.cc).
func TestRecordedSanitizeLogs(t *testing.T) {
	g := NewWithT(t)
	rest := strings.Repeat(" ffffffff", 3) + strings.Repeat(" 00000000", 3)
	g.Expect(ParseSanitizeStatus(bytesOf(t, "ffff 0101 02000000"+rest))).To(Equal(SanitizeStatus{State: SanitizeDone, Percent: 100, Command: NVMeSanitizeBlock}))
	g.Expect(ParseSanitizeStatus(bytesOf(t, "ffff 0101 0c020000"+rest))).To(Equal(SanitizeStatus{State: SanitizeDone, Percent: 100, Command: NVMeSanitizeCrypto}))
	// Values that users report: 3761 of 65536 in progress (miniedwins/learning, nvme/sanitize.md), and estimates of 90 s and 13 s (tnear/linux, nvme-sanitize-log.md).
	running := bytesOf(t, "b10e 0200 02000000"+rest)
	binary.LittleEndian.PutUint32(running[12:], 90)
	binary.LittleEndian.PutUint32(running[16:], 13)
	g.Expect(ParseSanitizeStatus(running)).To(Equal(SanitizeStatus{State: SanitizeRuns, Percent: 5, Command: NVMeSanitizeBlock, Block: 90 * time.Second, Crypto: 13 * time.Second}))
	g.Expect(ParseSanitizeStatus(bytesOf(t, "ffff 0300 04000000"+rest))).To(HaveField("State", SanitizeFailed))
	_, err := ParseSanitizeStatus(bytesOf(t, "ffff 0500 04000000"+rest))
	g.Expect(err).To(MatchError(ContainSubstring("unknown sanitize state 5")))
}

func TestIdentity(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 512)
	word := func(n int, value uint16) { binary.LittleEndian.PutUint16(data[2*n:], value) }
	word(59, 0xf000)
	word(82, 1<<1|1<<10)
	word(83, 1<<14|1<<10|1<<11)
	word(89, 0x8100)
	word(90, 0xff)
	word(119, 1<<14|1<<8)
	word(128, 1|1<<1|1<<2|1<<4)
	word(106, 1<<14|1<<12)
	word(117, 2048)
	id, err := ParseIdentity(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id).To(Equal(Identity{
		SectorSize: 4096, HPA: true, Configuration: true, AccessibleMax: true, Sanitize: []Command{ATASanitizeCrypto, ATASanitizeBlock, ATASanitizeOverwrite},
		Security: Security{Supported: true, Enabled: true, Locked: true, Expired: true, Normal: 512 * time.Minute, Thorough: 510 * time.Minute},
	}))
}

// TestRecordedSense: sense data of ATA PASS-THROUGH, as kernels log it (Ubuntu Forums) and as hdparm prints it (hdparm patch 53; jethrogb/lenovo-password issue 4).
func TestRecordedSense(t *testing.T) {
	g := NewWithT(t)
	r, whole, err := ParseRegisters(bytesOf(t, "72 01 00 1d 00 00 00 0e 09 0c 00 00 00 00 00 00 00 4f 00 c2 e0 50"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole).To(BeTrue())
	g.Expect(r).To(Equal(Registers{Status: 0x50, LBA: 0xc24f00}))
	g.Expect(r.Failed()).To(BeFalse())
	r, whole, err = ParseRegisters(bytesOf(t, "f0 00 01 00 50 40 3c 0a 80 00 00 00 00 1d 00 00"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole).To(BeFalse(), "the fixed format has not all bits")
	g.Expect(r).To(Equal(Registers{Status: 0x50, Count: 0x3c}))
	_, _, err = ParseRegisters(bytesOf(t, "70 00 05 00 00 00 00 0a 04 51 40 01 21 04 00 00"))
	g.Expect(err).To(MatchError(ContainSubstring("does not return the registers")))
	// An error of the drive without CK_COND: 51 and ABRT.
	r, _, err = ParseRegisters(bytesOf(t, "72 0b 00 00 00 00 00 0e 09 0c 00 04 00 03 00 00 00 00 00 00 e0 51"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Failed()).To(BeTrue())
	g.Expect((&ATAError{r}).Error()).To(ContainSubstring("aborts"))
}

func TestSense(t *testing.T) {
	g := NewWithT(t)
	s, err := ParseSense(bytesOf(t, "70 00 02 00 00 00 00 0a 00 00 00 00 04 1b 00 80 40 00"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s).To(Equal(Sense{Key: 2, ASC: 4, ASCQ: 0x1b, Progress: 0x4000}))
	g.Expect(s.Sanitizing()).To(BeTrue())
	s, err = ParseSense(bytesOf(t, "72 02 04 1b 00 00 00 08 02 06 00 00 80 80 00 00"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s).To(Equal(Sense{Key: 2, ASC: 4, ASCQ: 0x1b, Progress: 0x8000}))
	s, err = ParseSense(bytesOf(t, "72 03 31 03 00 00 00 00"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.SanitizeFailed()).To(BeTrue())
	_, err = ParseSense(nil)
	g.Expect(err).To(MatchError(errNoSense))
}

func TestATASanitizeStatus(t *testing.T) {
	g := NewWithT(t)
	g.Expect(ParseATASanitize(Registers{Status: 0x50, Count: 1 << 14, LBA: 0x8000})).To(Equal(ATASanitizeState{SanitizeStatus: SanitizeStatus{State: SanitizeRuns, Percent: 50}}))
	g.Expect(ParseATASanitize(Registers{Status: 0x50, Count: 1<<15 | 1<<13})).To(Equal(ATASanitizeState{SanitizeStatus: SanitizeStatus{State: SanitizeDone, Percent: 100}, Frozen: true}))
	g.Expect(ParseATASanitize(Registers{Status: 0x51, Error: 4, LBA: 1})).To(HaveField("State", SanitizeFailed))
	_, err := ParseATASanitize(Registers{Status: 0x51, Error: 4, LBA: 2})
	g.Expect(err).To(HaveOccurred())
}

// TestRecordedController: the fields of a Kingston SNV2S250G, as nvme-cli prints them in FOGProject/fos issue 72.
func TestRecordedController(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 4096)
	copy(data[4:], "50026B7685F13C1E    ")
	copy(data[24:], "KINGSTON SNV2S250G                      ")
	copy(data[64:], "ELFK0S.4")
	binary.LittleEndian.PutUint16(data[256:], 0x17)
	binary.LittleEndian.PutUint32(data[328:], 0xa0000002)
	g.Expect(ParseController(data)).To(Equal(Controller{
		Serial: "50026B7685F13C1E", Model: "KINGSTON SNV2S250G", Firmware: "ELFK0S.4", Security: true, Format: true, SanitizeBlock: true,
	}))
	for fna, want := range map[byte][]bool{0: {false, false}, 1: {true, false}, 2: {true, true}, 3: {true, true}} { // bit 0: a format is of all namespaces; bit 1: its secure erase
		data[524] = fna
		c, err := ParseController(data)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]bool{c.FormatsAll, c.ErasesAll}).To(Equal(want), "FNA %d", fna)
	}
	data[76], data[312], data[524], data[256] = 2, 1, 7, 8
	g.Expect(ParseController(data)).To(And(HaveField("Several", true), HaveField("RPMB", true), HaveField("FormatsAll", true), HaveField("FormatCrypto", true), HaveField("Management", true)))
	_, err := ParseController(data[:100])
	g.Expect(err).To(HaveOccurred())
}

func TestNamespace(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 4096)
	binary.LittleEndian.PutUint64(data, 1000)
	data[26], data[29] = 1<<4|1<<5|3, 1<<3|2 // format 19, extended metadata, protection information 2 at the start
	data[128+4*19+2] = 12
	g.Expect(ParseNamespace(data)).To(Equal(Namespace{Blocks: 1000, BlockSize: 4096, Format: 3 | 1<<4 | 2<<5 | 1<<8 | 1<<12, Protected: true}))
	_, err := ParseNamespace(make([]byte, 4096))
	g.Expect(err).To(MatchError(ContainSubstring("2^0")))
	list := make([]byte, 4096)
	list[0], list[4] = 1, 7
	g.Expect(ParseNamespaceList(list)).To(Equal([]uint32{1, 7}))
	list[4] = 1
	_, err = ParseNamespaceList(list)
	g.Expect(err).To(HaveOccurred())
}

func TestControllerList(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 4096)
	g.Expect(ParseControllerList(data)).To(BeEmpty())
	data[0], data[2], data[4] = 2, 1, 7
	g.Expect(ParseControllerList(data)).To(Equal([]uint16{1, 7}))
	for name, change := range map[string]func([]byte) []byte{
		"not ascending": func(b []byte) []byte { b[4] = 1; return b },
		"too many":      func(b []byte) []byte { b[0], b[1] = 0, 8; return b },
		"short":         func(b []byte) []byte { return b[:100] },
	} {
		_, err := ParseControllerList(change(slices.Clone(data)))
		g.Expect(err).To(HaveOccurred(), name)
	}
}

func TestDiscovery(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 80)
	data[3] = 76
	copy(data[48:], []byte{0, 1, 0x10, 12})
	copy(data[64:], []byte{0, 2, 0x10, 12, 0b1111})
	g.Expect(ParseDiscovery(data)).To(Equal(Locking{Enabled: true, Locked: true, Encrypts: true}))
	_, err := ParseDiscovery(data[:64])
	g.Expect(err).To(MatchError(errNoLocking))
}

func TestConfiguration(t *testing.T) {
	g := NewWithT(t)
	data := make([]byte, 512)
	binary.LittleEndian.PutUint64(data[6:], 999)
	g.Expect(ParseConfiguration(data)).To(Equal(uint64(1000)))
	g.Expect(ParseConfiguration(make([]byte, 512))).To(BeZero())
	g.Expect(ParseConfiguration(nil)).To(BeZero())
}

func TestHealth(t *testing.T) {
	g := NewWithT(t)
	for warning, want := range map[byte]wire.Health{
		0: wire.HealthOK, 1: wire.HealthWarning, 2: wire.HealthWarning, 4: wire.HealthCritical, 8: wire.HealthCritical, 16: wire.HealthCritical, 32: wire.HealthWarning, 64: wire.HealthOK,
	} {
		log := make([]byte, 512)
		log[0] = warning
		g.Expect(ParseHealth(log)).To(Equal(want), "%#x", warning)
	}
	worn := make([]byte, 512)
	worn[5] = 100
	g.Expect(ParseHealth(worn)).To(Equal(wire.HealthWarning))
	_, err := ParseHealth(nil)
	g.Expect(err).To(HaveOccurred())
}

// FuzzNVMe: whatever a controller answers, nothing panics, and what is accepted is in its bounds.
func FuzzNVMe(f *testing.F) {
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = ParseController(data)
		_, _ = ParseHealth(data)
		if n, err := ParseNamespace(data); err == nil && n.Format&^0x31ff != 0 {
			t.Fatalf("%#x has bits that keep no format", n.Format)
		}
		if list, err := ParseNamespaceList(data); err == nil && len(list) > 1024 {
			t.Fatalf("%d namespaces", len(list))
		}
		if list, err := ParseControllerList(data); err == nil && len(list) > 2047 {
			t.Fatalf("%d controllers", len(list))
		}
		if s, err := ParseSanitizeStatus(data); err == nil && (s.Percent < 0 || s.Percent > 100) {
			t.Fatalf("%d%%", s.Percent)
		}
	})
}

// FuzzATA is FuzzNVMe for ATA drives.
func FuzzATA(f *testing.F) {
	f.Add(make([]byte, 512))
	f.Fuzz(func(t *testing.T, data []byte) {
		if id, err := ParseIdentity(data); err == nil && (id.SectorSize < 512 || id.SectorSize > 1<<20 || id.Security.Normal < 0) {
			t.Fatalf("%+v", id)
		}
		if ParseConfiguration(data) > 1<<48 {
			t.Fatal("too many sectors")
		}
		if r, _, err := ParseRegisters(data); err == nil && r.LBA >= 1<<48 {
			t.Fatalf("%+v", r)
		} else if s, err := ParseATASanitize(r); err == nil && (s.Percent < 0 || s.Percent > 100) {
			t.Fatalf("%+v", s)
		}
	})
}

// FuzzSCSI is FuzzNVMe for SCSI drives and TCG features.
func FuzzSCSI(f *testing.F) {
	f.Add([]byte{0x70, 0, 2, 0, 0, 0, 0, 10, 0, 0, 0, 0, 4, 0x1b, 0, 0x80, 0x40, 0})
	f.Add([]byte{0x72, 2, 4, 0x1b, 0, 0, 0, 8, 2, 6, 0, 0, 0x80, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ParseSense(data); err == nil && (s.Progress < -1 || s.Progress > 0xffff || s.Key > 15) {
			t.Fatalf("%+v", s)
		}
		if pages, err := ParseVitalPages(data); err == nil && len(pages) > len(data) {
			t.Fatal("more pages than bytes")
		}
		_ = ParseSupported(data)
		_ = ParseProtection(data)
		_, _ = ParseDiscovery(data)
	})
}

// TestRegistersOfFailedCommand: libata returns a failed command in the fixed format, with the code of the error in place of that of the registers.
func TestRegistersOfFailedCommand(t *testing.T) {
	g := NewWithT(t)
	sense := []byte{0xf0, 0, 0x0b, 0x04, 0x51, 0x40, 0x02, 10, 0, 0x01, 0, 0, 0, 0, 0, 0, 0, 0}
	r, whole, err := ParseRegisters(sense)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(whole).To(BeFalse())
	g.Expect(r).To(Equal(Registers{Error: 4, Status: 0x51, Count: 2, LBA: 1}))
	sense[4] = 0x50 // no error in the status: the sense is not of an ATA command
	_, _, err = ParseRegisters(sense)
	g.Expect(err).To(HaveOccurred())
}
