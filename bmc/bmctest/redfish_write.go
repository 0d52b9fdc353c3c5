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

func (p *power) postReset(w http.ResponseWriter, kind string) {
	want := map[string]bool{"On": true, "ForceOff": false, "GracefulShutdown": false}
	on, isState := want[kind]
	redundant := isState && p.On() == on || kind == "ForceRestart" && !p.On()
	switch {
	case p.inTransition() && p.faults.on(BusyInTransition):
		refuse(w, http.StatusConflict, "ResourceInUse", "The power is in transition")
	case redundant && p.faults.on(RedundantPowerIs5xx):
		refuse(w, http.StatusInternalServerError, "InternalError", "It is so already")
	case redundant && p.faults.on(RedundantPowerIs4xx):
		refuse(w, http.StatusBadRequest, "NoOperation", "It is so already")
	case kind == "GracefulShutdown" && p.faults.on(ShutDownFails):
		refuse(w, http.StatusInternalServerError, "InternalError", "The operating system does not answer")
	case !slices.Contains(p.offeredResets(), kind) || !p.reset(kind):
		refuse(w, http.StatusBadRequest, "ActionParameterNotSupported", "ResetType is not one of those allowed")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// patchBoot sets the boot override.
func (b *bootOverride) patchBoot(w http.ResponseWriter, r *http.Request, path string, body object) {
	boot, _ := body["Boot"].(map[string]any)
	text := func(name string) string { s, _ := boot[name].(string); return s }
	target, known := targets[text("BootSourceOverrideTarget")]
	if enabled, ok := boot["BootSourceOverrideEnabled"]; ok && enabled == "Disabled" {
		target, known = bmc.BootNone, true
	}
	mode := text("BootSourceOverrideMode")
	enabled := text("BootSourceOverrideEnabled")
	if uri, ok := boot["HttpBootUri"]; ok && len(boot) == 1 && b.faults.on(KeepsBootURI) {
		b.keepURI(w, uri)
		return
	}
	switch match := r.Header.Get("If-Match"); {
	case b.faults.take(ETagStorm), match != "" && match != "*" && match != b.etagNow():
		refuse(w, http.StatusPreconditionFailed, "PreconditionFailed", "The ETag does not match")
	case b.faults.on(NeedsETag) && match == "":
		refuse(w, http.StatusPreconditionRequired, "PreconditionRequired", "If-Match is required")
	case !known:
		refuse(w, http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideTarget is not one of those allowed")
	case (path == settingsPath) != b.faults.on(OverrideAtSettings), mode != "" && b.faults.on(RefusesBootMode):
		refuse(w, http.StatusBadRequest, "PropertyNotWritable", "The property cannot be written")
	case b.faults.on(IgnoresOverride), mode != "" && b.faults.on(IgnoresOverrideWithMode), enabled == "Once" && b.faults.on(IgnoresOnce):
		w.WriteHeader(http.StatusNoContent)
	default:
		override := bmc.BootOverride{Target: target, Mode: b.Override().Mode, Continuous: enabled == "Continuous"}
		if enabled == "Disabled" {
			override.Target = bmc.BootNone
		}
		if mode != "" {
			override.Mode = bmc.BootMode(mode)
		}
		if target == bmc.BootHTTP && !b.faults.on(IgnoresBootURI) {
			override.URI = text("HttpBootUri")
		}
		b.override(override)
		b.rememberURI(override.URI)
		w.WriteHeader(http.StatusNoContent)
	}
}
