package settings

import "regexp"

// protectedArea is a setting that no BIOS attribute may change, because a mistake in it makes a server unbootable or lets it boot anything.
type protectedArea struct {
	// names matches the names of the attributes.
	names *regexp.Regexp
	// remedy is the rest of a sentence about the attribute.
	remedy string
}

// protected are the protected areas. The names are those of the recorded BMCs: "BootMode" (Dell, HPE), "BootModes_SystemBootMode" (Lenovo), "CSMSupport_0121" (Supermicro),
// "FBO101" (AMI, the fixed boot order). AMI has firmware whose attributes have numbers for names (SETUP006), which nothing can recognise.
var protected = []protectedArea{
	{regexp.MustCompile(`(?i)secure_?boot|^InsertDBx`), "is about Secure Boot: use spec.secureBoot, which checks the keys before and the state after"},
	{
		regexp.MustCompile(`(?i)^(OneTime)?BootMode(Select)?(_[0-9A-F]{4})?$|SystemBootMode$|^LegacyBIOS_LegacyBIOS$|^CSMSupport`),
		"is the boot mode, which a profile does not change: change it in the setup of the firmware, and spec.bootMode of the host with it",
	},
	{
		regexp.MustCompile(`(?i)^(Set(Boot|LegacyHdd)Order\w*|BootOrder|UefiPriorities\d+|OneTime(Uefi)?BootSeqDev|(Uefi)?BootSeq|FBO\d+)$`),
		"is the boot order, which a profile does not change: the provider sets a boot override for each boot",
	},
}

// secretName matches the names of attributes whose value is a password, or is made from one. BMCs give many of them the type String: "SHA256SetupPassword",
// "SHA256SetupPasswordSalt" and "IscsiDev1Con1ChapSecret" (Dell R750).
var secretName = regexp.MustCompile(`(?i)passw|secret|chap|passphrase|salt`)

// isSecret is true for an attribute whose value is shown nowhere and set by no profile. An enumeration, such as "PasswordStatus" (Dell), has no value of its own.
func isSecret(name string, a *Attribute) bool {
	return a != nil && a.Type == TypePassword || secretName.MatchString(name) && (a == nil || a.Type != TypeEnumeration)
}

// protection returns why no profile may change an attribute, as the rest of a sentence; empty if it may.
func protection(name string) string {
	for _, area := range protected {
		if area.names.MatchString(name) {
			return area.remedy
		}
	}
	return ""
}
