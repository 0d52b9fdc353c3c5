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
func (b *biosSetup) biosSettingsPath() string {
	switch {
	case b.faults.on(BIOSNoSettings):
		return ""
	case b.faults.on(BIOSUnlinkedSettings):
		return biosPath + "/SD"
	default:
		return biosPath + "/Settings"
	}
}

// firmwareResource returns a resource of the BIOS configuration or of the keys of Secure Boot, or nil.
func (b *biosSetup) firmwareResource(path string) object {
	if b.faults.on(OldSchema) {
		return nil
	}
	switch {
	case path == biosPath:
		return b.biosObject()
	case path == b.biosSettingsPath():
		return b.biosSettingsObject()
	case strings.HasPrefix(path, registriesPath) && !b.faults.on(BIOSNoRegistry):
		return b.registryResource(path)
	case path == jobsPath && b.faults.on(BIOSNeedsJob):
		return b.jobList()
	case strings.HasPrefix(path, jobsPath+"/") && b.faults.on(BIOSNeedsJob):
		return b.jobObject(strings.TrimPrefix(path, jobsPath+"/JID_"))
	case path == secureSettingsPath && b.faults.on(SecureBootSettings):
		b.mu.Lock()
		defer b.mu.Unlock()
		return object{"SecureBootEnable": b.secureState.secure.Next()}
	case strings.HasPrefix(path, keysPath):
		return keyResource(strings.TrimPrefix(path, keysPath))
	default:
		return nil
	}
}

func (b *biosSetup) biosObject() object {
	o := object{"@odata.type": "#Bios.v1_2_0.Bios", "Name": "BIOS", "AttributeRegistry": "BiosAttributeRegistry.v1_0_0", "Attributes": b.biosValues()}
	if b.faults.on(BIOSOtherRegistry) {
		o["AttributeRegistry"] = "BiosAttributeRegistry.v1_0_3"
	}
	settings := object{"Messages": []object{{"MessageId": "Base.1.0.Success"}}}
	switch {
	case b.faults.on(BIOSNoSettings):
		return o
	case b.faults.on(BIOSUnlinkedSettings):
		settings = object{"ETag": "Dummyetag", "Messages": []object{{"MessageId": "Base.1.0.SettingsFailed"}}}
	default:
		settings["SettingsObject"] = link(b.biosSettingsPath())
		if !b.faults.on(BIOSFullCopy) {
			settings["SupportedApplyTimes"] = []string{"OnReset", "AtMaintenanceWindowStart"}
		}
	}
	o["@Redfish.Settings"] = settings
	return o
}

// biosValues are the attributes of the Bios resource.
func (b *biosSetup) biosValues() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	values := maps.Clone(b.bios.values)
	if b.faults.on(BIOSNeedsJob) {
		values[dellSecureBoot] = map[bool]string{true: "Enabled", false: "Disabled"}[b.secureState.secure.Enabled]
	}
	return values
}

func (b *biosSetup) biosSettingsObject() object {
	values := b.biosValues()
	b.mu.Lock()
	defer b.mu.Unlock()
	attributes := map[string]any{}
	if b.faults.on(BIOSFullCopy) {
		attributes = values
	}
	maps.Copy(attributes, b.bios.pending)
	o := object{"@odata.type": "#Bios.v1_2_0.Bios", "Name": "Pending", "Attributes": attributes}
	if b.faults.on(BIOSNoAttributes) && len(attributes) == 0 {
		delete(o, "Attributes")
	}
	if b.faults.on(BIOSNeedsJob) {
		o["Oem"] = object{"Dell": object{"Jobs": link(jobsPath)}}
		o["Actions"] = object{"Oem": object{"DellManager.v1_0_0#DellManager.ClearPending": object{"target": clearPath}}}
	}
	return o
}

// registryResource is the collection of registries, the file of the BIOS registry, or that registry.
func (b *biosSetup) registryResource(path string) object {
	languages := []string{"en"}
	if b.faults.on(BIOSLanguages) {
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

func (b *biosSetup) jobList() object {
	var paths []string
	for i := range b.BIOSJobs() {
		paths = append(paths, fmt.Sprintf("%s/JID_%d", jobsPath, i+1))
	}
	return collection(paths...)
}

func (b *biosSetup) jobObject(number string) object {
	n, err := strconv.Atoi(number)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || n < 1 || n > b.bios.job {
		return nil
	}
	state := "Completed"
	if n == b.bios.job && b.bios.scheduled {
		state = "Scheduled"
	}
	return object{"JobType": "BIOSConfiguration", "JobState": state, "Name": "Configure: BIOS.Setup.1-1"}
}

// scheduleBIOS makes the job that applies what is staged, and answers with it.
func (b *biosSetup) scheduleBIOS(w http.ResponseWriter) {
	b.mu.Lock()
	b.bios.job++
	b.bios.scheduled = true
	location := fmt.Sprintf("%s/JID_%d", jobsPath, b.bios.job)
	b.mu.Unlock()
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusAccepted)
}

// writeFirmware handles a request that changes the BIOS configuration. It returns false for any other request.
func (b *biosSetup) writeFirmware(w http.ResponseWriter, r *http.Request, path string, body object) bool {
	switch {
	case r.Method == http.MethodPatch && (path == biosPath || path == b.biosSettingsPath()) && !b.faults.on(OldSchema):
		b.patchBIOS(w, r, path, body)
	case r.Method == http.MethodPatch && path == securePath && !b.faults.on(SecureBootSettings), r.Method == http.MethodPatch && path == secureSettingsPath && b.faults.on(SecureBootSettings):
		enable, _ := body["SecureBootEnable"].(bool)
		b.secureState.setSecureBoot(enable)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost && path == jobsPath && b.faults.on(BIOSNeedsJob):
		b.scheduleBIOS(w)
	case r.Method == http.MethodPost && path == clearPath && b.faults.on(BIOSNeedsJob):
		b.clearBIOS(w)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, jobsPath+"/") && b.faults.on(BIOSNeedsJob):
		b.mu.Lock()
		b.bios.scheduled = false
		b.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	default:
		return false
	}
	return true
}

// clearBIOS removes what is staged, unless a job has it.
func (b *biosSetup) clearBIOS(w http.ResponseWriter) {
	b.mu.Lock()
	scheduled := b.bios.scheduled
	if !scheduled {
		clear(b.bios.pending)
	}
	b.mu.Unlock()
	if scheduled {
		refuse(w, http.StatusBadRequest, "SYS430", "Unable to clear the values, because a job has them")
		return
	}
	w.WriteHeader(http.StatusOK)
}

// patchBIOS stages attributes.
func (b *biosSetup) patchBIOS(w http.ResponseWriter, r *http.Request, path string, body object) {
	attributes, _ := body["Attributes"].(map[string]any)
	id, message := b.refusedBIOS(attributes)
	apply, _ := body["@Redfish.SettingsApplyTime"].(map[string]any)
	target := b.biosSettingsPath()
	switch match := r.Header.Get("If-Match"); {
	case b.faults.take(ETagStorm), match != "" && match != "*" && match != b.etagNow():
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "The ETag does not match")
	case b.faults.on(NeedsETag) && match == "":
		refuse(w, http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is required")
	case target != "" && path != target:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "The Bios resource is read-only")
	case len(attributes) == 0:
		refuse(w, http.StatusBadRequest, "PropertyMissing", "Attributes is required")
	case b.jobRuns():
		refuse(w, http.StatusBadRequest, "SYS011", "A job of the BIOS is scheduled already")
	case id != "":
		refuse(w, http.StatusBadRequest, id, message)
	case b.faults.on(BIOSNeedsJob) && apply["ApplyTime"] == "OnReset":
		b.stageBIOS(attributes, false)
		b.scheduleBIOS(w)
	default:
		b.stageBIOS(attributes, target == "")
		w.WriteHeader(http.StatusOK)
	}
}

func (b *biosSetup) jobRuns() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bios.scheduled
}

// refusedBIOS says why the BIOS refuses attributes, as the message ID and the text of the first that it refuses; empty if it accepts all.
func (b *biosSetup) refusedBIOS(attributes map[string]any) (id, message string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	after := maps.Clone(b.bios.values)
	maps.Copy(after, b.bios.pending)
	maps.Copy(after, attributes)
	for name, value := range attributes {
		if name == dellSecureBoot && b.faults.on(BIOSNeedsJob) {
			continue
		}
		if id, message = b.biosRefusal(name, value, after); id != "" {
			return id, message
		}
	}
	return "", ""
}
