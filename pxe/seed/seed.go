// Package seed renders bootstrap data as a cloud-init NoCloud seed: meta-data, user-data and vendor-data
// (https://docs.cloud-init.io, "NoCloud").
package seed

import (
	"fmt"
	"path"

	"sigs.k8s.io/yaml"
)

// The files of a seed.
const (
	MetaData   = "meta-data"
	UserData   = "user-data"
	VendorData = "vendor-data"
)

// Data is what a seed is made of.
type Data struct {
	// InstanceID changes with each boot attempt: cloud-init runs once for each.
	InstanceID string
	// Hostname is the name that the node gets.
	Hostname string
	// ProviderID is the node's provider ID.
	ProviderID string
	// UserData is the bootstrap data, as it is.
	UserData []byte
	// ReportPath is where the running system reports in, on the server that serves the seed.
	ReportPath string
}

// File renders a file of the seed, for a server with the URL base. It returns false for files that a seed does not have.
func File(d Data, name, base string) ([]byte, bool, error) {
	switch name {
	case MetaData:
		// provider_id is what a template can name ({{ ds.meta_data.provider_id }}); a dash would be a minus there.
		content, err := yaml.Marshal(map[string]string{
			"instance-id": d.InstanceID, "local-hostname": d.Hostname, "hostname": d.Hostname, "provider_id": d.ProviderID, "provider-id": d.ProviderID,
		})
		return content, true, err
	case UserData:
		return d.UserData, true, nil
	case VendorData:
		content, err := yaml.Marshal(map[string]any{"phone_home": map[string]any{
			"url": base + path.Clean("/"+d.ReportPath), "post": []string{"instance_id", "hostname"}, "tries": 10,
		}})
		return append([]byte("#cloud-config\n"), content...), true, err
	default:
		return nil, false, nil
	}
}

// CommandLine is the kernel argument that tells cloud-init where the seed is.
func CommandLine(url string) string { return fmt.Sprintf("ds=nocloud;s=%s/", url) }
