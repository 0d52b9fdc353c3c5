package settings

import (
	"fmt"
	"slices"
	"strings"
)

// SecureBootInput is what is wished and known of UEFI Secure Boot (DSP0268, SecureBoot).
type SecureBootInput struct {
	// Want is the wished state; nil for no wish.
	Want *bool
	// Reported is true if the BMC reports the state, which is Enabled. Mode is the mode of the key databases; empty if it is unknown.
	Reported, Enabled bool
	Mode              string
	// Pending is the other state, if it is staged for the next boot; nil otherwise.
	Pending *bool
	// Authorities are the common names of the certificates in the database db. KeysKnown is true if they were read.
	KeysKnown   bool
	Authorities []string
	// BootsSigned is true for a host with the bootMode UEFISecureBoot, which the provider boots by its signed shim, and nil if the host is unknown.
	BootsSigned *bool
	// KeepsDisks is true for a host with spec.storage.keep: disks that are sealed to PCR 7 of the TPM are lost when Secure Boot changes.
	KeepsDisks bool
	// MayDisable and MayLoseSealedDisks are the permissions of the profile (spec.allow).
	MayDisable, MayLoseSealedDisks bool
}

// SecureBootChange is a change of Secure Boot.
type SecureBootChange struct {
	From, To bool
	// Pending is true if the setting is staged already.
	Pending bool
}

// SecureBootName is the name of Secure Boot among attributes.
const SecureBootName = "Secure Boot"

// onOff is the setting of Secure Boot as a value.
func onOff(enabled bool) Value {
	return Text(map[bool]string{true: "Enabled", false: "Disabled"}[enabled])
}

// setupMode is the mode of a firmware without a platform key: Secure Boot has no effect (UEFI 2.10, 32.3).
const setupMode = "SetupMode"

// shimAuthorities are the common names of the certificates that Microsoft signs shim with. One of them must be in db.
var shimAuthorities = []string{"Microsoft Corporation UEFI CA 2011", "Microsoft UEFI CA 2023"}

// planSecureBoot plans the change of Secure Boot, or refuses it.
func (p *planner) planSecureBoot() {
	in := p.SecureBoot
	differs, message := in.Want != nil && (!in.Reported || in.Enabled != *in.Want), ""
	if differs {
		message = in.refusal()
	}
	if in.Pending != nil && (!differs || message != "") {
		p.plan.Foreign = append(p.plan.Foreign, Change{Name: SecureBootName, From: onOff(!*in.Pending), To: onOff(*in.Pending), Pending: true})
	}
	switch {
	case !differs:
		return
	case message != "":
		p.refuse(&Refusal{Reason: ReasonSecureBoot, Message: message})
		return
	}
	p.plan.SecureBoot = &SecureBootChange{From: in.Enabled, To: *in.Want, Pending: in.Pending != nil}
	if *in.Want && !in.KeysKnown {
		p.notef("The BMC does not show the keys of Secure Boot: whether they accept the provider's shim is not known before the boot")
	}
}

// refusal returns why Secure Boot must not be changed as wished, with the remedy; empty if it may.
func (s *SecureBootInput) refusal() string {
	switch {
	case !s.Reported:
		return "The BMC does not report whether Secure Boot is enabled, so nothing could prove a change. Remove spec.secureBoot from the profile"
	case !*s.Want && !s.MayDisable:
		return "Secure Boot would be disabled. If that is meant, add SecureBoot to spec.allow of the profile"
	case *s.Want && s.BootsSigned != nil && !*s.BootsSigned:
		return "With Secure Boot the firmware does not run iPXE, which the provider boots this host with. Set spec.bootMode of the host to UEFISecureBoot before"
	case !*s.Want && s.BootsSigned != nil && *s.BootsSigned:
		return "The host declares Secure Boot (spec.bootMode: UEFISecureBoot), and it would be disabled. Set spec.bootMode of the host to UEFI before"
	case s.KeepsDisks && !s.MayLoseSealedDisks:
		return "The host has disks to keep (spec.storage.keep). A change of Secure Boot changes PCR 7 of the TPM, so that disks which are sealed to it cannot be opened any more. " +
			"If no disk is sealed, add KeptDisks to spec.allow of the profile"
	case *s.Want && s.Mode == setupMode:
		return "The firmware is in SetupMode: it has no platform key, so Secure Boot has no effect. Enrol the keys in the setup of the firmware; the provider resets and enrols none"
	case *s.Want && s.KeysKnown:
		return s.keyRefusal()
	default:
		return ""
	}
}

// keyRefusal returns why the keys do not accept what the provider boots.
func (s *SecureBootInput) keyRefusal() string {
	if !slices.ContainsFunc(shimAuthorities, func(name string) bool { return slices.Contains(s.Authorities, name) }) {
		return fmt.Sprintf("The database db of the firmware does not have the certificate that the provider's shim is signed with (%s): the server would not boot. Enrol it in the "+
			"setup of the firmware", strings.Join(shimAuthorities, " or "))
	}
	return ""
}
