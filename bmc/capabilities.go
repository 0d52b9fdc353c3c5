package bmc

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Capability is something that a BMC may be able to do.
type Capability string

const (
	CanPowerOn      Capability = "PowerOn"
	CanForceOff     Capability = "ForceOff"
	CanShutDown     Capability = "ShutDown"
	CanCycle        Capability = "Cycle"
	CanReset        Capability = "Reset"
	CanNMI          Capability = "NMI"
	CanBootPXE      Capability = "BootPXE"
	CanBootHTTP     Capability = "BootHTTP"
	CanBootDisk     Capability = "BootDisk"
	CanBootCD       Capability = "BootCD"
	CanInventory    Capability = "Inventory"
	CanVirtualMedia Capability = "VirtualMedia"
	CanSecureBoot   Capability = "SecureBoot"
	CanBIOSSettings Capability = "BIOSSettings"
	CanSensors      Capability = "Sensors"
	CanEventLog     Capability = "EventLog"
	CanClock        Capability = "Clock"
)

// MissingForNetworkBoot lists the capabilities that a network boot needs and that are missing. Either BootPXE or BootHTTP is enough;
// without both, BootPXE is listed for the two.
func MissingForNetworkBoot(can []Capability) []Capability {
	var missing []Capability
	for _, needed := range []Capability{CanPowerOn, CanForceOff, CanBootPXE} {
		if !slices.Contains(can, needed) && (needed != CanBootPXE || !slices.Contains(can, CanBootHTTP)) {
			missing = append(missing, needed)
		}
	}
	return missing
}

// As returns the client as an optional interface, such as VirtualMedia. The error is Unsupported if its driver does not implement it.
func As[T any](c Client, op string) (T, error) {
	if can, ok := c.(T); ok {
		return can, nil
	}
	if o, ok := c.(interface{ unwrap() Client }); ok {
		return As[T](o.unwrap(), op)
	}
	var none T
	return none, &Error{Kind: Unsupported, Op: op, Err: errors.New("the protocol has no such command")}
}

// VirtualMedia inserts images into a server's virtual optical drive. The server should be off: an operating system that runs from an image breaks when the
// image is ejected.
//
// The path of an image's URL may be secret. Errors do not contain it, also if the BMC quotes it.
type VirtualMedia interface {
	// Media lists the virtual drives.
	Media(ctx context.Context) ([]Media, error)
	// InsertMedia inserts the image at an http or https URL into a virtual optical drive. It first ejects what the optical drives contain, also
	// this image, because BMCs report an image for some time after its ejection. It returns when the BMC reports an inserted image that is not a previous
	// one; the caller compares it by MediaDoubt. The caller may repeat it after an error. The error is Unsupported if the BMC has no optical drive, or no
	// licence for it.
	InsertMedia(ctx context.Context, image string) error
	// EjectMedia empties every virtual drive. It is idempotent. A BMC without virtual drives is no error.
	EjectMedia(ctx context.Context) error
}

// Media is a virtual drive.
type Media struct {
	// Name is the drive's name.
	Name string
	// Types are the media that the drive can be: CD, DVD, USBStick, Floppy.
	Types []string
	// Inserted is true when the drive contains an image. Image is its URL, if the BMC reports it.
	Inserted bool
	Image    string
}

// SecureBoot is the state of UEFI Secure Boot.
type SecureBoot struct {
	// Enabled is the setting for the next boot, without what is staged.
	Enabled bool
	// Pending is the setting that is staged for the next boot, if it differs from Enabled; nil otherwise.
	Pending *bool
	// Active is the state of the running boot. It equals Enabled if the BMC does not distinguish them.
	Active bool
	// Mode is the mode of the key databases, as in Redfish: SetupMode, UserMode, AuditMode or DeployedMode; empty if it is unknown. In SetupMode there are no keys.
	Mode string
}

// Next is the setting that the next boot has.
func (s SecureBoot) Next() bool {
	if s.Pending != nil {
		return *s.Pending
	}
	return s.Enabled
}

// SecureBooter reads and sets UEFI Secure Boot.
type SecureBooter interface {
	// SecureBoot reads the state. The error is Unsupported if the server has no Secure Boot.
	SecureBoot(ctx context.Context) (SecureBoot, error)
	// SetSecureBoot changes the setting from the next boot on. It is idempotent.
	SetSecureBoot(ctx context.Context, enabled bool) error
}

// Monitor reads sensors and the clock. The error of each method is Unsupported if the BMC does not offer the data.
// The provider reads the sensors only for metrics that a flag asks for. bmcctl and the conformance suite use the rest. HealthReader reads the logs.
type Monitor interface {
	// Sensors reads the sensors that have a numeric reading.
	Sensors(ctx context.Context) ([]Sensor, error)
	// Clock reads the BMC's clock.
	Clock(ctx context.Context) (time.Time, error)
}

// Sensor is a reading of a sensor.
type Sensor struct {
	Name string
	// Kind is the measured quantity: Temperature, Fan, Voltage, Power, ...
	Kind  string
	Value float64
	// Unit is the unit of Value: Cel, RPM, V, W, %, ...
	Unit   string
	Health Health
}
