// Package agent is the protocol between the boot server and the agent, the program that runs in a small ramdisk on a server. The agent reads the server's
// hardware, writes an image to a disk, and erases what a release must not leave. It listens on no port: it makes requests to the boot server, over HTTP or
// HTTPS. This package has the types and names of the protocol, and no logic.
//
// The agent sends the token of its boot with each request, in the header Authorization as a Bearer token (RFC 6750), and its version in HeaderVersion. Over HTTPS it also presents a certificate:
// it has made the key at its start, and the boot server binds the boot to the first key that it accepts. A boot goes
//
//	POST plan       the agent introduces itself and gets its Plan
//	POST inventory  what the agent found, a wire.Inspection (purpose Inspect)
//	GET manifest, GET image, POST data, POST commit    (purpose Provision)
//	POST progress   from time to time
//	POST result     the end of the plan, with what to do then
//
// Every step may be repeated: a boot server may restart, and an answer may be lost.
package agent

import "github.com/capbm-io/cluster-api-provider-baremetal/api/wire"

// Version is the version of the protocol. A boot server serves only agents of its own version: kernel, ramdisk and boot server come from the same image. During an
// upgrade an agent can meet a boot server of another release. If both have the same version, it finishes its plan; otherwise it is refused, and the attempt is repeated
// with the agent of the new release.
//
// Increment it with every change after which a program of the release before would misread a request or an answer: a field that changes its name, its type or its
// meaning, a new value of a field that the other side must understand, an endpoint that goes. A new field that the other side may ignore needs no new version. The fields of
// Hello keep their names and types: it is read before the version is compared.
// TestUpgrade runs the agent of the release before against this boot server, and the other way round.
const Version = 4

// HeaderVersion is the header with the Version of the agent, in each of its requests. An agent without it has version 1.
const HeaderVersion = "Capbm-Agent-Version"

const (
	// ParamServer is the URL of the boot server, without a slash at its end.
	ParamServer = "capbm.server"
	// ParamHost is the host, as "namespace/name".
	ParamHost = "capbm.host"
	// ParamToken is the token of the boot.
	ParamToken = "capbm.token"
	// ParamPins are the SHA-256 digests of the public keys (SubjectPublicKeyInfo) that the boot server's certificate may have, in base64url without padding,
	// separated by commas: the current and the next one (RFC 7469 uses the same digest). They are required for an https:// URL.
	ParamPins = "capbm.pins"
	// ParamNetwork is the static network of the host, a seed.Network as JSON in base64url without padding. The agent uses it if DHCP gives no address that
	// reaches the boot server. It is absent for a host without one.
	ParamNetwork = "capbm.network"
	// ParamStatic says when the agent uses that network: StaticFirst, or if it is absent, after DHCP.
	ParamStatic = "capbm.static"
	// StaticFirst is the value of ParamStatic for a server that may be in a network without DHCP. The agent sets the static network up at once. At interfaces
	// that have addresses in it, it tries DHCP only for the families for which the network has DHCP.
	StaticFirst = "first"
)

// TLSProtocol is a protocol that the agent offers in the TLS handshake (ALPN, RFC 7301) beside http/1.1, which is chosen: a client that offers it has a
// certificate. The boot server asks no other client for one, because iPXE ends the handshake then, if it was built without a certificate (EPERM_CLIENT_CERT).
const TLSProtocol = "capbm-agent"

const (
	EndpointPlan      = "plan"
	EndpointInventory = "inventory"
	EndpointManifest  = "manifest"
	EndpointImage     = "image"
	EndpointData      = "data"
	EndpointCommit    = "commit"
	EndpointProgress  = "progress"
	EndpointResult    = "result"
)

// Path is the path of an endpoint. host is "namespace/name".
func Path(host, endpoint string) string { return "/agent/" + host + "/" + endpoint }

// The status codes of answers. A refusal of the handler of an endpoint has an Error as its body; one that came before it, such as 429, has no body or a text.
//
//	200  the answer, as JSON
//	202  not yet: the agent asks again after Retry-After seconds
//	204  accepted, without an answer
//	401  the token is not valid: the boot is over, and the agent powers the server off
//	403  refused: the plan has failed, and the agent reports no more
//	409  the agent is not the one of the host, and touches nothing: the reason in the body is VersionDiffers or OtherServer
//	429, 5xx  the agent asks again, with a back-off. 429 is the answer while too many requests of its network failed

// Hello introduces an agent. It is the body of a request for a plan.
type Hello struct {
	// Release is the release of the agent, for messages.
	Release string `json:"release,omitempty"`
	// Firmware is UEFI or BIOS: how the ramdisk was booted.
	Firmware wire.FirmwareMode `json:"firmware"`
	// SecureBoot is Enabled or Disabled, as the firmware says. It is empty for BIOS, and if it is unknown.
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
	// Architecture is that of the processor, in the notation of Kubernetes.
	Architecture string `json:"architecture"`
	// Kernel is the release of the kernel.
	Kernel string `json:"kernel,omitempty"`
	// Server is the server that the agent runs on.
	Server Server `json:"server,omitzero"`
}

// Server identifies a server, as its firmware does (SMBIOS type 1, DSP0134 section 7.2). Empty fields are unknown.
type Server struct {
	SystemUUID   string `json:"systemUUID,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Purpose is what a plan is for.
type Purpose string

const (
	// Inspect reads the hardware. It opens no disk for writing.
	Inspect Purpose = "Inspect"
	// Provision writes an image to a disk.
	Provision Purpose = "Provision"
	// Clean erases what a release must not leave on the disks.
	Clean Purpose = "Clean"
	// Configure does nothing. That the agent runs shows that the server boots with new firmware settings, and its Result has the state of Secure Boot.
	Configure Purpose = "Configure"
)

// Plan is what the agent does in one boot. The field of its purpose is set.
type Plan struct {
	// Version is the Version of the boot server.
	Version int `json:"version"`
	// Title identifies the boot at the console.
	Title   string  `json:"title"`
	Purpose Purpose `json:"purpose"`
	// Server is the server that the plan is for, as its BMC describes it. An agent on another one touches no disk. It is empty for the purpose Inspect.
	Server    Server         `json:"server,omitzero"`
	Inspect   *InspectPlan   `json:"inspect,omitempty"`
	Provision *ProvisionPlan `json:"provision,omitempty"`
	Clean     *CleanPlan     `json:"clean,omitempty"`
	Configure *ConfigurePlan `json:"configure,omitempty"`
}

// InspectPlan reads the hardware.
type InspectPlan struct {
	// LLDPSeconds is how long to wait at most for LLDP frames of switches at the interfaces that have a link. Switches send one every 30 s by default
	// (IEEE 802.1AB, msgTxInterval).
	LLDPSeconds int `json:"lldpSeconds"`
}

// ProvisionPlan writes an image, and the bootstrap data, to a disk.
type ProvisionPlan struct {
	// Manifest is the digest of the image's manifest: sha256:HEX.
	Manifest string `json:"manifest"`
	// RootDevice selects the disk.
	RootDevice RootDevice `json:"rootDevice"`
	// Keep are disks that the plan may not touch.
	Keep []wire.KeptDisk `json:"keep,omitempty"`
	// DataSource is how the bootstrap data gets onto the disk.
	DataSource wire.DataSource `json:"dataSource"`
	// DataSize is the size of the data partition in bytes: DataPartitionSize, or 0 for the data source None.
	DataSize int64 `json:"dataSize,omitempty"`
	// PartitionGUID is the unique GUID that the data partition gets in this attempt, in lower case with hyphens.
	PartitionGUID string `json:"partitionGUID"`
	// CommittedGUID is the PartitionGUID of an earlier attempt of the same claim whose commit was allowed and whose end is unknown. The agent then looks
	// first: a disk with that partition and a partition table is complete and is only booted, and a disk without a partition table is written again.
	// Empty for none.
	CommittedGUID string `json:"committedGUID,omitempty"`
	// CommittedDisk is the disk of that attempt. Only an agent that finds it without a partition table writes again.
	CommittedDisk wire.DiskIdentity `json:"committedDisk,omitzero"`
	// BootEntry is the description of the UEFI boot entry.
	BootEntry string `json:"bootEntry"`
}

// CleanPlan erases disks.
type CleanPlan struct {
	// Policy is how thoroughly disks are erased: Metadata, Clear or Purge.
	Policy wire.ErasePolicy `json:"policy"`
	// Keep are disks that the plan may not touch.
	Keep []wire.KeptDisk `json:"keep,omitempty"`
	// Ranges are where the bootstrap data of the machine that had the server is. The agent overwrites them with zeros first, with each policy.
	Ranges []DiskRange `json:"ranges,omitempty"`
	// AllDisks extends the policy Metadata from the disks of Ranges to all disks. The other policies always erase all disks.
	AllDisks bool `json:"allDisks,omitempty"`
	// Expected are the disks that were found before the machine claimed the server. One that is missing fails the plan. So does a disk that is not among them,
	// unless Expected is empty: then it is not known which disks the server had.
	Expected []wire.DiskIdentity `json:"expected,omitempty"`
}

// ConfigurePlan ends a boot that applied firmware settings. No disk is opened.
type ConfigurePlan struct{}

// DiskRange is a range of a disk. The disk is identified by its serial number or its WWN, or, without both, by its path.
type DiskRange struct {
	Disk   wire.DiskIdentity `json:"disk"`
	Offset int64             `json:"offset"`
	Length int64             `json:"length"`
	// PartitionGUID is the unique GUID of the data partition that is there, if the disk has a GPT.
	PartitionGUID string `json:"partitionGUID,omitempty"`
}

// RootDevice selects a disk: all fields that are set must match. Without any, the disk is the smallest one that has at least 4 GiB and may be written to.
type RootDevice struct {
	// SerialNumber and WWN are compared without regard to case, and a WWN without its prefix (naa., eui., 0x).
	SerialNumber string `json:"serialNumber,omitempty"`
	WWN          string `json:"wwn,omitempty"`
	// Model and Vendor match a part of the disk's model and vendor, without regard to case.
	Model  string `json:"model,omitempty"`
	Vendor string `json:"vendor,omitempty"`
	// MinSize is in bytes.
	MinSize    int64 `json:"minSize,omitempty"`
	Rotational *bool `json:"rotational,omitempty"`
	// HCTL is the SCSI address host:channel:target:lun.
	HCTL string `json:"hctl,omitempty"`
	// ByPath is the name in /dev/disk/by-path, such as pci-0000:00:1f.2-ata-1.
	ByPath string `json:"byPath,omitempty"`
	// Name is the kernel's name, such as sda. It may change from boot to boot.
	Name string `json:"name,omitempty"`
}

// Progress is the body of a progress request.
type Progress struct {
	Step wire.AgentStep `json:"step"`
	// Done and Total are bytes of the step. Total is 0 if it is unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Rate is in bytes per second, over the last seconds.
	Rate int64 `json:"rate,omitempty"`
	// Disks are the disks of a CleanPlan that are being erased or have a result, which is 100 percent. They are at most MaxProgressDisks.
	Disks []wire.DiskProgress `json:"disks,omitempty"`
}

// Result is the end of a plan.
type Result struct {
	// Failure is nil if the plan succeeded.
	Failure *Failure `json:"failure,omitempty"`
	// Written describes the disk of a ProvisionPlan. It is set as soon as the disk is selected, also with a Failure.
	Written *Written `json:"written,omitempty"`
	// Disks are the disks of a CleanPlan, erased or not. It is set also with a Failure.
	Disks []ErasedDisk `json:"disks,omitempty"`
	// SecureBoot is the one of Hello, at the end of a ConfigurePlan.
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
	// Warnings are problems that did not fail the plan, such as an NVRAM without space.
	Warnings []string `json:"warnings,omitempty"`
	// Log is the end of the agent's log, at most MaxLog bytes.
	Log string `json:"log,omitempty" printable:"lines"`
}

// Written describes what a ProvisionPlan wrote.
type Written struct {
	Disk wire.DiskIdentity `json:"disk"`
	// Name and Model are for messages.
	Name  string `json:"name,omitempty"`
	Model string `json:"model,omitempty"`
	// DataOffset and DataLength are the data partition, in bytes. Both are 0 without one.
	DataOffset int64 `json:"dataOffset,omitempty"`
	DataLength int64 `json:"dataLength,omitempty"`
	// Committed is true if the disk is complete.
	Committed bool `json:"committed,omitempty"`
	// ImageBytes is how much of the image was written, without holes and without the first MiB, which is written at the end. Seconds is how long that took.
	ImageBytes int64 `json:"imageBytes,omitempty"`
	Seconds    int64 `json:"seconds,omitempty"`
}

// Next is what the agent does after a result.
type Next string

// What follows a result.
const (
	Reboot   Next = "Reboot"
	PowerOff Next = "PowerOff"
	// Wait leaves the server on: the provider switches it off.
	Wait Next = "Wait"
)

// Answer is the answer to a result.
type Answer struct {
	Next Next `json:"next"`
}

// DataPartitionSize is the size of the data partition, in bytes.
const DataPartitionSize = 32 << 20

// DataRequest is the body of a request for the content of the data partition. The boot server records where the data will be before it sends the data, so that
// the release can erase it whatever happens in between.
type DataRequest struct {
	Disk wire.DiskIdentity `json:"disk"`
	// Name is the kernel's name of the disk, for messages.
	Name string `json:"name,omitempty"`
	// Offset is where the partition begins, in bytes. Its length is DataPartitionSize.
	Offset int64 `json:"offset"`
	// SectorSize is that of the disk, in bytes.
	SectorSize int `json:"sectorSize"`
}

// CommitRequest is the body of a request for the permission to make a disk bootable. The boot server records the disk.
type CommitRequest struct {
	Disk wire.DiskIdentity `json:"disk"`
}

// HeaderDigest is the header with the digest of the body, sha256:HEX, in the answer with the content of the data partition. The body is the beginning of the
// partition. The rest of the partition is zeros.
const HeaderDigest = "Capbm-Digest"

// Error is the body of a refusal.
type Error struct {
	// Reason is one of wire.AgentFailureReasons. It is empty for a refusal without a reason.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}
