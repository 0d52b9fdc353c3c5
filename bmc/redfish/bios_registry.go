package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// registryVersion matches the version at the end of the name of a registry: .v1_0_3 (Dell), .1.0.0 (Lenovo), _v1_0_0 (Cray), 113.1.1.3 (AMI).
var registryVersion = regexp.MustCompile(`[._]?v?\d+([._]\d+)*$`)

// registryOf returns the path of the registry file with the name, from those in the collection. Names differ from the files: Dell says v1_0_3 and has the file v1_0_0,
// and Cisco has a prefix. It is empty if several may be meant.
func registryOf(name string, paths []string) string {
	id := func(path string) string { return path[strings.LastIndex(path, "/")+1:] }
	base := func(name string) string { return registryVersion.ReplaceAllString(name, "") }
	for _, matches := range []func(path string) bool{
		func(path string) bool { return strings.EqualFold(id(path), name) },
		func(path string) bool { return name != "" && strings.EqualFold(base(id(path)), base(name)) },
		func(path string) bool { return strings.Contains(strings.ToLower(id(path)), "biosattributeregistry") },
	} {
		found := slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return !matches(path) })
		if len(found) == 1 {
			return found[0]
		}
	}
	return ""
}

// registryURI returns the path of the registry in its file (DSP0268, MessageRegistryFile): the English one of several languages. All languages have the same names
// and values.
func registryURI(file resource) string {
	locations := slices.DeleteFunc(file.list("Location"), func(l resource) bool { return l.link("Uri") == "" })
	if len(locations) == 0 {
		return ""
	}
	rank := func(l resource) int {
		switch language := strings.ToLower(l.text("Language")); {
		case language == "en":
			return 0
		case strings.HasPrefix(language, "en-"), strings.HasPrefix(language, "en_"):
			return 1
		default:
			return 2
		}
	}
	slices.SortStableFunc(locations, func(a, b resource) int { return cmp.Compare(rank(a), rank(b)) })
	return locations[0].link("Uri")
}

// noRegistryError says why a BMC has no attribute registry.
type noRegistryError string

func (e noRegistryError) Error() string { return string(e) }

// hasNoRegistry is true for an error that means that the BMC does not have the registry. After any other one it may have it.
func hasNoRegistry(err error) bool {
	return errors.As(err, new(noRegistryError)) || bmc.KindOf(err) == bmc.NotFound
}

// unreadRegistry returns the error for a registry that cannot be read. The BMC has BIOS attributes, so the error is not that it does not offer them.
func unreadRegistry(op string, err error) error {
	if err = wrap(op, err); bmc.KindOf(err) == bmc.Unsupported {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: err}
	}
	return err
}

// registry reads the attribute registry with the name, and returns its path. The error says why there is no registry, or why it cannot be read.
func (b *bios) registry(ctx context.Context, name string) (resource, string, error) {
	collection := b.service.root.registries
	paths, _, err := b.service.collection(ctx, collection)
	path := registryOf(name, paths)
	switch {
	case path == "" && err != nil && name != "":
		return nil, "", fmt.Errorf("find the registry %s: %w", name, wrap("read the registries", err))
	case path == "" && name != "":
		return nil, "", noRegistryError("the BMC does not list the registry " + name)
	case path == "":
		return nil, "", noRegistryError("the BMC names no attribute registry")
	}
	file, err := b.service.fetch(ctx, path)
	if err != nil {
		return nil, "", wrap("read the registry file", err)
	}
	if isRegistry(file) {
		return file, path, nil
	}
	uri := registryURI(file)
	if uri == "" {
		return nil, "", fmt.Errorf("the registry file %s has no location", path)
	}
	registry, err := b.service.fetch(ctx, uri)
	switch {
	case err != nil:
		return nil, "", wrap("read the attribute registry", err)
	case !isRegistry(registry):
		return nil, "", fmt.Errorf("%s has no attributes", uri)
	default:
		return registry, uri, nil
	}
}

// isRegistry is true for an attribute registry with attributes.
func isRegistry(r resource) bool { return len(r.list("RegistryEntries", "Attributes")) > 0 }
