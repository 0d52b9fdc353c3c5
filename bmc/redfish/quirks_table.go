package redfish

import (
	"regexp"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var (
	supermicro = regexp.MustCompile(`(?i)^super ?micro`)
	hpe        = regexp.MustCompile(`^(HPE?|Hewlett.*)$`)
	dell       = regexp.MustCompile(`^Dell`)
	cray       = regexp.MustCompile(`(?i)\bcray\b`) // HPE's name is on it, and not iLO in it
	cisco      = regexp.MustCompile(`(?i)^cisco`)
	sushy      = regexp.MustCompile(`^Sushy Emulator$`)
	lenovo     = regexp.MustCompile(`(?i)^lenovo`)
	ami        = regexp.MustCompile(`(?i)^(american megatrends|ami\b|asrock|giga)`)
)

// knownQuirks is the table of known deviations. An entry changes which methods are tried, and in which order. Vendor names are unreliable,
// because many vendors ship the same firmware, so the result of each method is read back, and the next one is tried if it does not match.
var knownQuirks = []knownQuirk{
	{
		name: "supermicro-mode-always", vendor: supermicro, quirk: quirk{keepMode: true},
		observation: "A change without BootSourceOverrideMode falls back to Legacy, and one without Enabled to Once. " +
			"DMTF/Redfishtool#106, ironcore-dev/metal-operator#607",
	},
	{
		name: "supermicro-x10-no-mode", vendor: supermicro, model: regexp.MustCompile(`(?i)^(sys-.*)?X(9|10)`), quirk: quirk{methods: []bmc.BootMethod{methodNoMode}},
		observation: "Old boards have no BootSourceOverrideMode and refuse the whole change for it. ironcore-dev/metal-operator#982",
	},
	{
		name: "supermicro-usbcd", vendor: supermicro, quirk: quirk{cd: usbCD},
		observation: "Virtual media are a USB drive: Cd is listed as well and boots nothing. openstack/sushy change-bootdev-smc",
	},
	{
		name: "supermicro-ars-cd", vendor: supermicro, model: regexp.MustCompile(`(?i)^ars-111gl-nhr$`), quirk: quirk{cd: "Cd"},
		observation: "This model boots virtual media from Cd, unlike the others. openstack/sushy supermicro-vmedia-dev-workaround",
	},
	{
		name: "supermicro-image-only", vendor: supermicro, quirk: quirk{imageOnly: true},
		observation: "InsertMedia with Inserted or WriteProtected is answered with 400. openstack/sushy fix-insert-media-payload",
	},
	{
		name: "hpe-mode-readonly", vendor: hpe, not: cray, quirk: quirk{methods: []bmc.BootMethod{methodNoMode}},
		observation: "iLO 5 shows BootSourceOverrideMode and refuses it, also when it is unchanged. ansible-collections/community.general#3509",
	},
	{
		name: "hpe-disable-only", vendor: hpe, not: cray, quirk: quirk{disableOnly: true},
		observation: "iLO refuses Enabled together with the target None. ironcore-dev/metal-operator#998",
	},
	{
		name: "dell-service-tag", vendor: dell, quirk: quirk{serialInSKU: true},
		observation: "SKU is the service tag, and SerialNumber the number of the board, which is empty on some. Dell, iDRAC Redfish API, ComputerSystem",
	},
	{
		name: "dell-bios-job", vendor: dell, quirk: quirk{biosJob: true},
		observation: "BIOS attributes that are staged without a job stay pending for ever. dell/iDRAC-Redfish-Scripting#84, dell/terraform-provider-redfish#231",
	},
	{
		name: "dell-secure-boot-attribute", vendor: dell, quirk: quirk{secureBootAttribute: "SecureBoot"},
		observation: "A change of the SecureBoot resource makes a job at once, and BIOS attributes are refused until it is over (SYS011). The attribute SecureBoot shares " +
			"the job of the other attributes. bmc-toolbox/bmclib#471",
	},
	{
		name: "dell-17g-settings", vendor: dell, model: regexp.MustCompile(`^PowerEdge [A-Z]{1,2}\d7\d{1,2}`),
		quirk:       quirk{methods: []bmc.BootMethod{methodSettings, methodSettingsNoMode}},
		observation: "On iDRAC 10, Boot is read-only at the system and writable at its settings object. stmcginnis/gofish#511",
	},
	{
		name: "dell-17g-drive", vendor: dell, model: regexp.MustCompile(`^PowerEdge [A-Z]{1,2}\d7\d{1,2}`),
		quirk:       quirk{drive: regexp.MustCompile(`^1$`)},
		observation: "On iDRAC 10 only the virtual drive 1 boots. openstack/ironic idrac10-vmedia-slot1",
	},
	{
		name: "lenovo-drive-ext", vendor: lenovo, quirk: quirk{drive: regexp.MustCompile(`^(EXT\d|\d|CD|DVD|Cd)`)},
		observation: "XCC lists the drives RDOC and Remote as CDs, and takes images into EXT alone. Lenovo, XCC REST API, insert/eject virtual media",
	},
	{
		name: "ami-settings-at-sd", vendor: ami, quirk: quirk{settings: true},
		observation: "MegaRAC refuses boot properties at the system (OperationSupportedInFutureStateURI) and takes them at SD below it, to which " +
			"not every version links. ironcore-dev/metal-operator#188, DMTF/Redfish-Tacklebox#144. The Bios resource is the same: ansible-collections/community.general#6433",
	},
	{
		name: "ami-whole-boot", vendor: ami, quirk: quirk{keepMode: true},
		observation: "Target, duration and mode are taken together or not at all. openstack/ironic redfish-full-boot-payload-asrockrack",
	},
	{
		name: "cisco-mebibytes", vendor: cisco, quirk: quirk{mebibytes: true},
		observation: "The CIMC of the S3260 writes MiB into CapacityBytes of drives, that of rack servers writes bytes. akaliwod/iserver redfish-tests",
	},
	{
		name: "sushy-disk-is-home", vendor: sushy, quirk: quirk{home: schemas.HddBootSource},
		observation: "sushy-tools 2.2 reports Once as Continuous and keeps it, knows neither the target None nor Disabled (500 and 400), and starts " +
			"with Hdd and Continuous",
	},
	{
		name: "sushy-mode-resets-secure-boot", vendor: sushy, quirk: quirk{omitMode: true},
		observation: "sushy-tools 2.2 gives a machine of libvirt other firmware for each BootSourceOverrideMode, also for the mode that it has, and turns Secure Boot off " +
			"by that. resources/systems/libvirtdriver.py, set_boot_mode",
	},
}
