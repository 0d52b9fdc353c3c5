package controllers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// ProfilesOf returns the BareMetalProfiles that select a host, by name. hardware is what is known of its server; nil if nothing is. The profiles are those of the cache, and
// must not be changed.
func ProfilesOf(ctx context.Context, c client.Reader, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) ([]*v1alpha1.BareMetalProfile, error) {
	var all v1alpha1.BareMetalProfileList
	if err := c.List(ctx, &all, client.InNamespace(host.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the BareMetalProfiles of the namespace: %w", err)
	}
	var found []*v1alpha1.BareMetalProfile
	for i := range all.Items {
		if profile := &all.Items[i]; profile.DeletionTimestamp.IsZero() && SelectsHost(&profile.Spec.Hosts, host, hardware) {
			found = append(found, profile)
		}
	}
	slices.SortFunc(found, func(a, b *v1alpha1.BareMetalProfile) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// SettingsProfileOf returns what identifies a profile in the record of a run.
func SettingsProfileOf(p *v1alpha1.BareMetalProfile) v1alpha1.SettingsProfile {
	return v1alpha1.SettingsProfile{Name: p.Name, UID: string(p.UID), Generation: p.Generation, Hash: wishHash(&p.Spec)}
}

// wishHash returns a hash of what a profile wishes of a server. 8 and "8" are the same, and the order does not matter.
func wishHash(spec *v1alpha1.BareMetalProfileSpec) string {
	lines := []string{fmt.Sprintf("secureBoot %q", spec.SecureBoot)}
	for _, s := range spec.BIOSSettings {
		if s.Value != nil { // the API server refuses a setting without one
			lines = append(lines, fmt.Sprintf("biosSettings %q=%q", s.Name, s.Value.String()))
		}
	}
	for _, p := range spec.Allow {
		lines = append(lines, fmt.Sprintf("allow %q", p))
	}
	slices.Sort(lines)
	hash := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(hash[:])
}

// SelectsHost is true if a profile selects a host. A manufacturer or a model that is unknown matches no name in the profile.
func SelectsHost(hosts *v1alpha1.ProfileHosts, host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware) bool {
	if hosts.Selector != nil {
		selector, err := claim.SelectorOf(hosts.Selector)
		if err != nil || !selector.Matches(labels.Set(host.Labels)) { // the API server refuses a selector that is not valid
			return false
		}
	}
	var manufacturer, model string
	if hardware != nil {
		manufacturer, model = hardware.Manufacturer, hardware.Model
	}
	return (len(hosts.Manufacturers) == 0 || slices.Contains(hosts.Manufacturers, manufacturer)) && (len(hosts.Models) == 0 || slices.Contains(hosts.Models, model))
}
