package ipmi

import (
	"context"
	"encoding/binary"
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// script is a session with scripted responses.
type script struct {
	answer func(q ipmiRequest) (types.CompletionCode, []byte)
	asked  []ipmiRequest
}

func (s *script) send(_ context.Context, q ipmiRequest) (types.CompletionCode, []byte, error) {
	s.asked = append(s.asked, q)
	code, data := s.answer(q)
	return code, data, nil
}

func (*script) close(context.Context) error { return nil }

// TestEndlessRepository: reading ends for record IDs that never end or form a circle.
func TestEndlessRepository(t *testing.T) {
	for name, next := range map[string]func(uint16) uint16{
		"endless": func(id uint16) uint16 { return (id + 1) % lastRecord },
		"round":   func(id uint16) uint16 { return (id + 1) % 3 },
		"itself":  func(id uint16) uint16 { return id },
	} {
		g := NewWithT(t)
		s := &script{answer: func(q ipmiRequest) (types.CompletionCode, []byte) {
			if q.command.ID != types.CommandGetSDR.ID {
				return types.CodeOK, []byte{1, 0}
			}
			id := next(binary.LittleEndian.Uint16(q.data[2:]))
			return types.CodeOK, append(binary.LittleEndian.AppendUint16(nil, id), 1, 0, 0x51, 0xc0, 3, 1, 2, 3)
		}}
		g.Expect((&conn{bmc: s}).Sensors(t.Context())).To(BeEmpty(), name)
		g.Expect(len(s.asked)).To(BeNumerically("<=", maxRecords+1), name)
	}
}

// TestEventLogSteps: the search follows the steps of the record IDs, skips gaps, and ends.
func TestEventLogSteps(t *testing.T) {
	record := func(id, next uint16) []byte {
		entry := types.SEL{RecordID: id, RecordType: 0x02, Standard: &types.SELStandard{Timestamp: time.Unix(1700000000+int64(id), 0), SensorType: 0x12}}
		return append(binary.LittleEndian.AppendUint16(nil, next), entry.Pack()...)
	}
	for _, c := range []struct {
		name              string
		first, last, step uint16
		gone              uint16 // one that was deleted
		found, askes      int    // askes: the information, the newest and the first entry, and the others
	}{
		{name: "one by one", first: 1, last: 9000, step: 1, found: bmc.MaxLogEntries, askes: bmc.MaxLogEntries + 2},
		{name: "in steps", first: 18, last: 18 * 50, step: 18, found: 50, askes: 52},
		{name: "with a gap", first: 1, last: 90, step: 1, gone: 88, found: bmc.MaxLogEntries, askes: bmc.MaxLogEntries + 3},
		{name: "fewer than the limit", first: 1, last: 3, step: 1, found: 3, askes: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := &script{}
			s.answer = func(q ipmiRequest) (types.CompletionCode, []byte) {
				if q.command.ID == types.CommandGetSELInfo.ID {
					info := make([]byte, 14)
					binary.LittleEndian.PutUint16(info[1:], (c.last-c.first)/c.step+1)
					return types.CodeOK, info
				}
				id := binary.LittleEndian.Uint16(q.data[2:])
				switch id {
				case 0:
					return types.CodeOK, record(c.first, c.first+c.step)
				case lastRecord:
					return types.CodeOK, record(c.last, lastRecord)
				}
				if id == c.gone || id < c.first || (id-c.first)%c.step != 0 {
					return types.CodeRequestedDataNotPresent, nil
				}
				return types.CodeOK, record(id, id+c.step)
			}
			logs, err := (&conn{bmc: s}).ReadLogs(t.Context(), nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(logs).To(HaveLen(1))
			events := logs[0].Entries
			g.Expect(events).To(HaveLen(c.found))
			g.Expect(s.asked).To(HaveLen(c.askes), "not the whole log is read")
			for i := range len(events) - 1 {
				g.Expect(events[i].Time).To(BeTemporally(">", events[i+1].Time))
			}
		})
	}
}

// TestBootSequence: the flags are written as ipmitool does, after their expiry has been disabled.
func TestBootSequence(t *testing.T) {
	g := NewWithT(t)
	s := &script{answer: func(q ipmiRequest) (types.CompletionCode, []byte) {
		if q.command.ID == types.CommandGetSystemBootOptions.ID {
			return types.CodeOK, []byte{1, 5, 0xa0, 0x04, 0, 0, 0}
		}
		if q.command.ID == types.CommandSetSystemBootOptions.ID && q.data[0] != 5 {
			return types.CodeParameterNotSupported, nil // only the flags are mandatory
		}
		return types.CodeOK, nil
	}}
	result, err := (&conn{bmc: s, quirk: &quirk{}}).SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(bmc.BootResult{Method: methodFlags, ReadBack: &bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}}))
	var written [][]byte
	for _, q := range s.asked {
		written = append(written, q.data)
	}
	g.Expect(written).To(Equal([][]byte{{3, 0x08}, {0, 1}, {4, 1, 1}, {5, 0xa0, 0x04, 0, 0, 0}, {0, 2}, {0, 0}, {5, 0, 0}}))
}

func TestSystemUUID(t *testing.T) {
	guid := func(b ...byte) [16]byte { return [16]byte(b) }
	for _, c := range []struct {
		name string
		guid [16]byte
		want string
	}{
		{"IPMI order", guid(0x14, 0xb7, 0x90, 0x8c, 0x2f, 0x5e, 0xd3, 0xa1, 0x6e, 0x4b, 0x41, 0x9c, 0x52, 0x3a, 0x0f, 0x7d), "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"},
		{"SMBIOS order", guid(0x52, 0x3a, 0x0f, 0x7d, 0x41, 0x9c, 0x6e, 0x4b, 0xa1, 0xd3, 0x5e, 0x2f, 0x8c, 0x90, 0xb7, 0x14), "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"},
		{"RFC 4122 order", guid(0x7d, 0x0f, 0x3a, 0x52, 0x9c, 0x41, 0x4b, 0x6e, 0xa1, 0xd3, 0x5e, 0x2f, 0x8c, 0x90, 0xb7, 0x14), "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"},
		{"Dell, SMBIOS order", guid(0x44, 0x45, 0x4c, 0x4c, 0x35, 0x00, 0x10, 0x4e, 0x80, 0x51, 0xb4, 0xc0, 0x4f, 0x4d, 0x59, 0x31), "4c4c4544-0035-4e10-8051-b4c04f4d5931"},
		{"no variant of RFC 4122", guid(0x38, 0x39, 0x33, 0x31, 0x34, 0x36, 0x4d, 0x32, 0x32, 0x32, 0x30, 0x31, 0x30, 0x32, 0x5a, 0x42), ""},
		{"not set", [16]byte{}, ""},
		{"all ones", guid(255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255), ""},
	} {
		NewWithT(t).Expect(systemUUID(c.guid)).To(Equal(c.want), c.name)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"PowerEdge R640  ": "PowerEdge R640", "To be filled by O.E.M.": "", "N/A": "", "0000000000": "", "\x1b[31mred\x00": "[31mred", "NONE": "", "Nonesuch": "Nonesuch",
	} {
		NewWithT(t).Expect(text(types.TypeLength(0xc0|len(in)), []byte(in))).To(Equal(want))
	}
}

// TestQuirks: an entry applies to its vendor, model and firmware, and has an observation.
func TestQuirks(t *testing.T) {
	g := NewWithT(t)
	found, names := quirksOf("Supermicro", "X11DSC+", "1.68")
	g.Expect(names).To(Equal([]string{"EFIFlagBootsDisk"}))
	g.Expect((&conn{quirk: &found}).BootMethods()).To(Equal([]bmc.BootMethod{methodNoMode, methodFlags, methodContinuous}))
	_, names = quirksOf("Supermicro", "X11DSC+", "1.74")
	g.Expect(names).To(BeEmpty())
	source := regexp.MustCompile(`github\.com/|IPMI 2\.0, \d`)
	for _, known := range knownQuirks {
		g.Expect(known.observation).To(MatchRegexp(source.String()), known.name)
	}
}

// TestPanic: a panic of a decoder is the error of an invalid response.
func TestPanic(t *testing.T) {
	err := decode("Read", func() error { return errors.New(string([]byte{}[1:2])) })
	NewWithT(t).Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
}

// FuzzAnswers: for any response, each call ends after a limited number of requests, and its error is a *bmc.Error.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 16, 1, 0, 1, 0, 0x51, 1, 43, 0x20, 0, 1, 3, 4})
	f.Add([]byte{0, 8, 1, 0, 1, 2, 3, 4, 0, 0xcb, 0, 0, 5})
	record := (&types.SDRFull{GeneratorID: types.GeneratorBMC, SensorEventReadingType: 1, SensorUnit: types.SensorUnit{BaseUnit: 1}}).Pack(1)
	f.Add(append(append([]byte{0, 2, 1, 0, 0, byte(len(record) + 2), 0xff, 0xff}, record...), 0, 3, 21, 0x40, 0xc0))
	f.Fuzz(func(t *testing.T, answers []byte) {
		rest := answers
		s := &script{answer: func(ipmiRequest) (types.CompletionCode, []byte) {
			if len(rest) < 2 {
				if rest = answers; len(rest) < 2 {
					return types.CodeOK, nil
				}
			}
			code, length := types.CompletionCode(rest[0]), min(int(rest[1]), len(rest)-2)
			data := rest[2 : 2+length]
			rest = rest[2+length:]
			if code < 0xc0 {
				code = types.CodeOK
			}
			return code, data
		}}
		c, ctx := &conn{bmc: s}, t.Context()
		for name, call := range map[string]func() error{
			"Describe":     func() error { _, err := c.Describe(ctx); return err },
			"Inspect":      func() error { _, err := c.Inspect(ctx); return err },
			"Sensors":      func() error { _, err := c.Sensors(ctx); return err },
			"ReadLogs":     func() error { _, err := c.ReadLogs(ctx, nil); return err },
			"Clock":        func() error { _, err := c.Clock(ctx); return err },
			"PowerState":   func() error { _, err := c.PowerState(ctx); return err },
			"Cycle":        func() error { return c.Cycle(ctx) },
			"BootOverride": func() error { _, err := c.BootOverride(ctx); return err },
			"SetBootOverride": func() error {
				_, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootCD, Mode: bmc.BootUEFI}, "")
				return err
			},
		} {
			s.asked = nil
			err := call()
			var known *bmc.Error
			if err != nil && !errors.As(err, &known) {
				t.Errorf("%s: an error without a kind: %v", name, err)
			}
			if most := 20 * maxRecords; len(s.asked) > most {
				t.Errorf("%s asked %d questions", name, len(s.asked))
			}
		}
	})
}
