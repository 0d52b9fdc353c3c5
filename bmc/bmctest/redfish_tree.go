package bmctest

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// targets are the boot targets by Redfish name.
var targets = map[string]bmc.BootTarget{
	"None": bmc.BootNone, "Pxe": bmc.BootPXE, "UefiHttp": bmc.BootHTTP, "Hdd": bmc.BootDisk, "Cd": bmc.BootCD,
}

func (m *Machine) root() object {
	o := object{
		"Name": "Root", "RedfishVersion": "1.15.0", "UUID": m.opts.UUID, "Vendor": "Emulated",
		"Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers"), "Chassis": link("/redfish/v1/Chassis"),
		"SessionService": link("/redfish/v1/SessionService"), "Registries": link(registriesPath), "Links": object{"Sessions": link(sessionPath)},
	}
	if m.faults.on(OldSchema) {
		o["RedfishVersion"] = "1.0.1"
	}
	return o
}

// resource returns the resource at a path, or nil.
func (m *Machine) resource(path string) object {
	if o := m.fixed()[path]; o != nil {
		return o()
	}
	logPath := m.logPath()
	switch {
	case path == m.mediaPath():
		return m.driveList(path)
	case strings.HasPrefix(path, m.mediaPath()+"/"):
		return m.drive(path, strings.TrimPrefix(path, m.mediaPath()+"/"))
	case path == logPath:
		return collection(logPath + "/SEL")
	case path == logPath+"/SEL":
		return object{"LogEntryType": "SEL", "Entries": link(path + "/Entries")}
	case path == logPath+"/SEL/Entries":
		return m.entries(path)
	case strings.HasPrefix(path, biosPath), strings.HasPrefix(path, registriesPath), strings.HasPrefix(path, jobsPath), strings.HasPrefix(path, keysPath), path == secureSettingsPath:
		return m.firmwareResource(path)
	case path == settingsPath && m.faults.on(OverrideAtSettings):
		m.mu.Lock()
		defer m.mu.Unlock()
		boot := m.next
		if m.pending != nil {
			boot = *m.pending
		}
		return object{"Boot": m.bootObject(boot)}
	default:
		return nil
	}
}

// fixed are the resources whose path does not depend on a fault.
func (m *Machine) fixed() map[string]func() object {
	return map[string]func() object{
		"/redfish/v1/Systems":  m.systems,
		"/redfish/v1/Managers": func() object { return collection(managerPath) },
		"/redfish/v1/Chassis":  func() object { return collection(chassisPath) },
		managerPath:            m.managerObject,
		chassisPath: func() object {
			return object{"Thermal": link(chassisPath + "/Thermal"), "Power": link(chassisPath + "/Power"), "PCIeDevices": link(chassisPath + "/PCIeDevices")}
		},
		chassisPath + "/Thermal": func() object {
			return object{
				"Temperatures": []object{{"Name": PartInlet, "ReadingCelsius": 21.5, "Status": m.statusOf(PartInlet)}},
				"Fans":         []object{{"Name": PartFan, "Reading": 4200, "ReadingUnits": "RPM", "Status": m.statusOf(PartFan)}},
			}
		},
		chassisPath + "/Power": func() object {
			return object{
				"PowerControl":  []object{{"Name": "Server", "PowerConsumedWatts": 180}},
				"PowerSupplies": []object{{"Name": PartPowerSupply, "Model": "P800", "PowerCapacityWatts": 800, "Status": m.statusOf(PartPowerSupply)}},
			}
		},
		chassisPath + "/PCIeDevices": func() object { return collection(chassisPath + "/PCIeDevices/GPU") },
		chassisPath + "/PCIeDevices/GPU": func() object {
			return object{
				"Name": "GPU", "Manufacturer": "Emulated", "Model": "G1", "SerialNumber": "GPU-1", "FirmwareVersion": "9.1",
				"PCIeFunctions": link(chassisPath + "/PCIeDevices/GPU/PCIeFunctions"),
			}
		},
		chassisPath + "/PCIeDevices/GPU/PCIeFunctions": func() object { return collection(chassisPath + "/PCIeDevices/GPU/PCIeFunctions/0") },
		chassisPath + "/PCIeDevices/GPU/PCIeFunctions/0": func() object {
			return object{"DeviceClass": "DisplayController", "ClassCode": "0x030200"}
		},
		systemPath:                 m.system,
		systemPath + "/Processors": func() object { return collection(systemPath + "/Processors/1") },
		systemPath + "/Processors/1": func() object {
			return object{
				"ProcessorType": "CPU", "InstructionSet": "x86-64", "Model": "Emulated CPU", "TotalCores": m.opts.Threads / 2, "TotalThreads": m.opts.Threads,
			}
		},
		systemPath + "/Memory":               func() object { return collection(systemPath + "/Memory/1") },
		systemPath + "/Memory/1":             func() object { return object{"CapacityMiB": m.opts.MemoryGiB << 10} },
		systemPath + "/EthernetInterfaces":   func() object { return collection(systemPath + "/EthernetInterfaces/1") },
		systemPath + "/EthernetInterfaces/1": func() object { return object{"MACAddress": m.opts.MAC, "LinkStatus": "LinkUp", "SpeedMbps": 25000} },
		systemPath + "/Storage":              func() object { return m.unlessOld(collection(systemPath + "/Storage/1")) },
		systemPath + "/Storage/1":            func() object { return object{"Drives": []object{link(systemPath + "/Storage/1/Drives/1")}} },
		systemPath + "/Storage/1/Drives/1": func() object {
			return object{
				"CapacityBytes": int64(480) << 30, "MediaType": "SSD", "Model": "D480", "SerialNumber": "DISK-1",
				"Identifiers": []object{{"DurableNameFormat": "NAA", "DurableName": "0x5000C500A1B2C3D4"}}, "Status": m.statusOf(PartDisk),
			}
		},
		systemPath + "/SimpleStorage": func() object { return collection(systemPath + "/SimpleStorage/1") },
		systemPath + "/SimpleStorage/1": func() object {
			return object{"Devices": []object{{"Name": "Disk", "Model": "D480", "CapacityBytes": int64(480) << 30}}}
		},
		securePath:                   m.secureBoot,
		insertTask:                   m.task,
		"/redfish/v1/SessionService": func() object { return object{"ServiceEnabled": true, "Sessions": link(sessionPath)} },
	}
}

func (m *Machine) unlessOld(o object) object {
	if m.faults.on(OldSchema) {
		return nil
	}
	return o
}

func (m *Machine) systems() object {
	if m.faults.on(DecoySystems) {
		return collection("/redfish/v1/Systems/HGX_Baseboard_0", systemPath, "/redfish/v1/Systems/Enclosure")
	}
	return collection(systemPath)
}

func (m *Machine) managerObject() object {
	o := object{"Name": "BMC", "FirmwareVersion": "1.0", "DateTime": m.now().Format(time.RFC3339)}
	if !m.faults.on(MediaUnderSystems) {
		o["VirtualMedia"] = link(managerPath + "/VirtualMedia")
	}
	if m.faults.on(OldSchema) {
		o["LogServices"] = link(managerPath + "/LogServices")
	}
	return o
}

func (v *virtualMedia) mediaPath() string {
	switch {
	case v.faults.on(NoMedia):
		return "none"
	case v.faults.on(MediaUnderSystems):
		return systemPath + "/VirtualMedia"
	default:
		return managerPath + "/VirtualMedia"
	}
}

func (m *Machine) logPath() string {
	if m.faults.on(OldSchema) {
		return managerPath + "/LogServices"
	}
	return systemPath + "/LogServices"
}

func (s *sensors) entries(path string) object {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := []object{}
	for i, e := range s.events {
		id := strconv.Itoa(i + 1)
		members = append(members, object{
			"@odata.id": path + "/" + id, "Id": id, "Created": e.Time.Format(time.RFC3339), "Severity": string(e.Severity), "Message": e.Message,
		})
	}
	return object{"Members": members, "Members@odata.count": len(members)}
}

func (s *secureBootState) secureBoot() object {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := object{
		"SecureBootEnable": s.secure.Enabled, "SecureBootCurrentBoot": map[bool]string{true: "Enabled", false: "Disabled"}[s.secure.Active],
		"SecureBootMode": "UserMode", "SecureBootDatabases": link(keysPath),
	}
	if s.faults.on(SecureBootSettings) {
		o["@Redfish.Settings"] = object{"SettingsObject": link(secureSettingsPath)}
	}
	return o
}

// bootObject is the Boot property. b.mu is held.
func (b *bootOverride) bootObject(boot bmc.BootOverride) object {
	o := object{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI"}
	if !b.faults.on(OldSchema) {
		offered := slices.Sorted(maps.Keys(targets))
		if b.faults.on(NoNetworkBoot) {
			offered = []string{"None", "Hdd"}
		}
		o["BootSourceOverrideTarget@Redfish.AllowableValues"] = offered
	}
	if boot.Mode == bmc.BootLegacy {
		o["BootSourceOverrideMode"] = "Legacy"
	}
	if b.faults.on(NoBootURIReadsNone) {
		o["HttpBootUri"] = "None"
	}
	if b.bootURI != "" && b.faults.on(KeepsBootURI) {
		o["HttpBootUri"] = b.bootURI
	}
	if boot.Target == bmc.BootNone {
		return o
	}
	o["BootSourceOverrideEnabled"] = "Once"
	if boot.Continuous || b.faults.on(OnceReadsContinuous) {
		o["BootSourceOverrideEnabled"] = "Continuous"
	}
	for name, target := range targets {
		if target == boot.Target {
			o["BootSourceOverrideTarget"] = name
		}
	}
	if boot.URI != "" {
		o["HttpBootUri"] = boot.URI
	}
	return o
}

// offeredResets are the reset types that the BMC offers.
func (p *power) offeredResets() []string {
	return slices.DeleteFunc(slices.Clone(resetTypes), func(t string) bool { return t == "GracefulShutdown" && p.faults.on(NoGracefulShutdown) })
}

func (m *Machine) system() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	reset := object{"target": resetPath}
	o := object{
		"Name": m.opts.Name, "Manufacturer": m.opts.Vendor, "Model": m.opts.Model, "SerialNumber": SerialNumber(m.opts.Name), "UUID": strings.ToUpper(m.opts.UUID),
		"BiosVersion": "1.0", "SystemType": "Physical", "PowerState": m.powerState(), "Status": object{"Health": string(m.worstHealth()), "HealthRollup": string(m.worstHealth())}, "Boot": m.bootObject(m.next),
		"ProcessorSummary":   object{"Count": 1, "LogicalProcessorCount": m.opts.Threads, "Model": "Emulated CPU"},
		"MemorySummary":      object{"TotalSystemMemoryGiB": m.opts.MemoryGiB},
		"EthernetInterfaces": link(systemPath + "/EthernetInterfaces"), "Processors": link(systemPath + "/Processors"),
		"SimpleStorage": link(systemPath + "/SimpleStorage"), "Memory": link(systemPath + "/Memory"),
		"Links":   object{"ManagedBy": []object{link(managerPath)}, "Chassis": []object{link(chassisPath)}},
		"Actions": object{"#ComputerSystem.Reset": reset},
	}
	if m.faults.on(OverrideAtSettings) {
		o["@Redfish.Settings"] = object{"SettingsObject": link(settingsPath)}
	}
	if m.faults.on(MediaUnderSystems) {
		o["VirtualMedia"] = link(systemPath + "/VirtualMedia")
	}
	if !m.faults.on(OldSchema) {
		reset["ResetType@Redfish.AllowableValues"] = m.offeredResets()
		o["Storage"], o["SecureBoot"] = link(systemPath+"/Storage"), link(systemPath+"/SecureBoot")
		o["LogServices"], o["Bios"] = link(systemPath+"/LogServices"), link(biosPath)
		o["LastResetTime"] = m.resetAt.Format(time.RFC3339Nano)
	}
	return o
}

// powerState is the power state that the BMC reports. p.mu is held.
func (p *power) powerState() bmc.PowerState {
	names := map[bool]bmc.PowerState{true: bmc.PowerOn, false: bmc.PowerOff}
	switch {
	case time.Now().Before(p.readsOff):
		return bmc.PowerOff
	case p.stale():
		return names[p.staleOn]
	case p.changing != nil && p.becoming != p.on && p.faults.on(TransitionStates):
		return map[bool]bmc.PowerState{true: bmc.PoweringOn, false: bmc.PoweringOff}[p.becoming]
	default:
		return names[p.on]
	}
}
