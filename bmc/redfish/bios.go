package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// bios reads and stages the BIOS attributes (DSP0268, Bios). A BMC stages them in a settings object, which has all attributes (HPE, Lenovo, AMI), the pending
// ones (Dell, NVIDIA), or no property Attributes while none is pending (Supermicro). Cisco has no settings object: the Bios resource itself is written.
type bios struct {
	service *service
	system  *system
}

var _ bmc.BIOSConfigurer = &bios{}

// biosState is the Bios resource with its settings object.
type biosState struct {
	resource // of the Bios resource

	path string
	// settingsPath is the path of the settings object; empty without one. settings is the object.
	settingsPath string
	settings     resource
}

// target is the path that changes are written to.
func (s *biosState) target() string {
	if s.settingsPath != "" {
		return s.settingsPath
	}
	return s.path
}

// attributes are the current values.
func (s *biosState) attributes() map[string]any { return s.object("Attributes") }

// pending are the staged values that differ from the current ones. A value that the settings object does not have is not staged.
func (s *biosState) pending() map[string]any {
	current, staged := s.attributes(), map[string]any{}
	for name, value := range s.settings.object("Attributes") {
		if value != nil && !sameValue(value, current[name]) {
			staged[name] = value
		}
	}
	return staged
}

// sameValue is true for values with the same text: some BMCs write a number as a text in one of the two resources.
func sameValue(a, b any) bool {
	return reflect.DeepEqual(a, b) || a != nil && b != nil && fmt.Sprint(a) == fmt.Sprint(b)
}

// hasAttributes is true for a Bios resource with attributes in the form of Redfish. Cray writes an object for each.
func hasAttributes(r resource) bool {
	for _, value := range r.object("Attributes") {
		switch value.(type) {
		case string, float64, bool:
			return true
		}
	}
	return false
}

// read reads the Bios resource and its settings object.
func (b *bios) read(ctx context.Context, op string) (*biosState, error) {
	if err := b.system.refresh(ctx); err != nil {
		return nil, err
	}
	state := &biosState{path: b.system.link("Bios")}
	if state.path == "" {
		return nil, unsupportedBIOS(op, errors.New("the BMC does not offer BIOS attributes"))
	}
	var err error
	if state.resource, err = b.service.fetch(ctx, state.path); err != nil {
		if bmc.KindOf(wrap(op, err)) == bmc.NotFound {
			return nil, unsupportedBIOS(op, err)
		}
		return nil, wrap(op, err)
	}
	if !hasAttributes(state.resource) {
		return nil, unsupportedBIOS(op, errors.New("the BMC offers no BIOS attributes in the form of Redfish (names with a text, a number or a boolean)"))
	}
	return state, b.readSettings(ctx, op, state)
}

func unsupportedBIOS(op string, err error) error {
	return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
}

// readSettings reads the settings object. A linked one that cannot be read is an error: it may have values that the next reset applies.
func (b *bios) readSettings(ctx context.Context, op string, state *biosState) error {
	linked := state.settingsObject()
	path := linked
	if path == "" && b.system.quirk.settings {
		path = state.path + "/SD"
	}
	if path == "" || path == state.path {
		return nil
	}
	settings, err := b.service.fetch(ctx, path)
	switch {
	case err == nil:
		state.settingsPath, state.settings = path, settings
		return nil
	case linked == "" && bmc.KindOf(wrap(op, err)) == bmc.NotFound:
		return nil // the path was a guess
	default:
		return wrap(op+": read what is staged", err)
	}
}

// BIOS reads the attributes, what is staged, and the registry.
func (b *bios) BIOS(ctx context.Context) (bmc.BIOS, error) {
	const op = "Read the BIOS attributes"
	state, err := b.read(ctx, op)
	if err != nil {
		return bmc.BIOS{}, err
	}
	pending := state.pending()
	result := bmc.BIOS{
		Path: state.path, SettingsPath: state.settingsPath, Attributes: maps.Clone(state.attributes()), Pending: pending,
		PendingSecureBoot: takeSecureBoot(pending, b.system.quirk.secureBootAttribute),
		DefaultsPending:   state.boolean("ResetBiosToDefaultsPending"), RegistryName: state.text("AttributeRegistry"), LastMessages: settingsMessages(state.resource),
	}
	registry, path, err := b.registry(ctx, result.RegistryName)
	if gone := b.service.unavailable(ctx); gone != nil {
		return bmc.BIOS{}, wrap(op, gone)
	}
	switch {
	case err == nil:
	case result.RegistryName == "" || hasNoRegistry(err): // a BMC need not have one, and the result says why it is missing
		result.RegistryProblem = err.Error()
		return result, nil
	default: // without a registry that the BMC has, most checks of a profile would be missing
		return bmc.BIOS{}, unreadRegistry(op, err)
	}
	result.RegistryPath = path
	result.Registry, err = json.Marshal(registry)
	return result, wrap(op, err)
}

// PendingBIOS returns the names of the attributes that the next reset changes.
func (b *bios) PendingBIOS(ctx context.Context) ([]string, error) {
	state, err := b.read(ctx, "Read the staged BIOS attributes")
	switch {
	case err != nil:
		return nil, err
	case state.boolean("ResetBiosToDefaultsPending"):
		return slices.Sorted(maps.Keys(state.attributes())), nil
	default:
		return slices.Sorted(maps.Keys(state.pending())), nil
	}
}

// takeSecureBoot removes from staged values the attribute by which the BMC changes Secure Boot, and returns the setting; nil if it is not staged, or has another value.
func takeSecureBoot(pending map[string]any, name string) *bool {
	value, isStaged := pending[name]
	if !isStaged || value != attributeOn && value != attributeOff {
		return nil
	}
	delete(pending, name)
	return new(value == attributeOn)
}

// maxSettingsMessages limits the messages about the last settings.
const maxSettingsMessages = 8

// settingsMessages returns the messages about the last attributes that were applied (DSP0266, 9.10): "Base.1.0.Success". They are the BMC's word and no proof.
func settingsMessages(r resource) []string {
	var messages []string
	for _, m := range r.list("@Redfish.Settings", "Messages") {
		text := m.text("MessageId")
		if detail := m.text("Message"); detail != "" {
			text += ": " + detail
		}
		messages = append(messages, bmc.MaskURLs(text))
	}
	messages = slices.Compact(messages)
	return messages[:min(len(messages), maxSettingsMessages)]
}
