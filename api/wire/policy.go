package wire

import "slices"

// ErasePolicy is what happens to the disks of a server after a machine has released it. It is also the class of an erase method: the strongest policy that the
// method meets. The empty policy of a host erases the metadata of the disks that the provider wrote.
// +kubebuilder:validation:Enum=None;Metadata;Clear;Purge;Manual
type ErasePolicy string

const (
	// PolicyNone erases no disk: the data of a machine stays on the server's disks. The host becomes available when the server is confirmed to be off
	// and its BMC has no boot override and no virtual media. That is enough for a machine that ran from memory. The next machine boots from the network, so
	// only spec.power: On or a person boots from the disks.
	PolicyNone ErasePolicy = "None"
	// PolicyMetadata boots the agent, which overwrites the bootstrap data and erases partition tables and signatures of all disks. A host without a policy has only
	// the disks erased in this way that the provider wrote.
	PolicyMetadata ErasePolicy = "Metadata"
	// PolicyClear boots the agent, which erases all disks so that their data cannot be read through their interface (Clear of NIST SP 800-88 Rev. 2).
	PolicyClear ErasePolicy = "Clear"
	// PolicyPurge boots the agent, which erases all disks so that their data cannot be recovered in a laboratory either (Purge of NIST SP 800-88 Rev. 2).
	PolicyPurge ErasePolicy = "Purge"
	// PolicyManual erases no disk. It puts the host into quarantine until a person has erased the disks and removed the quarantine.
	PolicyManual ErasePolicy = "Manual"
)

// Reaches is true if a policy or a class is at least as strong as another. The empty policy is stronger than None and weaker than Metadata. It is false for Manual,
// and for a policy that is unknown.
func (p ErasePolicy) Reaches(least ErasePolicy) bool {
	order := []ErasePolicy{PolicyNone, "", PolicyMetadata, PolicyClear, PolicyPurge}
	is, want := slices.Index(order, p), slices.Index(order, least)
	return is >= 0 && want >= 0 && is >= want
}
