package seed

import (
	"path"

	"sigs.k8s.io/yaml"
)

// metaData is what cloud-init knows of the instance. A template reads it as {{ ds.meta_data.provider_id }}: cloud-init gives each key
// with a hyphen a second name with underscores, and both are written out for what reads the file by itself.
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

func userData(d Data, _ string) ([]byte, error) { //nolint:unparam // it stands among the others
	return d.UserData, nil
}

// vendorData makes the system report in, by cloud-init's phone_home. The user data can replace it.
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
	// A script of its own: a runcmd would be lost to the user data's, which takes the place of the vendor's lists.
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

// networkConfig is the network of the operating system. For a server without one it is an empty file, which leaves the network to the
// image: cloud-init would ask for a missing file ten times, a second apart.
func networkConfig(d Data, _ string) ([]byte, error) {
	if d.Network == nil {
		return nil, nil
	}
	return yaml.Marshal(d.Network.netplan())
}
