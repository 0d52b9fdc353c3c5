package render

import (
	"bytes"
	"strings"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

// Sentinel is the file that reports the success of the bootstrap (Cluster API's contract, "Sentinel file").
const Sentinel = "/run/cluster-api/bootstrap-success.complete"

// script returns the shell script that runs the commands and then writes the sentinel file. facts is shell code that sets the variables CAPBM_*.
func script(facts string, commands []string) string {
	return "#!/bin/sh\n# Runs the commands of a BareMetalConfig, and then reports success as Cluster API's contract requires.\nset -eu\n" + facts +
		"\n" + strings.Join(commands, "\n") + "\n\nmkdir -p /run/cluster-api\necho success >" + Sentinel + "\n"
}

// SentinelWarning is the warning about a spec whose user data has to write the sentinel file, and does not name it.
const SentinelWarning = "spec.sentinel is UserData, and the bootstrap data does not contain the path " + Sentinel +
	": probably nothing reports that the bootstrap succeeded. Write the file at the end of the bootstrap, or set spec.sentinel to Commands"

// MentionsSentinel is true for bootstrap data that contains the path of the sentinel file.
func MentionsSentinel(data []byte) bool { return bytes.Contains(data, []byte(Sentinel)) }

// Warnings returns what is likely wrong with a spec. The user data in spec.userDataFrom is not known yet.
func Warnings(spec *bootstrapv1.BareMetalConfigSpec) []string {
	text := strings.Join(append([]string{spec.UserData}, spec.Commands...), "\n")
	if spec.Sentinel != bootstrapv1.SentinelUserData || spec.UserDataFrom != nil || MentionsSentinel([]byte(text)) {
		return nil
	}
	return []string{SentinelWarning}
}
