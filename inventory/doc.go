// Package inventory is what a host is and who has it. Its packages do no network I/O: lifecycle decides what to do with a
// host, claim gives hosts to machines.
package inventory

import "strings"

// providerIDPrefix is the scheme of every provider ID that this provider gives.
const providerIDPrefix = "baremetal://"

// ProviderID returns the provider ID of a machine on a host: baremetal://<namespace>/<host>/<machine>. It names the machine
// so that a Node left over from the host's former life never matches.
func ProviderID(namespace, host, machine string) string {
	return providerIDPrefix + namespace + "/" + host + "/" + machine
}

// MachineOf returns the namespace and the name of the machine that a provider ID of this provider names, or two empty strings.
func MachineOf(providerID string) (namespace, machine string) {
	namespace, _, machine = parse(providerID)
	return namespace, machine
}

// HostOf returns the namespace and the name of the host that a provider ID of this provider names, or two empty strings.
func HostOf(providerID string) (namespace, host string) {
	namespace, host, _ = parse(providerID)
	return namespace, host
}

func parse(providerID string) (namespace, host, machine string) {
	rest, ours := strings.CutPrefix(providerID, providerIDPrefix)
	parts := strings.Split(rest, "/")
	if !ours || len(parts) != 3 {
		return "", "", ""
	}
	return parts[0], parts[1], parts[2]
}
