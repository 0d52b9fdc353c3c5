package render

import "strings"

// Sentinel is the file that reports the success of the bootstrap (Cluster API's contract, "Sentinel file").
const Sentinel = "/run/cluster-api/bootstrap-success.complete"

// script returns the shell script that runs the commands and then writes the sentinel file. facts is shell code that sets the variables CAPBM_*.
func script(facts string, commands []string) string {
	return "#!/bin/sh\n# Runs the commands of a BareMetalConfig, and then reports success as Cluster API's contract requires.\nset -eu\n" + facts +
		"\n" + strings.Join(commands, "\n") + "\n\nmkdir -p /run/cluster-api\necho success >" + Sentinel + "\n"
}
