package bmctest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

const (
	systemPath  = "/redfish/v1/Systems/1"
	managerPath = "/redfish/v1/Managers/1"
	sessionPath = "/redfish/v1/SessionService/Sessions"
)

type object map[string]any

func link(path string) object { return object{"@odata.id": path} }

func collection(members ...string) object {
	links := []object{}
	for _, m := range members {
		links = append(links, link(m))
	}
	return object{"Members": links, "Members@odata.count": len(links)}
}

// ServeHTTP is the server's BMC: a Redfish service (DSP0266) with basic and session authentication.
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	down := m.down
	m.mu.Unlock()
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case down:
		panic(http.ErrAbortHandler)
	case path == "/redfish/v1" && r.Method == http.MethodGet:
		m.answer(w, path, m.root())
	case path == sessionPath && r.Method == http.MethodPost:
		m.login(w, r)
	case !m.authorized(r):
		refuse(w, http.StatusUnauthorized, "Base.1.8.InsufficientPrivilege", "Wrong or no credentials")
	case r.Method == http.MethodGet:
		m.get(w, path)
	case r.Method == http.MethodPost && path == systemPath+"/Actions/ComputerSystem.Reset":
		m.postReset(w, r)
	case r.Method == http.MethodPatch && path == systemPath:
		m.patchSystem(w, r)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, sessionPath+"/"):
		m.logout(strings.TrimPrefix(path, sessionPath+"/"))
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusMethodNotAllowed, "Base.1.8.OperationNotAllowed", "Not allowed")
	}
}

func (m *Machine) authorized(r *http.Request) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		for _, t := range m.sessions {
			if t == token {
				return true
			}
		}
		return false
	}
	username, password, ok := r.BasicAuth()
	return ok && username == m.opts.Username && password == m.opts.Password
}

func (m *Machine) login(w http.ResponseWriter, r *http.Request) {
	var login struct {
		UserName string `json:"UserName"`
		Password string `json:"Password"`
	}
	err := json.NewDecoder(r.Body).Decode(&login)
	m.mu.Lock()
	ok := err == nil && login.UserName == m.opts.Username && login.Password == m.opts.Password
	m.lastToken++
	id := strconv.Itoa(m.lastToken)
	if ok {
		m.sessions[id] = "token-" + id
	}
	m.mu.Unlock()
	if !ok {
		refuse(w, http.StatusUnauthorized, "Base.1.8.InsufficientPrivilege", "Wrong or no credentials")
		return
	}
	w.Header().Set("X-Auth-Token", "token-"+id)
	w.Header().Set("Location", sessionPath+"/"+id)
	w.WriteHeader(http.StatusCreated)
}

func (m *Machine) logout(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sessions, id)
}

func (m *Machine) get(w http.ResponseWriter, path string) {
	resource := map[string]func() object{
		"/redfish/v1/Systems":                func() object { return collection(systemPath) },
		"/redfish/v1/Managers":               func() object { return collection(managerPath) },
		managerPath:                          func() object { return object{"Name": "BMC", "FirmwareVersion": "1.0"} },
		systemPath:                           m.system,
		systemPath + "/EthernetInterfaces":   func() object { return collection(systemPath + "/EthernetInterfaces/1") },
		systemPath + "/EthernetInterfaces/1": func() object { return object{"MACAddress": m.opts.MAC, "LinkStatus": "LinkUp"} },
		systemPath + "/Storage":              func() object { return collection(systemPath + "/Storage/1") },
		systemPath + "/Storage/1":            func() object { return object{"Drives": []object{link(systemPath + "/Storage/1/Drives/1")}} },
		systemPath + "/Storage/1/Drives/1":   func() object { return object{"CapacityBytes": int64(480) << 30, "MediaType": "SSD"} },
		"/redfish/v1/SessionService":         func() object { return object{"ServiceEnabled": true, "Sessions": link(sessionPath)} },
	}[path]
	if resource == nil {
		refuse(w, http.StatusNotFound, "Base.1.8.ResourceMissingAtURI", "There is nothing at "+path)
		return
	}
	m.answer(w, path, resource())
}

func (m *Machine) answer(w http.ResponseWriter, path string, o object) {
	o["@odata.id"] = path
	o["Id"] = path[strings.LastIndex(path, "/")+1:]
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(o) // a client that went away is not the BMC's concern
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{"code": code, "message": message}})
}

func (m *Machine) root() object {
	return object{
		"Name": "Root", "RedfishVersion": "1.15.0", "UUID": m.opts.UUID,
		"Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers"),
		"SessionService": link("/redfish/v1/SessionService"), "Links": object{"Sessions": link(sessionPath)},
	}
}

func (m *Machine) system() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	power := "Off"
	if m.on {
		power = "On"
	}
	override := object{"BootSourceOverrideEnabled": "Disabled", "BootSourceOverrideTarget": "None", "BootSourceOverrideMode": "UEFI"}
	if m.next != BootDisk {
		override["BootSourceOverrideEnabled"], override["BootSourceOverrideTarget"] = "Once", string(m.next)
	}
	return object{
		"Name": m.opts.Name, "Manufacturer": "Emulated", "Model": "bmctest", "SerialNumber": "SN-" + m.opts.Name, "UUID": m.opts.UUID,
		"BiosVersion": "1.0", "SystemType": "Physical", "PowerState": power, "Boot": override,
		"ProcessorSummary":   object{"Count": 1, "LogicalProcessorCount": m.opts.Threads, "Model": "Emulated CPU"},
		"MemorySummary":      object{"TotalSystemMemoryGiB": m.opts.MemoryGiB},
		"EthernetInterfaces": link(systemPath + "/EthernetInterfaces"), "Storage": link(systemPath + "/Storage"),
		"Links": object{"ManagedBy": []object{link(managerPath)}},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target": systemPath + "/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": resetTypes,
		}},
	}
}

func (m *Machine) postReset(w http.ResponseWriter, r *http.Request) {
	var request struct {
		ResetType string `json:"ResetType"`
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	if m.opts.ShutDownFails && request.ResetType == "GracefulShutdown" {
		refuse(w, http.StatusInternalServerError, "Base.1.8.InternalError", "The operating system does not answer")
		return
	}
	if err != nil || !m.reset(request.ResetType) { //nolint:contextcheck // the server runs on when the request has ended
		refuse(w, http.StatusBadRequest, "Base.1.8.ActionParameterNotSupported", "ResetType is not one of those allowed")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (m *Machine) patchSystem(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Boot struct {
			Target string `json:"BootSourceOverrideTarget"`
		} `json:"Boot"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		refuse(w, http.StatusBadRequest, "Base.1.8.MalformedJSON", err.Error())
		return
	}
	switch target := Boot(request.Boot.Target); target {
	case BootDisk, BootNetwork:
		m.override(target)
		w.WriteHeader(http.StatusNoContent)
	default:
		refuse(w, http.StatusBadRequest, "Base.1.8.PropertyValueNotInList", "BootSourceOverrideTarget is not one of those allowed")
	}
}
