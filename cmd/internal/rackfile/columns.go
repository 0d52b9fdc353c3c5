package rackfile

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
)

// The columns that other files use.
const (
	columnName        = "name"
	columnBMC         = "bmcAddress"
	columnMAC         = "bootMACAddresses"
	columnUsername    = "username"
	columnPassword    = "password"
	columnCredentials = "credentialsSecretName"
)

// column is a column of the file. set reads a cell that is not empty. It omits checks that the API server makes.
type column struct {
	name     string
	required bool
	set      func(d *draft, cell string) error
}

// columns have the names of the fields of a BareMetalHost, if they are fields.
var columns = []column{
	{columnName, true, func(d *draft, cell string) error {
		d.host.Name = cell
		return first(validation.IsDNS1123Subdomain(cell))
	}},
	{columnBMC, true, (*draft).setBMC},
	{columnUsername, false, func(d *draft, cell string) error {
		d.username = cell
		return nil
	}},
	{columnPassword, false, (*draft).setPassword},
	{columnCredentials, false, func(d *draft, cell string) error {
		d.host.Spec.BMC.CredentialsSecretName = cell
		return first(validation.IsDNS1123Subdomain(cell))
	}},
	{columnMAC, true, (*draft).setMACs},
	{"caSecretName", false, func(d *draft, cell string) error {
		d.host.Spec.BMC.CASecretName = cell
		return first(validation.IsDNS1123Subdomain(cell))
	}},
	{"insecureSkipTLSVerify", false, func(d *draft, cell string) error { return setBool(&d.host.Spec.BMC.InsecureSkipTLSVerify, cell) }},
	{"bootMode", false, func(d *draft, cell string) error {
		return oneOf(&d.host.Spec.BootMode, cell, v1alpha1.BootModeUEFI, v1alpha1.BootModeUEFISecureBoot, v1alpha1.BootModeBIOS)
	}},
	{"architecture", false, func(d *draft, cell string) error {
		return oneOf(&d.host.Spec.Architecture, cell, v1alpha1.ArchitectureAMD64, v1alpha1.ArchitectureARM64)
	}},
	{"bootAddresses", false, (*draft).setBootAddresses},
	{"failureDomain", false, func(d *draft, cell string) error {
		d.host.Spec.FailureDomain = cell
		return nil
	}},
	{"labels", false, (*draft).setLabels},
	{"taints", false, (*draft).setTaints},
	{"power", false, func(d *draft, cell string) error {
		return oneOf(&d.host.Spec.Power, cell, v1alpha1.PowerOff, v1alpha1.PowerOn)
	}},
	{"externallyProvisioned", false, func(d *draft, cell string) error { return setBool(&d.host.Spec.ExternallyProvisioned, cell) }},
}

func names() []string {
	out := make([]string, len(columns))
	for i, c := range columns {
		out[i] = c.name
	}
	return out
}

// first returns the first complaint as an error. Complaints contain the valid format.
func first(complaints []string) error {
	if len(complaints) == 0 {
		return nil
	}
	return errors.New(complaints[0])
}

// setBool accepts the words of YAML and of spreadsheets.
func setBool(to *bool, cell string) error {
	switch strings.ToLower(cell) {
	case "true":
		*to = true
	case "false":
	default:
		return fmt.Errorf("%q is neither true nor false: write one of them, or leave the cell empty for false", cell)
	}
	return nil
}

func oneOf[T ~string](to *T, cell string, values ...T) error {
	if !slices.Contains(values, T(cell)) {
		return fmt.Errorf("%q is unknown: write one of %q, or leave the cell empty", cell, values)
	}
	*to = T(cell)
	return nil
}

// setBMC accepts the URL of a BMC. No error quotes a URL that may contain a password.
func (d *draft) setBMC(cell string) error {
	if strings.Contains(cell, "@") {
		return errors.New("the URL contains credentials: write them into the columns username and password")
	}
	known := drivers.All(bmc.AllowList{})
	u, err := url.Parse(cell)
	switch {
	case err != nil || u.Scheme == "" || u.Hostname() == "":
		return fmt.Errorf("%q is not the URL of a BMC: write it like redfish://192.0.2.10", cell)
	case known[u.Scheme].Open == nil:
		return fmt.Errorf("the scheme %s:// is unknown: use one of %s", u.Scheme, drivers.Schemes(known))
	}
	d.host.Spec.BMC.Address = cell
	return nil
}

// setMACs accepts the formats of labels and switches: with colons, hyphens or dots, in upper or lower case.
func (d *draft) setMACs(cell string) error {
	if len(list(cell)) == 0 {
		return errors.New("it is empty: every server needs it")
	}
	for _, text := range list(cell) {
		mac, err := net.ParseMAC(text)
		if err != nil || len(mac) != 6 {
			return fmt.Errorf("%q is not a MAC address: write it like 52:54:00:12:34:56, and separate several with semicolons", text)
		}
		d.host.Spec.BootMACAddresses = append(d.host.Spec.BootMACAddresses, mac.String())
	}
	return nil
}

// setPassword accepts a password unchanged. Its error does not contain the password.
func (d *draft) setPassword(cell string) error {
	d.password = cell
	if strings.TrimSpace(cell) != cell {
		return errors.New("the password begins or ends with a space, which is usually a mistake: remove it, or create a Secret and name it in credentialsSecretName")
	}
	return nil
}

// setBootAddresses accepts addresses that are separated by semicolons.
func (d *draft) setBootAddresses(cell string) error {
	for _, text := range list(cell) {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return fmt.Errorf("%q is not an IP address: write it like 192.0.2.10, and separate several with semicolons", text)
		}
		d.host.Spec.BootAddresses = append(d.host.Spec.BootAddresses, address.String())
	}
	return nil
}

// setLabels accepts k=v;k2=v2.
func (d *draft) setLabels(cell string) error {
	d.host.Labels = map[string]string{}
	for _, text := range list(cell) {
		key, value, ok := strings.Cut(text, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return fmt.Errorf("%q is not a label: write key=value, and separate several with semicolons", text)
		}
		if err := first(slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value))); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		if _, twice := d.host.Labels[key]; twice {
			return fmt.Errorf("the label %q exists twice: remove one", key)
		}
		d.host.Labels[key] = value
	}
	return nil
}

// setTaints accepts key=value:Effect;key:Effect, as kubectl taint does. The effect defaults to NoClaim.
func (d *draft) setTaints(cell string) error {
	for _, text := range list(cell) {
		rest, effect, hasEffect := strings.Cut(text, ":")
		key, value, _ := strings.Cut(rest, "=")
		taint := v1alpha1.HostTaint{Key: v1alpha1.LabelKey(strings.TrimSpace(key)), Value: v1alpha1.LabelValue(strings.TrimSpace(value)), Effect: v1alpha1.TaintNoClaim}
		if hasEffect {
			if err := oneOf(&taint.Effect, strings.TrimSpace(effect), v1alpha1.TaintNoClaim, v1alpha1.TaintPreferNoClaim); err != nil {
				return fmt.Errorf("%q: the effect %w", text, err)
			}
		}
		if err := first(slices.Concat(validation.IsQualifiedName(string(taint.Key)), validation.IsValidLabelValue(string(taint.Value)))); err != nil {
			return fmt.Errorf("%q is not a taint: write key=value:NoClaim: %w", text, err)
		}
		if slices.ContainsFunc(d.host.Spec.Taints, func(t v1alpha1.HostTaint) bool { return t.Key == taint.Key }) {
			return fmt.Errorf("the taint %q exists twice: remove one", taint.Key)
		}
		d.host.Spec.Taints = append(d.host.Spec.Taints, taint)
	}
	return nil
}

// list splits a cell at its semicolons.
func list(cell string) []string {
	var out []string
	for part := range strings.SplitSeq(cell, ";") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}
