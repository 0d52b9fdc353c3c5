package erase

import (
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

// Expectation is what the samples of a disk must be after a method.
type Expectation string

// What is expected.
const (
	// Zeros means that everything was overwritten, and that all of it is read back.
	Zeros Expectation = "everything is read back, and is zero"
	// Changed means that no sample has the content that it had: what a crypto erase leaves is random.
	Changed Expectation = "no sample has the content that it had before"
	// Blank means that each sample is zeros or ones.
	Blank Expectation = "each sample is zeros or ones"
	// BlankOrChanged means that each sample is zeros or ones, or has other content than before.
	BlankOrChanged Expectation = "each sample is zeros or ones, or has other content than before"
)

// Method is a method for one drive.
type Method struct {
	Command drive.Command
	// Name, Class and Basis are those of wire.DiskErasure.
	Name   string
	Class  wire.ErasePolicy
	Basis  string
	Expect Expectation
}

// Media is what a row of the table is for.
type Media string

const (
	anyMedia   Media = ""
	solidState Media = "solid state"
	hardDisk   Media = "hard disk"
)

// Row is a row of the table.
type Row struct {
	Method

	// Kind and Media are the drives that the row is for. Encrypts is true if it is only for drives that always encrypt all user data.
	Kind     drive.Kind
	Media    Media
	Encrypts bool
	// Time is how long it takes, for the documentation.
	Time string
}

const (
	clear2  = "NIST SP 800-88 Rev. 2, 3.1.1 (Clear)"
	purge2  = "NIST SP 800-88 Rev. 2, 3.1.2 (Purge)"
	crypto2 = "NIST SP 800-88 Rev. 2, 3.1.2 (Purge) and 3.2 (cryptographic erase)"
	ieee    = "; IEEE 2883-2022, "
)

const (
	seconds = "seconds"
	minutes = "seconds to minutes"
	hours   = "1.5 to 2 hours per TB"
	twice   = "size / rate, twice: 3 to 4 hours per TB of a hard disk"
)

// Table says which command meets which policy on which drive, by which clause of a standard, and how that is verified. The page docs/reference/erase-methods.md shows it, and a test
// compares both. The classes are those of NIST SP 800-88 Rev. 2: 3.1.1 (Clear) and 3.1.2 (Purge), with 3.2 for cryptographic erase. It leaves the commands to IEEE
// 2883-2022. A class is never higher than what is certain: where the standards differ, the table has the lower one. For each kind of drive the first row that meets the policy, and that the drive offers, is tried first.
var Table = []Row{
	{Method{drive.NVMeSanitizeCrypto, "NVMe sanitize, crypto erase", wire.PolicyPurge, crypto2 + ieee + "purge of NVMe by Sanitize", Changed}, drive.NVMe, anyMedia, true, seconds},
	{Method{drive.NVMeSanitizeBlock, "NVMe sanitize, block erase", wire.PolicyPurge, purge2 + ieee + "purge of NVMe by Sanitize", BlankOrChanged}, drive.NVMe, anyMedia, false, minutes},
	{Method{drive.NVMeFormatCrypto, "NVMe format, cryptographic erase", wire.PolicyPurge, crypto2 + "; NVM Express Base Specification 2.1, 5.1.10", Changed}, drive.NVMe, anyMedia, true, seconds},
	{Method{drive.NVMeFormatCrypto, "NVMe format, cryptographic erase", wire.PolicyClear, clear2 + ieee + "clear of NVMe by Format NVM", Changed}, drive.NVMe, anyMedia, false, seconds},
	{Method{drive.NVMeFormatUser, "NVMe format, user data erase", wire.PolicyClear, clear2 + ieee + "clear of NVMe by Format NVM", BlankOrChanged}, drive.NVMe, anyMedia, false, minutes},
	{Method{drive.Overwrite, "Overwrite with zeros", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Zeros}, drive.NVMe, anyMedia, false, "size / rate, twice"},

	{Method{drive.ATASanitizeCrypto, "ATA sanitize, crypto scramble", wire.PolicyPurge, crypto2 + ieee + "purge of ATA by SANITIZE DEVICE", Changed}, drive.ATA, anyMedia, true, seconds},
	{Method{drive.ATASanitizeBlock, "ATA sanitize, block erase", wire.PolicyPurge, purge2 + ieee + "purge of ATA by SANITIZE DEVICE", BlankOrChanged}, drive.ATA, anyMedia, false, minutes},
	{Method{drive.ATAEnhancedErase, "ATA enhanced security erase", wire.PolicyClear, clear2 + ieee + "clear of ATA by SECURITY ERASE UNIT", BlankOrChanged}, drive.ATA, solidState, false, minutes},
	{Method{drive.ATAErase, "ATA security erase", wire.PolicyClear, clear2 + ieee + "clear of ATA by SECURITY ERASE UNIT", Blank}, drive.ATA, solidState, false, minutes},
	{Method{drive.Overwrite, "Overwrite with zeros", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Zeros}, drive.ATA, anyMedia, false, twice},
	{Method{drive.ATASanitizeOverwrite, "ATA sanitize, overwrite", wire.PolicyPurge, purge2 + ieee + "purge of ATA by SANITIZE DEVICE", Blank}, drive.ATA, hardDisk, false, hours},
	{Method{drive.ATASanitizeOverwrite, "ATA sanitize, overwrite", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Blank}, drive.ATA, solidState, false, hours},
	{Method{drive.ATAEnhancedErase, "ATA enhanced security erase", wire.PolicyClear, clear2 + ieee + "clear of ATA by SECURITY ERASE UNIT", BlankOrChanged}, drive.ATA, hardDisk, false, hours},
	{Method{drive.ATAErase, "ATA security erase", wire.PolicyClear, clear2 + ieee + "clear of ATA by SECURITY ERASE UNIT", Blank}, drive.ATA, hardDisk, false, hours},

	{Method{drive.SCSISanitizeCrypto, "SCSI sanitize, cryptographic erase", wire.PolicyPurge, crypto2 + ieee + "purge of SCSI by SANITIZE", Changed}, drive.SCSI, anyMedia, true, seconds},
	{Method{drive.SCSISanitizeBlock, "SCSI sanitize, block erase", wire.PolicyPurge, purge2 + ieee + "purge of SCSI by SANITIZE", BlankOrChanged}, drive.SCSI, anyMedia, false, minutes},
	{Method{drive.Overwrite, "Overwrite with zeros", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Zeros}, drive.SCSI, anyMedia, false, twice},
	{Method{drive.SCSISanitizeOverwrite, "SCSI sanitize, overwrite", wire.PolicyPurge, purge2 + ieee + "purge of SCSI by SANITIZE", Blank}, drive.SCSI, hardDisk, false, hours},
	{Method{drive.SCSISanitizeOverwrite, "SCSI sanitize, overwrite", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Blank}, drive.SCSI, solidState, false, hours},

	{Method{drive.Overwrite, "Overwrite with zeros", wire.PolicyClear, clear2 + ieee + "clear by overwriting", Zeros}, drive.Block, anyMedia, false, "size / rate, twice"},
}

// isFor is true for a drive that the row is for, and that offers the command.
func (r Row) isFor(f drive.Facts) bool {
	switch {
	case r.Kind != f.Kind, r.Media == solidState && f.Rotational, r.Media == hardDisk && !f.Rotational, r.Encrypts && !f.Encrypts:
		return false
	default:
		return slices.Contains(f.Commands, r.Command)
	}
}

// Class returns the strongest policy that the commands of a drive meet, Clear or Purge, whatever stands in their way at the moment. It is empty if no command is known.
func Class(f drive.Facts) wire.ErasePolicy {
	var class wire.ErasePolicy
	for _, r := range Table {
		if r.isFor(f) && r.Class.Reaches(class) {
			class = r.Class
		}
	}
	return class
}

// choose returns the methods that meet the policy Clear or Purge on a drive, the best one first, and why others do not. The policy Metadata has one method, which asks no
// drive.
func choose(policy wire.ErasePolicy, f drive.Facts) (methods []Method, refused []string) {
	if policy != wire.PolicyClear && policy != wire.PolicyPurge {
		return nil, []string{"the policy is neither Clear nor Purge"}
	}
	var offered []Row
	for _, r := range Table {
		known := slices.ContainsFunc(offered, func(o Row) bool { return o.Command == r.Command })
		if r.isFor(f) && !known && r.Class.Reaches(policy) {
			offered = append(offered, r)
		}
	}
	if len(offered) == 0 {
		refused = append(refused, "it offers no command that meets the policy "+string(policy))
	}
	for _, o := range Obstacles {
		if !o.applies(f) {
			continue
		}
		before := len(offered)
		offered = slices.DeleteFunc(offered, func(r Row) bool { return o.forbids(r, policy, f) })
		if len(offered) < before {
			refused = append(refused, o.Message(f))
		}
	}
	for _, r := range offered {
		methods = append(methods, r.Method)
	}
	return methods, refused
}
