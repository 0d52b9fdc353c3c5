package main

import (
	"context"
	"strings"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

const aboutProfile = `bmcctl profile ADDRESS writes a BareMetalProfile with the firmware settings of a good server: the BIOS attributes that a profile can
change and that do not have their default value, and Secure Boot if it is enabled. It writes nothing to the BMC. Read the result, and remove
what differs between servers, before you use it. In place of an address it reads a recording, as bmcctl plan does.

  bmcctl profile redfish://192.0.2.10 --username admin --ca bmc-ca.crt >profile.yaml
  bmcctl profile recordings/dell-r750.json.gz --all --name r750
`

// maxSettings is how many settings a profile may have (spec.biosSettings).
const maxSettings = 512

func profile(ctx context.Context, args []string, c console) error {
	var (
		f    firmwareFlags
		name string
		all  bool
	)
	set := pflag.NewFlagSet("profile", pflag.ContinueOnError)
	set.StringVar(&name, "name", "", "Name of the profile. Defaults to the model of the server.")
	set.BoolVar(&all, "all", false, "Also write the attributes that have their default value.")
	f.flags(set)
	from, err := parse(set, args, c, aboutProfile)
	if err != nil {
		return err
	}
	t, err := f.source(ctx, from, c)
	if err != nil {
		return err
	}
	read, err := readFirmware(ctx, t, f.timeout)
	if err != nil {
		return t.explain(err)
	}
	result := newProfile(read, name, all)
	if len(result.Spec.BIOSSettings) == 0 && result.Spec.SecureBoot == "" {
		writef(c.err, "bmcctl: the profile is empty: the server has only default values, or its BMC has no attribute registry: --all writes all values\n")
	}
	if more := len(result.Spec.BIOSSettings) - maxSettings; more > 0 {
		result.Spec.BIOSSettings = result.Spec.BIOSSettings[:maxSettings]
		writef(c.err, "bmcctl: %d settings were left out, because a profile has at most %d\n", more, maxSettings)
	}
	content, err := yaml.Marshal(result)
	if err == nil {
		_, err = c.out.Write(content)
	}
	return err
}

// newProfile returns the profile of a server.
func newProfile(f *firmware, name string, all bool) *v1alpha1.BareMetalProfile {
	p := &v1alpha1.BareMetalProfile{}
	p.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalProfile"))
	if p.Name = name; name == "" {
		p.Name = objectName(f.description.Model)
	}
	if f.description.Vendor != "" {
		p.Spec.Hosts.Manufacturers = []string{clean(f.description.Vendor)}
	}
	if f.description.Model != "" {
		p.Spec.Hosts.Models = []string{clean(f.description.Model)}
	}
	for _, w := range settings.FromHost(f.registry, f.current, all) {
		p.Spec.BIOSSettings = append(p.Spec.BIOSSettings, v1alpha1.BIOSSetting{Name: w.Name, Value: profileValue(f.current[w.Name])})
	}
	if f.secureBoot != nil && f.secureBoot.Enabled {
		p.Spec.SecureBoot = wire.SecureBootEnabled
	}
	return p
}

// objectName returns a text as the name of an object: in lower case, with - in place of other characters than letters and digits.
func objectName(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	const most = 63
	if name = strings.Trim(name[:min(len(name), most)], "-"); name == "" {
		return "server"
	}
	return name
}
