// Package promise has what must be true of hosts, machines, disks and records, whatever happens. The properties of the lifecycle, the crashes, the faults and the
// soak report violations by these names (docs/development/endurance.md says who judges which). Only tests use it.
package promise

// Who has what.
const (
	OneHost    = "a machine has one host"
	OneMachine = "a host has one machine"
	Claimable  = "only a host that is offered is claimed"
	Forgotten  = "a claim is not lost"
	Unclaimed  = "a machine gets a host while hosts are available"
)

// What is done to a server.
const (
	Command    = "a server gets no command without a reason"
	Absence    = "a missing object causes no action"
	PowerCycle = "a boot has one power cycle"
	Slots      = "no boot attempt begins without a boot slot"
	Data       = "bootstrap data is served once, and to one address"
)

// What a server has on its disks.
const (
	Commit = "a disk is made bootable by permission, and its place is recorded before"
	System = "a claim has one system, on the host that it has"
	Clean  = "a free host is off and clean"
	Erased = "a free host has no disk that boots, and no bootstrap data"
	Proven = "a host whose disks were all erased has the record of it"
)

// What is recorded.
const (
	Records = "a record is true, stays, and is written before what it is for"
	Numbers = "the number of a host's boots never falls"
	Void    = "the boot of a free host is void"
)

// What ends.
const (
	Explained = "a wait has a deadline and a reason"
	Ends      = "everything comes to rest, and no phase hangs"
)
