// Package seed renders bootstrap data for the operating system that fetches it. It writes cloud-init NoCloud seeds (meta-data, user-data, vendor-data,
// network-config; https://docs.cloud-init.io, "NoCloud"), after which it is named, and Ignition configs (https://coreos.github.io/ignition). docs/reference/bootstrap-data.md
// describes their content.
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

// HasUserData is true for the files that contain the bootstrap data, or whose content depends on it.
func HasUserData(file string) bool { return file == UserData || file == IgnitionFile }

// Format is the format of bootstrap data, as the key "format" of a bootstrap Secret names it.
type Format string

const (
	// CloudConfig is cloud-init's. It is the default.
	CloudConfig Format = "cloud-config"
	// Ignition is Ignition's.
	Ignition Format = "ignition"
)

// Formats returns all formats of bootstrap data.
func Formats() []Format { return []Format{CloudConfig, Ignition} }

func (f Format) orDefault() Format { return cmp.Or(f, CloudConfig) }

func (f Format) unknown() error {
	return fmt.Errorf("bootstrap data of the format %.50q cannot be served: %q can", string(f), Formats())
}

// Data is the input of a seed.
type Data struct {
	// InstanceID changes with each boot attempt: cloud-init runs once for each.
	InstanceID string
	// Hostname is the name that the node gets.
	Hostname string
	// ProviderID is the node's provider ID.
	ProviderID string
	// FailureDomain is the failure domain of the server, or empty.
	FailureDomain string
	// Labels are those of the host.
	Labels map[string]string
	// Network is the network of the operating system. Nil leaves it to the image.
	Network *Network
	// UserData is the bootstrap data, unchanged.
	UserData []byte
	// Format is the format of UserData. Empty is CloudConfig.
	Format Format
	// ReportPath is where the running system reports, on the server that serves the seed.
	ReportPath string
	// SucceededPath and FailedPath are where it reports the result of the bootstrap. Empty for no report.
	SucceededPath, FailedPath string
}

// File renders a file of the seed, for a server with the URL base. It returns false for a file that the format does not have.
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

// Check returns an error if user data cannot be served in its format. The error quotes nothing of the user data.
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
