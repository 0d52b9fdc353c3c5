package erase

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var update = flag.Bool("update", false, "write the tables of the page")

// pages has the page of each table of this package.
var pages = map[string]string{"methods": "../../../../docs/reference/erase-methods.md", "obstacles": "../../../../docs/cleaning.md"}

// TestPage: the pages have the tables of this package.
func TestPage(t *testing.T) {
	g := NewWithT(t)
	for name, table := range map[string]string{"methods": methods(), "obstacles": obstacles()} {
		page := pages[name]
		content, err := os.ReadFile(page)
		g.Expect(err).NotTo(HaveOccurred())
		text := string(content)
		start, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(text, start)
		g.Expect(found).To(BeTrue(), "%s has no %s", page, start)
		was, after, found := strings.Cut(rest, end)
		g.Expect(found).To(BeTrue())
		if *update {
			g.Expect(os.WriteFile(page, []byte(before+start+table+end+after), 0o600)).To(Succeed())
			continue
		}
		g.Expect(was).To(Equal(table), "run go test ./cmd/agent/internal/erase -args -update")
	}
}

func methods() string {
	kinds := map[drive.Kind]string{drive.NVMe: "NVMe", drive.ATA: "SATA", drive.SCSI: "SAS, SCSI", drive.Block: "virtio, others"}
	var out strings.Builder
	out.WriteString("| drive | policy | method | class | basis | typical time | verification | tested on |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range Table {
		what := kinds[r.Kind]
		if r.Media != anyMedia {
			what += ", " + string(r.Media)
		}
		if r.Encrypts {
			what += ", which always encrypts"
		}
		policies := "`Clear`"
		if r.Class == wire.PolicyPurge {
			policies = "`Purge`, `Clear`"
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", what, policies, r.Name, r.Class, r.Basis, r.Time, r.Expect, testedOn(r))
	}
	return out.String()
}

// testedOn says on which drives the tests run a method: TestErasure of hack/agenttest has those that QEMU emulates, all other methods run on drivetest only.
func testedOn(r Row) string {
	if r.Command == drive.NVMeFormatUser || r.Command == drive.Overwrite && r.Kind != drive.NVMe {
		return "QEMU"
	}
	return "fakes"
}

func obstacles() string {
	var out strings.Builder
	out.WriteString("| what the agent finds | what that forbids | remedy |\n| --- | --- | --- |\n")
	for _, o := range Obstacles {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", o.Name, o.Forbids, o.Remedy)
	}
	return out.String()
}

func all() []drive.Command {
	var out []drive.Command
	for _, r := range Table {
		if !slices.Contains(out, r.Command) {
			out = append(out, r.Command)
		}
	}
	return out
}

func TestChoose(t *testing.T) {
	commands := func(c ...drive.Command) []drive.Command { return append(c, drive.Overwrite) }
	for _, c := range []struct {
		name   string
		policy wire.ErasePolicy
		facts  drive.Facts
		want   []drive.Command
	}{
		{"all of NVMe", wire.PolicyPurge, drive.Facts{Kind: drive.NVMe, Encrypts: true, Commands: all()}, []drive.Command{drive.NVMeSanitizeCrypto, drive.NVMeSanitizeBlock, drive.NVMeFormatCrypto}},
		{"NVMe that only formats", wire.PolicyPurge, drive.Facts{Kind: drive.NVMe, Commands: commands(drive.NVMeFormatCrypto, drive.NVMeFormatUser)}, nil},
		{"NVMe that only formats, for Clear", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, Commands: commands(drive.NVMeFormatCrypto, drive.NVMeFormatUser)}, []drive.Command{drive.NVMeFormatCrypto, drive.NVMeFormatUser, drive.Overwrite}},
		{"a hard disk", wire.PolicyClear, drive.Facts{Kind: drive.ATA, Rotational: true, Commands: commands(drive.ATASanitizeOverwrite, drive.ATAErase)}, []drive.Command{drive.Overwrite, drive.ATASanitizeOverwrite, drive.ATAErase}},
		{"a hard disk, for Purge", wire.PolicyPurge, drive.Facts{Kind: drive.ATA, Rotational: true, Commands: commands(drive.ATASanitizeOverwrite, drive.ATAErase)}, []drive.Command{drive.ATASanitizeOverwrite}},
		{"an old hard disk, for Purge", wire.PolicyPurge, drive.Facts{Kind: drive.ATA, Rotational: true, Commands: commands(drive.ATAErase)}, nil},
		{"an SSD with crypto scramble that does not say that it encrypts", wire.PolicyPurge, drive.Facts{Kind: drive.ATA, Commands: commands(drive.ATASanitizeCrypto)}, nil},
		{"a SAS SSD", wire.PolicyPurge, drive.Facts{Kind: drive.SCSI, Encrypts: true, Commands: commands(drive.SCSISanitizeCrypto, drive.SCSISanitizeBlock)}, []drive.Command{drive.SCSISanitizeCrypto, drive.SCSISanitizeBlock}},
		{"a SAS SSD that overwrites itself", wire.PolicyPurge, drive.Facts{Kind: drive.SCSI, Commands: commands(drive.SCSISanitizeOverwrite)}, nil},
		{"virtio", wire.PolicyClear, drive.Facts{Kind: drive.Block, Commands: commands()}, []drive.Command{drive.Overwrite}},
		{"virtio, for Purge", wire.PolicyPurge, drive.Facts{Kind: drive.Block, Commands: commands()}, nil},
		{"Metadata", wire.PolicyMetadata, drive.Facts{Kind: drive.Block, Commands: commands()}, nil},
		{"locked", wire.PolicyClear, drive.Facts{Kind: drive.ATA, Locked: true, Commands: all()}, nil},
		{"Opal", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, OpalLocked: true, Encrypts: true, Commands: all()}, nil},
		{"failure mode", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, FailureMode: true, Encrypts: true, Commands: all()}, []drive.Command{drive.NVMeSanitizeCrypto, drive.NVMeSanitizeBlock}},
		{"several controllers", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, Shared: true, Encrypts: true, Commands: all()}, []drive.Command{drive.Overwrite}},
		{"several controllers, for Purge", wire.PolicyPurge, drive.Facts{Kind: drive.NVMe, Shared: true, Encrypts: true, Commands: all()}, nil},
		{"a kept namespace", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, ExcludesPart: true, Encrypts: true, Commands: all()}, []drive.Command{drive.NVMeFormatCrypto, drive.NVMeFormatUser, drive.Overwrite}},
		{"a kept namespace, and formats are of all", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, ExcludesPart: true, FormatsAll: true, Commands: all()}, []drive.Command{drive.Overwrite}},
		{"namespaces of others, and an excluded namespace", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, Unattached: 2, ExcludesPart: true, Encrypts: true, Commands: all()}, nil},
		{"namespaces of others", wire.PolicyClear, drive.Facts{Kind: drive.NVMe, Unattached: 2, Encrypts: true, Commands: all()}, []drive.Command{drive.NVMeSanitizeCrypto, drive.NVMeSanitizeBlock}},
		{"hidden sectors", wire.PolicyPurge, drive.Facts{Kind: drive.ATA, Hidden: 512, Encrypts: true, Commands: all()}, nil},
		{"frozen security", wire.PolicyClear, drive.Facts{Kind: drive.ATA, SecurityFrozen: true, Commands: commands(drive.ATAErase, drive.ATAEnhancedErase)}, []drive.Command{drive.Overwrite}},
		{"frozen sanitize", wire.PolicyPurge, drive.Facts{Kind: drive.ATA, SanitizeFrozen: true, Encrypts: true, Commands: all()}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			candidates, refused := choose(c.policy, c.facts)
			var got []drive.Command
			for _, candidate := range candidates {
				got = append(got, candidate.Command)
			}
			g.Expect(got).To(Equal(c.want))
			if len(c.want) == 0 {
				g.Expect(refused).NotTo(BeEmpty(), "a person must learn why")
			}
		})
	}
}

// TestPropertyChoose: no candidate is weaker than the policy, an overwrite by the agent is never Purge, a crypto erase is Purge only if the drive always encrypts,
// and a drive with a part that is kept is never sanitized.
func TestPropertyChoose(t *testing.T) {
	kinds := []drive.Kind{drive.NVMe, drive.ATA, drive.SCSI, drive.Block}
	rapid.Check(t, func(t *rapid.T) {
		f := drive.Facts{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Rotational: rapid.Bool().Draw(t, "rotational"), Encrypts: rapid.Bool().Draw(t, "encrypts"),
			FailureMode: rapid.Bool().Draw(t, "failure"), ExcludesPart: rapid.Bool().Draw(t, "kept"), Shared: rapid.Bool().Draw(t, "shared"),
			FormatsAll: rapid.Bool().Draw(t, "all"), Unattached: rapid.IntRange(0, 2).Draw(t, "unattached"), Hidden: rapid.Int64Range(0, 1).Draw(t, "hidden"),
			Commands: rapid.SliceOfDistinct(rapid.SampledFrom(all()), func(c drive.Command) drive.Command { return c }).Draw(t, "commands"),
		}
		policy := rapid.SampledFrom([]wire.ErasePolicy{wire.PolicyClear, wire.PolicyPurge}).Draw(t, "policy")
		candidates, refused := choose(policy, f)
		if len(candidates)+len(refused) == 0 {
			t.Fatal("there is no method, and no reason")
		}
		for _, c := range candidates {
			crypto := strings.Contains(string(c.Command), "Crypto")
			switch {
			case !slices.Contains(f.Commands, c.Command), policy == wire.PolicyPurge && c.Class != wire.PolicyPurge, c.Class == wire.PolicyMetadata:
				t.Fatalf("%+v for %s", c, policy)
			case c.Class == wire.PolicyPurge && (c.Command == drive.Overwrite || crypto && !f.Encrypts):
				t.Fatalf("%+v is no purge", c)
			case f.ExcludesPart && c.Command.Sanitizes(), f.FailureMode && c.Command == drive.Overwrite:
				t.Fatalf("%+v is forbidden", c)
			}
		}
	})
}

// TestClass: the class of a drive is that of the strongest method that it offers.
func TestClass(t *testing.T) {
	g := NewWithT(t)
	for _, c := range []struct {
		facts drive.Facts
		class wire.ErasePolicy
	}{
		{drive.Facts{}, ""},
		{drive.Facts{Kind: drive.Block, Commands: []drive.Command{drive.Overwrite}}, wire.PolicyClear},
		{drive.Facts{Kind: drive.NVMe, Commands: []drive.Command{drive.Overwrite, drive.NVMeFormatCrypto}}, wire.PolicyClear},
		{drive.Facts{Kind: drive.NVMe, Commands: []drive.Command{drive.Overwrite, drive.NVMeFormatCrypto}, Encrypts: true}, wire.PolicyPurge},
		{drive.Facts{Kind: drive.ATA, Commands: []drive.Command{drive.Overwrite, drive.ATASanitizeOverwrite}}, wire.PolicyClear},
		{drive.Facts{Kind: drive.ATA, Commands: []drive.Command{drive.Overwrite, drive.ATASanitizeOverwrite}, Rotational: true}, wire.PolicyPurge},
		{drive.Facts{Kind: drive.SCSI, Commands: []drive.Command{drive.Overwrite, drive.SCSISanitizeBlock}, FailureMode: true}, wire.PolicyPurge}, // obstacles may end
	} {
		g.Expect(Class(c.facts)).To(Equal(c.class), "%+v", c.facts)
	}
}
