package bmc

import (
	"context"
	"time"
)

// VirtualMedia puts images into a server's virtual optical drive.
type VirtualMedia interface {
	// Media lists the virtual drives.
	Media(ctx context.Context) ([]Media, error)
	// InsertMedia puts the image at an http or https URL into a virtual optical drive. It is idempotent; another image
	// that is there is ejected first. It returns when the BMC says that the image is in.
	InsertMedia(ctx context.Context, image string) error
	// EjectMedia empties every virtual drive. It is idempotent, and no error where there is none.
	EjectMedia(ctx context.Context) error
}

// Media is a virtual drive.
type Media struct {
	// Name is the drive's.
	Name string
	// Types are what it can be: CD, DVD, USBStick, Floppy.
	Types []string
	// Inserted is true when an image is in it. Image is its URL, where the BMC tells.
	Inserted bool
	Image    string
}

// SecureBoot is the state of UEFI Secure Boot.
type SecureBoot struct {
	// Enabled is what the next boot does.
	Enabled bool
	// Active is what the running boot did; the same as Enabled where the BMC does not tell them apart.
	Active bool
}

// SecureBooter reads and sets UEFI Secure Boot.
type SecureBooter interface {
	// SecureBoot reads it. The error is Unsupported where the server has none.
	SecureBoot(ctx context.Context) (SecureBoot, error)
	// SetSecureBoot switches it from the next boot on. It is idempotent.
	SetSecureBoot(ctx context.Context, enabled bool) error
}

// Monitor reads how a server is. Each method's error is Unsupported where the BMC does not tell.
type Monitor interface {
	// Sensors reads the sensors that have a number.
	Sensors(ctx context.Context) ([]Sensor, error)
	// Events reads the newest entries of the event log, newest first, at most so many.
	Events(ctx context.Context, most int) ([]Event, error)
	// Clock reads the BMC's clock.
	Clock(ctx context.Context) (time.Time, error)
}

// Sensor is a reading of a sensor.
type Sensor struct {
	Name string
	// Kind is what is measured: Temperature, Fan, Voltage, Power, ...
	Kind  string
	Value float64
	// Unit is the unit of Value: Cel, RPM, V, W, %, ...
	Unit   string
	Health Health
}

// Event is an entry of the event log.
type Event struct {
	// Time is when it happened, by the BMC's clock; zero where it does not tell.
	Time time.Time
	// Severity is OK, Warning or Critical; empty where it is not known.
	Severity Health
	Message  string
}
