// Package render renders bootstrap data from the templates of a BareMetalConfig. It consists of pure functions. No error contains a value of a template.
package render

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/usertemplate"
)

// Error is the reason why bootstrap data cannot be rendered.
type Error struct {
	// Reason is the reason of the condition DataSecretAvailable.
	Reason string

	err error
}

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

func invalidTemplate(err error) error {
	if errors.Is(err, usertemplate.ErrResultTooLarge) {
		return tooLarge(fmt.Errorf("%w: a Secret holds %d bytes. Let the server download the large parts when it boots", err, MaxData))
	}
	return &Error{bootstrapv1.ReasonTemplateInvalid, err}
}

func invalidUserData(format string, args ...any) error {
	return &Error{bootstrapv1.ReasonUserDataInvalid, fmt.Errorf("user data: "+format, args...)}
}

func tooLarge(err error) error { return &Error{bootstrapv1.ReasonDataTooLarge, err} }

// BootstrapData renders the bootstrap data of a Machine. userData is the template in spec.userData, or the one that spec.userDataFrom refers to. Errors are
// of the type *Error.
func BootstrapData(spec *bootstrapv1.BareMetalConfigSpec, userData string, data Data) ([]byte, error) {
	ofUserData := userDataLanguage()
	ofUserData.Private = spec.UserDataFrom != nil // it may be a Secret
	rendered, err := renderTemplate(ofUserData, userData, data)
	if err != nil {
		return nil, err
	}
	commands, left := make([]string, len(spec.Commands)), MaxData-len(rendered)
	for i, text := range spec.Commands {
		of := commandLanguage(i)
		of.MaxResult = left // so that all together take no more memory than the result may
		command, err := renderTemplate(of, text, data)
		if err != nil {
			return nil, err
		}
		commands[i] = string(command)
		left -= len(command)
	}
	if len(rendered) == 0 && len(commands) == 0 {
		return nil, invalidUserData("it is empty when it is rendered")
	}
	result, err := assemble(spec, rendered, commands)
	if err != nil {
		return nil, err
	}
	if len(result) > MaxData {
		return nil, tooLarge(fmt.Errorf("the rendered bootstrap data has %d bytes, and a Secret holds %d. Let the server download the large parts when it boots", len(result), MaxData))
	}
	return result, nil
}

// assemble adds the commands to the user data.
func assemble(spec *bootstrapv1.BareMetalConfigSpec, userData []byte, commands []string) ([]byte, error) {
	switch spec.Format {
	case bootstrapv1.FormatIgnition:
		return ignition(userData, commands)
	case bootstrapv1.FormatCloudConfig:
		return cloudConfig(userData, commands)
	default:
		return nil, invalidUserData("the format %.50q is not known", string(spec.Format))
	}
}

func renderTemplate(l usertemplate.Language, text string, data Data) ([]byte, error) {
	parsed, err := l.Parse(text, nil)
	if err != nil {
		return nil, invalidTemplate(err)
	}
	result, err := parsed.Render(data)
	if err != nil {
		return nil, invalidTemplate(err)
	}
	return result, nil
}

// Check returns the errors of a spec that do not depend on the Machine. It cannot check the user data in spec.userDataFrom.
func Check(spec *bootstrapv1.BareMetalConfigSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	sample := sampleOf(spec)
	add := func(path *field.Path, err error) {
		if err != nil {
			all = append(all, field.Invalid(path, field.OmitValueType{}, err.Error()+". `kubectl explain baremetalconfig.spec.userData` describes templates"))
		}
	}
	_, err := userDataLanguage().Parse(spec.UserData, sample)
	if err == nil && spec.UserDataFrom == nil && !strings.Contains(spec.UserData, "<%") { // it is what will be rendered
		_, err = assemble(spec, []byte(spec.UserData), spec.Commands)
	}
	add(path.Child("userData"), err)
	for i, text := range spec.Commands {
		_, err := commandLanguage(i).Parse(text, sample)
		add(path.Child("commands").Index(i), err)
	}
	return all
}
