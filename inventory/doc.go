// Package inventory is what a host is and who has it. Its packages do no network I/O: lifecycle decides what to do with a
// host, claim gives hosts to machines.
package inventory

import "strings"

// providerIDPrefix is the scheme of every provider ID that this provider gives.
const providerIDPrefix = "baremetal://"

// ProviderID returns the provider ID of a machine on a host: baremetal://<namespace>/<host>/<machine>. It names the machine
// so that a Node left over from the host's former life never matches.
func ProviderID(namespace, host, machine string) string {
	return providerIDPrefix + strings.Join([]string{namespace, host, machine}, "/")
}
