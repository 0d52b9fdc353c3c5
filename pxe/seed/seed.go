// Package seed renders bootstrap data for the operating system that asks for it: as a cloud-init NoCloud seed (meta-data, user-data,
// vendor-data, network-config; https://docs.cloud-init.io, "NoCloud") or as an Ignition config
// (https://coreos.github.io/ignition). docs/seeds.md says what is in them.
package seed

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// The files of a seed: the first four are cloud-init's, the last is Ignition's.
const (
	MetaData      = "meta-data"
	UserData      = "user-data"
	VendorData    = "vendor-data"
	NetworkConfig = "network-config"
	IgnitionFile  = "ignition"
)

// HasUserData is true for the files that hold the bootstrap data, or whose content depends on it.
func HasUserData(file string) bool { return file == UserData || file == IgnitionFile }

// Format is the format of bootstrap data, as the key "format" of a bootstrap Secret names it.
type Format string

// The formats of bootstrap data.
const (
	// CloudConfig is cloud-init's. It is the default.
	CloudConfig Format = "cloud-config"
	// Ignition is Ignition's.
	Ignition Format = "ignition"
)

// Formats are all formats of bootstrap data.
func Formats() []Format { return []Format{CloudConfig, Ignition} }

func (f Format) orDefault() Format { return cmp.Or(f, CloudConfig) }

func (f Format) unknown() error {
	return fmt.Errorf("bootstrap data of the format %.50q cannot be served: %q can", string(f), Formats())
}

// Data is what a seed is made of.
type Data struct {
	// InstanceID changes with each boot attempt: cloud-init runs once for each.
	InstanceID string
	// Hostname is the name that the node gets.
	Hostname string
	// ProviderID is the node's provider ID.
	ProviderID string
	// FailureDomain is where the server stands. Empty when nobody said.
	FailureDomain string
	// Labels are the server's.
	Labels map[string]string
	// Network is the network that the operating system shall have. Nil leaves it to the image.
	Network *Network
	// UserData is the bootstrap data, as it is.
	UserData []byte
	// Format is the format of UserData. Empty is CloudConfig.
	Format Format
	// ReportPath is where the running system reports in, on the server that serves the seed.
	ReportPath string
	// SucceededPath and FailedPath are where it reports whether the bootstrap data was carried out. Empty when nobody wants to know.
	SucceededPath, FailedPath string
}

// File renders a file of the seed, for a server with the URL base. It returns false for files that a seed of its format does not have.
func File(d Data, name, base string) ([]byte, bool, error) {
	known, ok := files[d.Format.orDefault()]
	if !ok {
		return nil, false, d.Format.unknown()
	}
	render, ok := known[name]
	if !ok {
		return nil, false, nil
	}
	content, err := render(d, base)
	return content, err == nil, err
}

// Check is an error when user data cannot be served in a format that it claims to have. The error quotes nothing of it.
func Check(f Format, userData []byte) error {
	switch f.orDefault() {
	case CloudConfig:
		return nil // any text is user data for cloud-init
	case Ignition:
		_, err := versionOf(userData)
		return err
	default:
		return f.unknown()
	}
}

// FileNames returns the names of the files of a format, sorted.
func FileNames(f Format) []string { return slices.Sorted(maps.Keys(files[f.orDefault()])) }

var files = map[Format]map[string]func(d Data, base string) ([]byte, error){
	CloudConfig: {
		MetaData:      metaData,
		UserData:      userData,
		VendorData:    vendorData,
		NetworkConfig: networkConfig,
	},
	Ignition: {IgnitionFile: ignition},
}
