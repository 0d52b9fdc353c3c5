package bmctest

import (
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// The paths of the BIOS configuration. Where the registry is depends on the faults.
const (
	biosPath       = systemPath + "/Bios"
	registriesPath = "/redfish/v1/Registries"
	registryFile   = registriesPath + "/BiosAttributeRegistry.v1_0_0"
	jobsPath       = managerPath + "/Oem/Dell/Jobs"
	clearPath      = biosPath + "/Settings/Actions/Oem/DellManager.ClearPending"
	securePath     = systemPath + "/SecureBoot"
	keysPath       = securePath + "/SecureBootDatabases"
	// secureSettingsPath is the settings object of Secure Boot, of a BMC with SecureBootSettings.
	secureSettingsPath = securePath + "/Settings"
)

// biosSettingsPath is the path of the settings object; "" without one.
func (m *Machine) biosSettingsPath() string {
	switch {
	case m.faults.on(BIOSNoSettings):
		return ""
	case m.faults.on(BIOSUnlinkedSettings):
		return biosPath + "/SD"
	default:
		return biosPath + "/Settings"
	}
}

// firmwareResource returns a resource of the BIOS configuration or of the keys of Secure Boot, or nil.
func (m *Machine) firmwareResource(path string) object {
	if m.faults.on(OldSchema) {
		return nil
	}
	switch {
	case path == biosPath:
		return m.biosObject()
	case path == m.biosSettingsPath():
		return m.biosSettingsObject()
	case strings.HasPrefix(path, registriesPath) && !m.faults.on(BIOSNoRegistry):
		return m.registryResource(path)
	case path == jobsPath && m.faults.on(BIOSNeedsJob):
		return m.jobList()
	case strings.HasPrefix(path, jobsPath+"/") && m.faults.on(BIOSNeedsJob):
		return m.jobObject(strings.TrimPrefix(path, jobsPath+"/JID_"))
	case path == secureSettingsPath && m.faults.on(SecureBootSettings):
		m.mu.Lock()
		defer m.mu.Unlock()
		return object{"SecureBootEnable": m.secure.Next()}
	case strings.HasPrefix(path, keysPath):
		return keyResource(strings.TrimPrefix(path, keysPath))
	default:
		return nil
	}
}

func (m *Machine) biosObject() object {
	o := object{"@odata.type": "#Bios.v1_2_0.Bios", "Name": "BIOS", "AttributeRegistry": "BiosAttributeRegistry.v1_0_0", "Attributes": m.biosValues()}
	if m.faults.on(BIOSOtherRegistry) {
		o["AttributeRegistry"] = "BiosAttributeRegistry.v1_0_3"
	}
	settings := object{"Messages": []object{{"MessageId": "Base.1.0.Success"}}}
	switch {
	case m.faults.on(BIOSNoSettings):
		return o
	case m.faults.on(BIOSUnlinkedSettings):
		settings = object{"ETag": "Dummyetag", "Messages": []object{{"MessageId": "Base.1.0.SettingsFailed"}}}
	default:
		settings["SettingsObject"] = link(m.biosSettingsPath())
		if !m.faults.on(BIOSFullCopy) {
			settings["SupportedApplyTimes"] = []string{"OnReset", "AtMaintenanceWindowStart"}
		}
	}
	o["@Redfish.Settings"] = settings
	return o
}

// biosValues are the attributes of the Bios resource.
func (m *Machine) biosValues() map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	values := maps.Clone(m.bios.values)
	if m.faults.on(BIOSNeedsJob) {
		values[dellSecureBoot] = map[bool]string{true: "Enabled", false: "Disabled"}[m.secure.Enabled]
	}
	return values
}

func (m *Machine) biosSettingsObject() object {
	values := m.biosValues()
	m.mu.Lock()
	defer m.mu.Unlock()
	attributes := map[string]any{}
	if m.faults.on(BIOSFullCopy) {
		attributes = values
	}
	maps.Copy(attributes, m.bios.pending)
	o := object{"@odata.type": "#Bios.v1_2_0.Bios", "Name": "Pending", "Attributes": attributes}
	if m.faults.on(BIOSNoAttributes) && len(attributes) == 0 {
		delete(o, "Attributes")
	}
	if m.faults.on(BIOSNeedsJob) {
		o["Oem"] = object{"Dell": object{"Jobs": link(jobsPath)}}
		o["Actions"] = object{"Oem": object{"DellManager.v1_0_0#DellManager.ClearPending": object{"target": clearPath}}}
	}
	return o
}

// registryResource is the collection of registries, the file of the BIOS registry, or that registry.
func (m *Machine) registryResource(path string) object {
	languages := []string{"en"}
	if m.faults.on(BIOSLanguages) {
		languages = []string{"ja", "zh", "en"}
	}
	switch path {
	case registriesPath:
		return collection(registriesPath+"/Base.1.0.0", registryFile, registriesPath+"/NetworkAttributesRegistry_NIC.1")
	case registryFile:
		var locations []object
		for _, language := range languages {
			locations = append(locations, object{"Language": language, "Uri": registryURI(language)})
		}
		return object{"Registry": "BiosAttributeRegistry.1.0", "Languages": languages, "Location": locations}
	}
	for _, language := range languages {
		if path == registryURI(language) {
			return biosRegistry(language)
		}
	}
	return nil
}

func registryURI(language string) string {
	return registryFile + "/" + language + "/BiosAttributeRegistry.v1_0_0"
}

// biosRegistry is the attribute registry in a language.
func biosRegistry(language string) object {
	attributes, dependencies := []object{}, []object{}
	for _, a := range biosAttributes {
		o := object{
			"AttributeName": a.name, "Type": a.kind, "DisplayName": a.name + " (" + language + ")", "ReadOnly": a.readOnly, "ResetRequired": !a.noReset,
			"DefaultValue": a.initial, "IsSystemUniqueProperty": a.unique,
		}
		switch a.kind {
		case "Enumeration":
			values := []object{}
			for _, v := range a.values {
				values = append(values, object{"ValueName": v, "ValueDisplayName": v + " (" + language + ")"})
			}
			o["Value"], o["DefaultValue"] = values, a.values[0]
		case "Integer":
			o["LowerBound"], o["UpperBound"], o["ScalarIncrement"] = a.lower, a.upper, 1
		case "String", "Password":
			o["MinLength"], o["MaxLength"] = 0, a.upper
		}
		attributes = append(attributes, o)
		if w := a.readOnlyWhile; w[0] != "" {
			dependencies = append(dependencies, dependencyObject(a.name, w[0], w[1], a.name, "ReadOnly", true))
		}
		if f := a.follows; f[0] != "" {
			dependencies = append(dependencies, dependencyObject(f[0], f[0], f[1], a.name, "CurrentValue", f[2]))
		}
	}
	return object{
		"@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry", "Language": language, "OwningEntity": "Emulated", "RegistryVersion": "1.0.0",
		"RegistryEntries": object{"Attributes": attributes, "Dependencies": dependencies},
	}
}

func dependencyObject(trigger, from, value, to, property string, toValue any) object {
	return object{"Type": "Map", "DependencyFor": trigger, "Dependency": object{
		"MapFrom":        []object{{"MapFromAttribute": from, "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": value}},
		"MapToAttribute": to, "MapToProperty": property, "MapToValue": toValue,
	}}
}

// keyResource is a resource below the key databases of Secure Boot.
func keyResource(path string) object {
	switch path {
	case "":
		return collection(keysPath+"/db", keysPath+"/dbx")
	case "/db":
		return object{"DatabaseId": "db", "Certificates": link(keysPath + "/db/Certificates")}
	case "/db/Certificates":
		return collection(keysPath + "/db/Certificates/1")
	case "/db/Certificates/1":
		return object{"CertificateString": nil, "Subject": object{"CommonName": "Microsoft Corporation UEFI CA 2011"}}
	case "/dbx":
		return object{"DatabaseId": "dbx", "Signatures": link(keysPath + "/dbx/Signatures")}
	case "/dbx/Signatures":
		return collection(keysPath + "/dbx/Signatures/1")
	case "/dbx/Signatures/1":
		return object{"SignatureType": "EFI_CERT_SHA256_GUID", "SignatureString": strings.Repeat("AB", 32)}
	default:
		return nil
	}
}

func (m *Machine) jobList() object {
	var paths []string
	for i := range m.BIOSJobs() {
		paths = append(paths, fmt.Sprintf("%s/JID_%d", jobsPath, i+1))
	}
	return collection(paths...)
}

func (m *Machine) jobObject(number string) object {
	n, err := strconv.Atoi(number)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || n < 1 || n > m.bios.job {
		return nil
	}
	state := "Completed"
	if n == m.bios.job && m.bios.scheduled {
		state = "Scheduled"
	}
	return object{"JobType": "BIOSConfiguration", "JobState": state, "Name": "Configure: BIOS.Setup.1-1"}
}

// scheduleBIOS makes the job that applies what is staged, and answers with it.
func (m *Machine) scheduleBIOS(w http.ResponseWriter) {
	m.mu.Lock()
	m.bios.job++
	m.bios.scheduled = true
	location := fmt.Sprintf("%s/JID_%d", jobsPath, m.bios.job)
	m.mu.Unlock()
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusAccepted)
}

// writeFirmware handles a request that changes the BIOS configuration. It returns false for any other request.
func (m *Machine) writeFirmware(w http.ResponseWriter, r *http.Request, path string, body object) bool {
	switch {
	case r.Method == http.MethodPatch && (path == biosPath || path == m.biosSettingsPath()) && !m.faults.on(OldSchema):
		m.patchBIOS(w, r, path, body)
	case r.Method == http.MethodPatch && path == securePath && !m.faults.on(SecureBootSettings), r.Method == http.MethodPatch && path == secureSettingsPath && m.faults.on(SecureBootSettings):
		enable, _ := body["SecureBootEnable"].(bool)
		m.setSecureBoot(enable)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost && path == jobsPath && m.faults.on(BIOSNeedsJob):
		m.scheduleBIOS(w)
	case r.Method == http.MethodPost && path == clearPath && m.faults.on(BIOSNeedsJob):
		m.clearBIOS(w)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, jobsPath+"/") && m.faults.on(BIOSNeedsJob):
		m.mu.Lock()
		m.bios.scheduled = false
		m.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}

// clearBIOS removes what is staged, unless a job has it.
func (m *Machine) clearBIOS(w http.ResponseWriter) {
	m.mu.Lock()
	scheduled := m.bios.scheduled
	if !scheduled {
		clear(m.bios.pending)
	}
	m.mu.Unlock()
	if scheduled {
		refuse(w, http.StatusBadRequest, "SYS430", "Unable to clear the values, because a job has them")
		return
	}
	w.WriteHeader(http.StatusOK)
}

// patchBIOS stages attributes.
func (m *Machine) patchBIOS(w http.ResponseWriter, r *http.Request, path string, body object) {
	attributes, _ := body["Attributes"].(map[string]any)
	id, message := m.refusedBIOS(attributes)
	apply, _ := body["@Redfish.SettingsApplyTime"].(map[string]any)
	target := m.biosSettingsPath()
	switch match := r.Header.Get("If-Match"); {
	case m.faults.take(ETagStorm), match != "" && match != "*" && match != m.etagNow():
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "The ETag does not match")
	case m.faults.on(NeedsETag) && match == "":
		refuse(w, http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is required")
	case target != "" && path != target:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "The Bios resource is read-only")
	case len(attributes) == 0:
		refuse(w, http.StatusBadRequest, "PropertyMissing", "Attributes is required")
	case m.jobRuns():
		refuse(w, http.StatusBadRequest, "SYS011", "A job of the BIOS is scheduled already")
	case id != "":
		refuse(w, http.StatusBadRequest, id, message)
	case m.faults.on(BIOSNeedsJob) && apply["ApplyTime"] == "OnReset":
		m.stageBIOS(attributes, false)
		m.scheduleBIOS(w)
	default:
		m.stageBIOS(attributes, target == "")
		w.WriteHeader(http.StatusOK)
	}
}

func (m *Machine) jobRuns() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bios.scheduled
}

// refusedBIOS says why the BIOS refuses attributes, as the message ID and the text of the first that it refuses; empty if it accepts all.
func (m *Machine) refusedBIOS(attributes map[string]any) (id, message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	after := maps.Clone(m.bios.values)
	maps.Copy(after, m.bios.pending)
	maps.Copy(after, attributes)
	for name, value := range attributes {
		if name == dellSecureBoot && m.faults.on(BIOSNeedsJob) {
			continue
		}
		if id, message = m.biosRefusal(name, value, after); id != "" {
			return id, message
		}
	}
	return "", ""
}
