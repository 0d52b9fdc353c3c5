package chain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// The kinds of owners of Machines that a user may ask about.
const (
	kindMachineDeployment   = "MachineDeployment"
	kindMachineSet          = "MachineSet"
	kindKubeadmControlPlane = "KubeadmControlPlane"
)

// kinds are the kinds that a user may ask about, by their short names. The full name in lower case and its plural work too.
var kinds = map[string]string{
	"host": why.KindHost, "hosts": why.KindHost, "bmho": why.KindHost, "boot": why.KindBoot, "boots": why.KindBoot, "bmbo": why.KindBoot,
	"ma": why.KindMachine, "bmm": why.KindBareMetalMachine, "cl": why.KindCluster, "bmcl": why.KindBareMetalCluster, "bmcfg": why.KindConfig, "config": why.KindConfig,
	"bmr": why.KindRemediation, "remediation": why.KindRemediation, "bmer": why.KindErasureRequest, "bmmt": why.KindMachineTemplate, "bmpr": why.KindProfile, "profile": why.KindProfile,
	"bmst": why.KindSettings, "md": kindMachineDeployment,
	"ms": kindMachineSet, "kcp": kindKubeadmControlPlane,
}

// fullNames are the kinds that a user may ask about.
var fullNames = []string{
	why.KindHost, why.KindBoot, why.KindMachine, why.KindBareMetalMachine, why.KindCluster, why.KindBareMetalCluster, why.KindConfig, why.KindRemediation,
	why.KindErasureRequest, why.KindMachineTemplate, why.KindProfile, why.KindSettings, kindMachineDeployment, kindMachineSet, kindKubeadmControlPlane,
}

// Subject is the object that a user asks about.
type Subject struct {
	// Kind is its kind. It is empty if the user did not say it: then it is the first of a host, a Machine, a Cluster, a MachineDeployment and a control plane that exists.
	Kind string
	// Name is its name, in the namespace of the command.
	Name string
}

// ParseSubject reads the arguments of a command: NAME, KIND/NAME, or KIND NAME. The error says how to write it.
func ParseSubject(args []string) (Subject, error) {
	var kind, name string
	switch len(args) {
	case 1:
		before, after, hasKind := strings.Cut(args[0], "/")
		if hasKind {
			kind, name = before, after
		} else {
			name = args[0]
		}
	case 2:
		kind, name = args[0], args[1]
	default:
		return Subject{}, fmt.Errorf("it takes one object, but got %d arguments: write NAME or KIND/NAME, such as host/server-1", len(args))
	}
	if name == "" || strings.Contains(name, "/") {
		return Subject{}, fmt.Errorf("%q names no object: write NAME or KIND/NAME, such as host/server-1", strings.Join(args, " "))
	}
	if kind == "" && len(args) == 1 && !strings.Contains(args[0], "/") {
		return Subject{Name: name}, nil
	}
	full, ok := kindOf(kind)
	if !ok {
		return Subject{}, fmt.Errorf("the kind %q has no explanations: use one of %s", kind, strings.Join(Kinds(), ", "))
	}
	return Subject{Kind: full, Name: name}, nil
}

// kindOf returns the kind of a short name, a full name or a plural, with or without the API group after a dot.
func kindOf(word string) (string, bool) {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	if kind := kinds[word]; kind != "" {
		return kind, true
	}
	for _, kind := range fullNames {
		if lower := strings.ToLower(kind); word == lower || word == lower+"s" {
			return kind, true
		}
	}
	return "", false
}

// Kinds lists what a user may write as a kind, for messages and completion: the full names in lower case, and host and boot.
func Kinds() []string {
	names := map[string]bool{"host": true, "boot": true}
	for _, kind := range fullNames {
		names[strings.ToLower(kind)] = true
	}
	return slices.Sorted(maps.Keys(names))
}
