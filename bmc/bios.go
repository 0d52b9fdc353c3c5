package bmc

import "context"

// BIOSConfigurer reads and stages the BIOS attributes of a server (DSP0268, Bios; DSP0266, 9.10). A change takes effect at the next reset of the server.
// The error of each method is Unsupported if the BMC offers no BIOS attributes.
type BIOSConfigurer interface {
	// BIOS reads the attributes, those that are staged, and the attribute registry. It changes nothing. The error is Failed if the staged attributes cannot be
	// read, because a reset would then apply unknown values, or if the BMC names a registry that cannot be read.
	BIOS(ctx context.Context) (BIOS, error)
	// PendingBIOS returns the names of what the next reset of the server would change, sorted; all attributes if their defaults are staged. It reads no attribute
	// registry, which has megabytes, and changes nothing. The error is Failed if the staged attributes cannot be read.
	PendingBIOS(ctx context.Context) ([]string, error)
	// StageBIOS stages a change for the next reset of the server. It writes only what is not staged already, so the caller may repeat it after an error: a repetition
	// makes no second job. The error is Failed, with the message of the BMC, if the BMC refuses a value. It does not reset the server.
	StageBIOS(ctx context.Context, change BIOSChange) (StagedBIOS, error)
	// ClearStagedBIOS removes the attributes that are staged. Without anything staged it writes nothing. The error is Failed if something is still staged afterwards.
	ClearStagedBIOS(ctx context.Context) error
}

// BIOS is the BIOS configuration of a server.
type BIOS struct {
	// Path is the path of the Bios resource. SettingsPath is that of the settings object; empty if changes are written to the Bios resource.
	Path, SettingsPath string
	// Attributes are the current values by name: string, float64, bool or nil. The value of a password is nil.
	Attributes map[string]any
	// Pending are the staged values that differ from the current ones, without an attribute by which the BMC changes Secure Boot.
	Pending map[string]any
	// PendingSecureBoot is the setting of Secure Boot that is staged as an attribute, if it differs from the current one; nil otherwise.
	PendingSecureBoot *bool
	// DefaultsPending is true if a reset of all attributes to their defaults is staged.
	DefaultsPending bool
	// RegistryName is the name of the attribute registry, as the Bios resource has it; empty without one.
	RegistryName string
	// Registry is the attribute registry as JSON (DSP0268, AttributeRegistry), and RegistryPath its path. It is nil if RegistryProblem says why there is no registry.
	Registry        []byte
	RegistryPath    string
	RegistryProblem string
	// LastMessages are the messages about the last attributes that the BMC applied or refused, as it wrote them to @Redfish.Settings.
	LastMessages []string
}

// BIOSChange is a change of the BIOS configuration.
type BIOSChange struct {
	// Attributes are the new values by name: string, float64 or bool.
	Attributes map[string]any
	// SecureBoot enables or disables UEFI Secure Boot; nil leaves it. Some BMCs accept it only together with the attributes.
	SecureBoot *bool
}

// StagedBIOS is the result of staging a change.
type StagedBIOS struct {
	// Sent is false if everything was staged already.
	Sent bool
	// Task is the path of the task or job that applies the change at the next reset; empty if the BMC names none.
	Task string
}

// SecureBootKeyReader reads the keys of UEFI Secure Boot (DSP0268, SecureBootDatabase).
type SecureBootKeyReader interface {
	// SecureBootKeys reads the database db. The error is Unsupported if the BMC does not show db.
	SecureBootKeys(ctx context.Context) (SecureBootKeys, error)
}

// SecureBootKeys are the keys that decide which programs the firmware runs.
type SecureBootKeys struct {
	// Authorities are the common names of the certificates in db.
	Authorities []string
}
