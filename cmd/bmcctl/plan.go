package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
)

const aboutPlan = `bmcctl plan ADDRESS shows what a BareMetalProfile would change on a server: the settings that differ, what else changes with
them, what is refused and why, and whether the server has to be restarted. It writes nothing to the BMC. In place of an address it reads a
recorded Redfish service: a file .json or .json.gz with a JSON object of paths and answers.
The exit code is 1 if a setting is refused, or if the BMC has pending values that the profile does not name.

  bmcctl plan --profile profile.yaml redfish://192.0.2.10 --username admin --ca bmc-ca.crt
  bmcctl plan --profile profile.yaml recordings/dell-r750.json.gz -o json
`

// planned is the plan for a server, as it is printed.
type planned struct {
	Source  string        `json:"source"`
	Server  string        `json:"server"`
	Profile string        `json:"profile"`
	Plan    settings.Plan `json:"plan"`
	// Verdict summarises the plan.
	Verdict string `json:"verdict"`

	firmware *firmware
}

func plan(ctx context.Context, args []string, c console) error {
	var (
		f            firmwareFlags
		file, output string
	)
	set := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	set.StringVar(&file, "profile", "", "The `file` with the BareMetalProfile (YAML).")
	set.StringVarP(&output, "output", "o", "text", "Output `format`: text or json.")
	f.flags(set)
	from, err := parse(set, args, c, aboutPlan)
	switch {
	case err != nil:
		return err
	case file == "":
		return usageErrorf("--profile is missing: bmcctl profile %s writes one", from)
	case output != "text" && output != "json":
		return usageErrorf("--output: %q is neither text nor json", output)
	}
	profile, err := readProfile(file)
	if err != nil {
		return usageErrorf("--profile: %v", err)
	}
	t, err := f.source(ctx, from, c)
	if err != nil {
		return err
	}
	read, err := readFirmware(ctx, t, f.timeout)
	if err != nil {
		return t.explain(err)
	}
	result := newPlanned(from, profile, read)
	if output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(plain(result, nil))
	} else {
		err = result.print(c.out)
	}
	if err == nil && result.Plan.Blocked() {
		return errReported
	}
	return err
}

// maxProfile is the maximum size of a file with a profile.
const maxProfile = 1 << 20

// readProfile reads a BareMetalProfile from a file.
func readProfile(file string) (*v1alpha1.BareMetalProfile, error) {
	f, err := os.Open(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	content, err := io.ReadAll(io.LimitReader(f, maxProfile+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) > maxProfile:
		return nil, fmt.Errorf("%s is larger than %d KiB", file, maxProfile>>10)
	}
	var profile v1alpha1.BareMetalProfile
	if err := yaml.UnmarshalStrict(content, &profile); err != nil {
		if text := err.Error(); strings.Contains(text, "cannot unmarshal bool") || strings.Contains(text, "cannot unmarshal number") {
			err = fmt.Errorf(`%w: write true, false, on, off, yes, no and integers of more than 32 bits in quotes, like value: "true"`, err)
		}
		return nil, err
	}
	switch {
	case profile.Kind != "BareMetalProfile" || profile.APIVersion != v1alpha1.GroupVersion.String():
		return nil, fmt.Errorf("%s is not a BareMetalProfile of %s", file, v1alpha1.GroupVersion)
	case len(profile.Spec.BIOSSettings) == 0 && profile.Spec.SecureBoot == "":
		return nil, fmt.Errorf("%s has neither spec.biosSettings nor spec.secureBoot", file)
	case slices.ContainsFunc(profile.Spec.BIOSSettings, func(s v1alpha1.BIOSSetting) bool { return s.Name == "" || s.Value == nil }):
		return nil, fmt.Errorf("each of spec.biosSettings in %s needs a name and a value", file)
	}
	return &profile, nil
}

// newPlanned makes the plan of a profile for a server.
func newPlanned(source string, profile *v1alpha1.BareMetalProfile, f *firmware) *planned {
	spec := &profile.Spec
	in := settings.Input{Registry: f.registry, Current: f.current, Pending: f.pending, SecureBoot: f.secureBootInput(spec)}
	for _, s := range spec.BIOSSettings {
		in.Wishes = append(in.Wishes, settings.Wish{Name: s.Name, Value: s.Value.String()})
	}
	p := &planned{
		Source: source, Server: strings.TrimSpace(f.description.Vendor + " " + f.description.Model), Profile: profile.Name, Plan: settings.NewPlan(in), firmware: f,
	}
	if len(f.invalid) > 0 {
		p.Plan.Notes = append(p.Plan.Notes, "These attributes have no valid value: "+strings.Join(f.invalid, ", "))
	}
	if f.bios.DefaultsPending {
		p.Plan.Notes = append(p.Plan.Notes, "A reset of all attributes to their defaults is pending: the next restart changes more than this plan")
	}
	if why := otherServer(&spec.Hosts, f); why != "" {
		p.Plan.Notes = append(p.Plan.Notes, why)
	}
	if s := p.Plan.SecureBoot; s != nil {
		p.Plan.Notes = append(p.Plan.Notes, "The provider refuses to "+map[bool]string{
			true: "enable Secure Boot on a host whose spec.bootMode is not UEFISecureBoot", false: "disable Secure Boot on a host whose spec.bootMode is UEFISecureBoot",
		}[s.To])
	}
	p.Verdict = verdictOf(&p.Plan)
	return p
}

// secureBootInput is what is wished and known of Secure Boot. The boot mode, and which disks are kept, are in the host, which bmcctl does not read.
func (f *firmware) secureBootInput(spec *v1alpha1.BareMetalProfileSpec) settings.SecureBootInput {
	in := settings.SecureBootInput{
		Pending: f.bios.PendingSecureBoot, MayDisable: slices.Contains(spec.Allow, v1alpha1.PermitSecureBoot), MayLoseSealedDisks: slices.Contains(spec.Allow, v1alpha1.PermitKeptDisks),
	}
	if spec.SecureBoot != "" {
		in.Want = new(spec.SecureBoot == wire.SecureBootEnabled)
	}
	if f.secureBoot != nil {
		in.Reported, in.Enabled, in.Mode = true, f.secureBoot.Enabled, f.secureBoot.Mode
		in.Pending = cmp.Or(in.Pending, f.secureBoot.Pending)
	}
	if f.keys != nil {
		in.KeysKnown, in.Authorities = true, f.keys.Authorities
	}
	return in
}

// otherServer says that a profile is for other servers; empty if it is for this one. Labels are those of a host, which bmcctl does not read.
func otherServer(hosts *v1alpha1.ProfileHosts, f *firmware) string {
	for _, c := range []struct {
		what, is string
		want     []string
	}{{"manufacturer", f.description.Vendor, hosts.Manufacturers}, {"model", f.description.Model, hosts.Models}} {
		if len(c.want) > 0 && !slices.Contains(c.want, c.is) {
			return fmt.Sprintf("The profile selects other servers than this one: its %s is %q, not one of %s", c.what, c.is, strings.Join(c.want, ", "))
		}
	}
	return ""
}

// verdictOf summarises a plan.
func verdictOf(p *settings.Plan) string {
	switch {
	case len(p.Refusals) > 0 && len(p.Foreign) > 0:
		return fmt.Sprintf("nothing would be written: %d refused, and %d pending that the profile does not name", len(p.Refusals), len(p.Foreign))
	case len(p.Refusals) > 0:
		return fmt.Sprintf("nothing would be written: %d refused", len(p.Refusals))
	case len(p.Foreign) > 0:
		return fmt.Sprintf("nothing would be written: the next restart would apply %d pending values that the profile does not name. Clear them in the BMC, or name them", len(p.Foreign))
	case p.Conforms():
		return "the server conforms: nothing would be written, and it would not be restarted"
	}
	changes := len(p.Changes)
	if p.SecureBoot != nil {
		changes++
	}
	return fmt.Sprintf("%s, %s", count(changes, "change"), count(p.Reboots, "restart"))
}

// count returns a number with its noun: 1 change, 2 changes.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// print writes the plan as tables.
func (p *planned) print(w io.Writer) error {
	t := newTable(w)
	t.row("Server", p.Server)
	t.row("Attributes", fmt.Sprintf("%d of %s, staged at %s", len(p.firmware.current), p.firmware.bios.Path, cmp.Or(p.firmware.bios.SettingsPath, "the same path")))
	t.row("Registry", p.firmware.registryText())
	t.row("Profile", p.Profile)
	printChanges(t, "CHANGE", p.Plan.Changes)
	printChanges(t, "ALSO CHANGES", p.Plan.Implied)
	printChanges(t, "PENDING, NOT IN THE PROFILE", p.Plan.Foreign)
	if s := p.Plan.SecureBoot; s != nil {
		then := onOff(s.To)
		if s.Pending {
			then += ", pending"
		}
		t.section("SECURE BOOT", "NOW", "THEN")
		t.row("Enabled", onOff(s.From), then)
	}
	if len(p.Plan.Refusals) > 0 {
		t.section("REFUSED", "VALUE", "REASON", "WHY")
	}
	for _, r := range p.Plan.Refusals {
		t.row(cmp.Or(r.Name, "Secure Boot"), r.Value, string(r.Reason), r.Message)
	}
	if len(p.Plan.Notes) > 0 {
		t.section("NOTES")
	}
	for _, note := range p.Plan.Notes {
		t.row(note)
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nPlan: %s\n", clean(p.Verdict))
	return err
}

func printChanges(t *table, title string, changes []settings.Change) {
	if len(changes) > 0 {
		t.section(title, "NOW", "THEN", "REMARK")
	}
	for _, c := range changes {
		remark := ""
		switch {
		case c.Because != nil:
			remark = "because of " + strings.Join(c.Because, ", ")
		case c.Pending:
			remark = "pending"
		}
		t.row(c.Name, c.From.String(), c.To.String(), remark)
	}
}

// profileValue returns a value as a profile has it: an integer of 32 bits, or a text.
func profileValue(value settings.Value) *intstr.IntOrString {
	v := intstr.FromString(value.String())
	if n, ok := value.JSON().(float64); ok && n == float64(int32(n)) {
		v = intstr.FromInt32(int32(n))
	}
	return &v
}
