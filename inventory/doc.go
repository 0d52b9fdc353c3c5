// Package inventory identifies hosts and the machines that have them. Its packages lifecycle and claim do no network I/O: lifecycle decides what to do
// with a host, and claim assigns hosts to machines.
package inventory

import "strings"

// providerIDPrefix is the scheme of this provider's provider IDs.
const providerIDPrefix = "baremetal://"

// ProviderID returns the provider ID of a machine on a host: baremetal://<namespace>/<host>/<machine>. It includes the machine's name so that a Node
// left over from the host's previous machine never matches.
func ProviderID(namespace, host, machine string) string {
	return providerIDPrefix + namespace + "/" + host + "/" + machine
}

// MachineOf returns the namespace and the name of the machine in a provider ID. It returns two empty strings for the ID of another provider.
func MachineOf(providerID string) (namespace, machine string) {
	namespace, _, machine = parse(providerID)
	return namespace, machine
}

// HostOf returns the namespace and the name of the host in a provider ID. It returns two empty strings for the ID of another provider.
func HostOf(providerID string) (namespace, host string) {
	namespace, host, _ = parse(providerID)
	return namespace, host
}

func parse(providerID string) (namespace, host, machine string) {
	rest, hasPrefix := strings.CutPrefix(providerID, providerIDPrefix)
	parts := strings.Split(rest, "/")
	if !hasPrefix || len(parts) != 3 {
		return "", "", ""
	}
	return parts[0], parts[1], parts[2]
}
