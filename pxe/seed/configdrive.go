package seed

import (
	"encoding/json"

	"sigs.k8s.io/yaml"
)

// The files of a configuration drive, in its folder for the latest version.
const (
	configDriveFolder      = "openstack/latest/"
	configDriveUserData    = configDriveFolder + "user_data"
	configDriveMetaData    = configDriveFolder + "meta_data.json"
	configDriveVendorData  = configDriveFolder + "vendor_data.json"
	configDriveNetworkData = configDriveFolder + "network_data.json"
)

// configDriveMeta renders meta_data.json. It has the keys of the NoCloud metadata, so that a template works with both data sources, and those of OpenStack:
// cloud-init takes the instance ID from uuid, and the hostname from hostname.
func configDriveMeta(d Data, base string) ([]byte, error) {
	content, err := metaData(d, base)
	if err != nil {
		return nil, err
	}
	meta := map[string]any{}
	if err := yaml.Unmarshal(content, &meta); err != nil {
		return nil, err
	}
	meta["uuid"], meta["name"] = d.InstanceID, d.Hostname
	if d.FailureDomain != "" {
		meta["availability_zone"] = d.FailureDomain
	}
	if len(d.Labels) > 0 {
		meta["meta"] = d.Labels
	}
	return json.Marshal(meta)
}

// configDriveVendor renders vendor_data.json: cloud-init reads its own vendor data from the key cloud-init.
func configDriveVendor(d Data, base string) ([]byte, error) {
	content, err := vendorData(d, base)
	if err != nil {
		return nil, err
	}
	return json.Marshal(map[string]string{"cloud-init": string(content)})
}
