package erase

import (
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

// Obstacle is what forbids methods on a drive.
type Obstacle struct {
	// Name, Forbids and Remedy are for the documentation, and the remedy also for messages.
	Name, Forbids, Remedy string

	applies func(f drive.Facts) bool
	forbids func(r Row, policy wire.ErasePolicy, f drive.Facts) bool
	// detail, where not nil, replaces Name in messages.
	detail func(f drive.Facts) string
}

// Message is what a person reads.
func (o Obstacle) Message(f drive.Facts) string {
	name := o.Name
	if o.detail != nil {
		name = o.detail(f)
	}
	return fmt.Sprintf("%s, which forbids %s: %s", name, o.Forbids, o.Remedy)
}

// Obstacles are all of them.
var Obstacles = []Obstacle{
	{
		Name: "it is locked by an ATA password that this project did not set", Forbids: "all methods",
		Remedy:  "unlock it, or erase it with its PSID or its master password",
		applies: func(f drive.Facts) bool { return f.Locked }, forbids: everything,
	},
	{
		Name: "a part of it is locked by TCG Opal or Enterprise", Forbids: "all methods",
		Remedy:  "unlock it, or revert it with the PSID on its label",
		applies: func(f drive.Facts) bool { return f.OpalLocked }, forbids: everything,
	},
	{
		Name: "an earlier sanitize operation failed on it", Forbids: "all methods except sanitizing again",
		Remedy:  "sanitize it with the tool of its vendor, or destroy it; the agent does not leave the failure mode, because the data would be accessible again",
		applies: func(f drive.Facts) bool { return f.FailureMode },
		forbids: allButSanitizes,
	},
	{
		Name: "its NVMe subsystem may have several controllers, so another server may use it", Forbids: "to sanitize and to format it",
		Remedy:  "erase it by hand after a look at both sides",
		applies: func(f drive.Facts) bool { return f.Shared },
		forbids: anyCommand,
	},
	{
		Name: "a namespace of the same NVMe drive must not be touched", Forbids: "to sanitize it, and to format it where that formats all namespaces",
		Remedy:  "do not keep a part of a drive whose other parts must be purged",
		applies: func(f drive.Facts) bool { return f.ExcludesPart },
		forbids: func(r Row, _ wire.ErasePolicy, f drive.Facts) bool {
			return r.Command.Sanitizes() || r.Command != drive.Overwrite && f.FormatsAll
		},
	},
	{
		Name: "it has NVMe namespaces that this server does not have", Forbids: "all methods except sanitizing it",
		Remedy:  "attach or delete these namespaces",
		applies: func(f drive.Facts) bool { return f.Unattached > 0 },
		forbids: allButSanitizes,
		detail: func(f drive.Facts) string {
			return fmt.Sprintf("it has %d NVMe namespaces that this server does not have", f.Unattached)
		},
	},
	{
		Name: "a part of it is hidden by a host protected area, an accessible max address or a device configuration overlay", Forbids: "Purge",
		Remedy:  "remove what hides it (hdparm -N, hdparm --dco-restore), and erase it again",
		applies: func(f drive.Facts) bool { return f.Hidden > 0 },
		forbids: func(_ Row, policy wire.ErasePolicy, _ drive.Facts) bool { return policy == wire.PolicyPurge },
		detail: func(f drive.Facts) string {
			return fmt.Sprintf("%d bytes of it are hidden by %s", f.Hidden, f.HiddenBy)
		},
	},
	{
		Name: "the firmware of the server has frozen its ATA security", Forbids: "the ATA security erases",
		Remedy:  "switch the server off and on, suspend it once, or look for a setting of the firmware that freezes drives",
		applies: func(f drive.Facts) bool { return f.SecurityFrozen },
		forbids: func(r Row, _ wire.ErasePolicy, _ drive.Facts) bool {
			return r.Command == drive.ATAErase || r.Command == drive.ATAEnhancedErase
		},
	},
	{
		Name: "its ATA sanitize commands are frozen", Forbids: "the ATA sanitize commands",
		Remedy:  "switch the server off and on",
		applies: func(f drive.Facts) bool { return f.SanitizeFrozen }, forbids: sanitizes,
	},
}

func everything(Row, wire.ErasePolicy, drive.Facts) bool { return true }

func anyCommand(r Row, _ wire.ErasePolicy, _ drive.Facts) bool { return r.Command != drive.Overwrite }

func sanitizes(r Row, _ wire.ErasePolicy, _ drive.Facts) bool { return r.Command.Sanitizes() }

func allButSanitizes(r Row, _ wire.ErasePolicy, _ drive.Facts) bool { return !r.Command.Sanitizes() }
