package bmctest

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	systemPath   = "/redfish/v1/Systems/1"
	settingsPath = systemPath + "/SD"
	managerPath  = "/redfish/v1/Managers/1"
	chassisPath  = "/redfish/v1/Chassis/1"
	sessionPath  = "/redfish/v1/SessionService/Sessions"
	resetPath    = systemPath + "/Actions/ComputerSystem.Reset"
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
//
//nolint:contextcheck // the server continues after the request that switched it on
func (m *Machine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.requests.Add(1)
	if m.failsRequest(w, r) {
		return
	}
	path := strings.TrimSuffix(r.URL.Path, "/")
	switch {
	case path != r.URL.Path && path != "/redfish/v1" && m.faults.on(TrailingSlashIs405):
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "Not allowed")
	case path == "/redfish/v1" && r.Method == http.MethodGet:
		m.answer(w, path, m.root())
	case path == sessionPath && r.Method == http.MethodPost:
		m.login(w, r)
	case !m.authorized(r):
		refuse(w, http.StatusUnauthorized, "InsufficientPrivilege", "Wrong or no credentials")
	case r.Method == http.MethodGet:
		m.get(w, path)
	case r.Method == http.MethodDelete && strings.HasPrefix(path, sessionPath+"/"):
		m.logout(strings.TrimPrefix(path, sessionPath+"/"))
		w.WriteHeader(http.StatusNoContent)
	case m.faults.take(RebootMidCall):
		m.write(discard{}, r, path)
		m.forgetSessions()
		panic(http.ErrAbortHandler)
	default:
		m.write(w, r, path)
	}
}

// discard is the response of a BMC that drops the connection before it answers.
type discard struct{}

func (discard) Header() http.Header               { return http.Header{} }
func (discard) Write(content []byte) (int, error) { return len(content), nil }
func (discard) WriteHeader(int)                   {}

// failsRequest answers with the active faults of the whole BMC. It returns false if the request continues normally.
func (m *Machine) failsRequest(w http.ResponseWriter, r *http.Request) bool {
	drip := func(next string, every time.Duration) bool {
		w.WriteHeader(http.StatusOK)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			if _, err := w.Write([]byte(next)); err != nil {
				return true
			}
			_ = http.NewResponseController(w).Flush() // after an error, the data is sent later
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return true
			}
		}
	}
	switch {
	case m.faults.on(Down):
		panic(http.ErrAbortHandler)
	case m.faults.on(Hang):
		_, _ = io.Copy(io.Discard, r.Body) // net/http only then detects that the client has disconnected
		<-r.Context().Done()
		return true
	case m.faults.on(Drip):
		return drip(" ", time.Second)
	case m.faults.on(EndlessBody):
		return drip(strings.Repeat(" ", 1<<20), time.Microsecond)
	case m.faults.take(Busy503):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusServiceUnavailable, "ServiceTemporarilyUnavailable", "Busy")
		return true
	case m.faults.on(RedirectElsewhere):
		http.Redirect(w, r, "http://redirected.invalid"+r.URL.Path, http.StatusTemporaryRedirect) //nolint:gosec // that is the fault
		return true
	case m.faults.on(Slow):
		timer := time.NewTimer(300 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	return false
}

// get answers with a resource.
func (m *Machine) get(w http.ResponseWriter, path string) {
	if m.faults.on(PartsAre501) {
		for _, part := range []string{"/Processors", "/Storage", "/Power", "/PCIeDevices", "/SecureBoot", "/Memory"} {
			if strings.Contains(path, part) {
				refuse(w, http.StatusNotImplemented, "GeneralError", "Not implemented")
				return
			}
		}
	}
	resource := m.resource(path)
	if resource == nil {
		refuse(w, http.StatusNotFound, "ResourceMissingAtURI", "There is nothing at "+path)
		return
	}
	if path == systemPath || path == settingsPath || strings.HasPrefix(path, biosPath) {
		w.Header().Set("ETag", m.etagNow())
	}
	m.answer(w, path, resource)
}

func (c *core) etagNow() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return `W/"` + strconv.Itoa(c.etag) + `"`
}

func (m *Machine) answer(w http.ResponseWriter, path string, o object) {
	o["@odata.id"] = path
	o["Id"] = path[strings.LastIndex(path, "/")+1:]
	content, err := json.Marshal(m.deform(o))
	if err != nil {
		panic(err) // a resource can always be encoded
	}
	if m.faults.take(TruncatedJSON) {
		content = content[:len(content)/2]
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(content) // the client may have disconnected
}

// deform changes a resource as the active faults do.
func (m *Machine) deform(o object) object {
	lower, wrong := m.faults.on(LowerCaseNames), m.faults.on(WrongTypes)
	if !lower && !wrong {
		return o
	}
	content, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var plain map[string]any
	if err := json.Unmarshal(content, &plain); err != nil {
		panic(err)
	}
	deformed, _ := deformValue(plain, lower, wrong).(map[string]any)
	return deformed
}

func deformObject(o map[string]any, lower, wrong bool) map[string]any {
	out := map[string]any{}
	for name, value := range o {
		attributes, named := value.(map[string]any)
		switch {
		case named && name == "Attributes": // their names are data: those of the attribute registry
			value = deformValues(attributes, lower, wrong)
		case wrong && name == "SerialNumber":
			value = 12345
		case wrong && (name == "Identifiers" || name == "PCIeDevices"):
			value = nil
		default:
			value = deformValue(value, lower, wrong)
		}
		if lower {
			name = strings.ToLower(name)
		}
		out[name] = value
	}
	return out
}

// deformValues deforms the values of an object, and not its names.
func deformValues(o map[string]any, lower, wrong bool) map[string]any {
	out := map[string]any{}
	for name, value := range o {
		out[name] = deformValue(value, lower, wrong)
	}
	return out
}

func deformValue(v any, lower, wrong bool) any {
	switch v := v.(type) {
	case map[string]any:
		return deformObject(v, lower, wrong)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = deformValue(v[i], lower, wrong)
		}
		return out
	case float64:
		if wrong {
			return strconv.FormatFloat(v, 'f', -1, 64)
		}
	}
	return v
}

// refuse answers with a Redfish error (DSP0266, 8.6).
func refuse(w http.ResponseWriter, status int, id, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object{"error": object{
		"code": "Base.1.8." + id, "message": message, "@Message.ExtendedInfo": []object{{"MessageId": "Base.1.8." + id, "Message": message}},
	}})
}
