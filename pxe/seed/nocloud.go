package seed

import (
	"path"

	"sigs.k8s.io/yaml"
)

// metaData renders the metadata of the instance. A template reads it as {{ ds.meta_data.provider_id }}: cloud-init gives each key with a hyphen a second name
// with underscores. Both are in the file, for programs that read the file itself.
func metaData(d Data, _ string) ([]byte, error) {
	meta := map[string]any{
		"instance-id": d.InstanceID, "local-hostname": d.Hostname, "hostname": d.Hostname, "provider-id": d.ProviderID, "provider_id": d.ProviderID,
	}
	if d.FailureDomain != "" {
		meta["failure-domain"], meta["failure_domain"] = d.FailureDomain, d.FailureDomain
	}
	if len(d.Labels) > 0 {
		meta["labels"] = d.Labels
	}
	return yaml.Marshal(meta)
}

func userData(d Data, _ string) ([]byte, error) {
	return d.UserData, nil
}

// vendorData makes the system report with cloud-init's phone_home. The user data can replace it.
func vendorData(d Data, base string) ([]byte, error) {
	config, err := yaml.Marshal(map[string]any{"phone_home": map[string]any{
		"url": base + path.Clean("/"+d.ReportPath), "post": []string{"instance_id", "hostname"}, "tries": 10,
	}})
	if err != nil {
		return nil, err
	}
	config = append([]byte("#cloud-config\n"), config...)
	if !d.reportsOutcome() {
		return config, nil
	}
	// The watch is a separate script: a runcmd would be lost, because the lists of the user data replace those of the vendor data.
	script, err := cloudInitWatch.render(d, base)
	if err != nil {
		return nil, err
	}
	archive, err := yaml.Marshal([]map[string]string{
		{"type": "text/cloud-config", "content": string(config)},
		{"type": "text/x-shellscript", "filename": "capbm-report-bootstrap", "content": script},
	})
	return append([]byte("#cloud-config-archive\n"), archive...), err
}

// networkConfig renders the network of the operating system. Without a network the file is empty, which leaves the network to the image: cloud-init would ask
// for a missing file ten times, a second apart.
func networkConfig(d Data, _ string) ([]byte, error) {
	if d.Network == nil {
		return nil, nil
	}
	return yaml.Marshal(d.Network.netplan())
}
