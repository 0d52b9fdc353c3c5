package bmctest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// write handles a request that changes something.
func (m *Machine) write(w http.ResponseWriter, r *http.Request, path string) {
	var body object
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil && r.Method != http.MethodDelete {
		refuse(w, http.StatusBadRequest, "MalformedJSON", "The body is no JSON object")
		return
	}
	if drive, ok := strings.CutPrefix(path, m.mediaPath()+"/"); ok {
		m.writeMedia(w, r.Method, drive, body)
		return
	}
	if m.writeFirmware(w, r, path, body) {
		return
	}
	switch r.Method + " " + path {
	case "POST " + resetPath:
		kind, _ := body["ResetType"].(string)
		m.postReset(w, kind)
	case "PATCH " + systemPath, "PATCH " + settingsPath:
		m.patchBoot(w, r, path, body)
	default:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "Not allowed")
	}
}

func (m *Machine) postReset(w http.ResponseWriter, kind string) {
	want := map[string]bool{"On": true, "ForceOff": false, "GracefulShutdown": false}
	on, isState := want[kind]
	redundant := isState && m.On() == on || kind == "ForceRestart" && !m.On()
	switch {
	case m.inTransition() && m.faults.on(BusyInTransition):
		refuse(w, http.StatusConflict, "ResourceInUse", "The power is in transition")
	case redundant && m.faults.on(RedundantPowerIs5xx):
		refuse(w, http.StatusInternalServerError, "InternalError", "It is so already")
	case redundant && m.faults.on(RedundantPowerIs4xx):
		refuse(w, http.StatusBadRequest, "NoOperation", "It is so already")
	case kind == "GracefulShutdown" && m.faults.on(ShutDownFails):
		refuse(w, http.StatusInternalServerError, "InternalError", "The operating system does not answer")
	case !slices.Contains(m.offeredResets(), kind) || !m.reset(kind):
		refuse(w, http.StatusBadRequest, "ActionParameterNotSupported", "ResetType is not one of those allowed")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// patchBoot sets the boot override.
func (m *Machine) patchBoot(w http.ResponseWriter, r *http.Request, path string, body object) {
	boot, _ := body["Boot"].(map[string]any)
	text := func(name string) string { s, _ := boot[name].(string); return s }
	target, known := targets[text("BootSourceOverrideTarget")]
	if enabled, ok := boot["BootSourceOverrideEnabled"]; ok && enabled == "Disabled" {
		target, known = bmc.BootNone, true
	}
	mode := text("BootSourceOverrideMode")
	enabled := text("BootSourceOverrideEnabled")
	if uri, ok := boot["HttpBootUri"]; ok && len(boot) == 1 && m.faults.on(KeepsBootURI) {
		m.keepURI(w, uri)
		return
	}
	switch match := r.Header.Get("If-Match"); {
	case m.faults.take(ETagStorm), match != "" && match != "*" && match != m.etagNow():
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "The ETag does not match")
	case m.faults.on(NeedsETag) && match == "":
		refuse(w, http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is required")
	case !known:
		refuse(w, http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideTarget is not one of those allowed")
	case (path == settingsPath) != m.faults.on(OverrideAtSettings), mode != "" && m.faults.on(RefusesBootMode):
		refuse(w, http.StatusBadRequest, "PropertyNotWritable", "The property cannot be written")
	case m.faults.on(IgnoresOverride), mode != "" && m.faults.on(IgnoresOverrideWithMode), enabled == "Once" && m.faults.on(IgnoresOnce):
		w.WriteHeader(http.StatusNoContent)
	default:
		override := bmc.BootOverride{Target: target, Mode: m.Override().Mode, Continuous: enabled == "Continuous"}
		if enabled == "Disabled" {
			override.Target = bmc.BootNone
		}
		if mode != "" {
			override.Mode = bmc.BootMode(mode)
		}
		if target == bmc.BootHTTP && !m.faults.on(IgnoresBootURI) {
			override.URI = text("HttpBootUri")
		}
		m.override(override)
		m.rememberURI(override.URI)
		w.WriteHeader(http.StatusNoContent)
	}
}
