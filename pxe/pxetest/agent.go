package pxetest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// Agent are the parameters on the kernel command line of an agent.
type Agent struct {
	// Server is the URL of the boot server, Host "namespace/name", and Token the token of the boot.
	Server, Host, Token string
	// Pins are the digests of the public keys that the certificate of the boot server may have.
	Pins []string
}

// agentOf returns the parameters on a command line of an agent, and nil for that of another system.
func agentOf(commandLine string) *Agent {
	values := map[string]string{}
	for word := range strings.FieldsSeq(commandLine) {
		name, value, _ := strings.Cut(word, "=")
		values[name] = value
	}
	if values[agent.ParamServer] == "" || values[agent.ParamHost] == "" || values[agent.ParamToken] == "" {
		return nil
	}
	a := &Agent{Server: values[agent.ParamServer], Host: values[agent.ParamHost], Token: values[agent.ParamToken]}
	if pins := values[agent.ParamPins]; pins != "" {
		a.Pins = strings.Split(pins, ",")
	}
	return a
}

// WriteAgent writes kernels and ramdisks of the agent to a folder of a boot server. They are emulated, as the loaders are: a server that boots them says so by
// System.Agent. It returns the SHA-256 checksums of a kernel and its ramdisk.
func WriteAgent(dir string) (files []string, err error) {
	const kernel, ramdisk = "an emulated kernel of the agent", "an emulated ramdisk of the agent"
	for _, architecture := range []string{"amd64", "arm64"} {
		folder := filepath.Join(dir, architecture)
		err = errors.Join(err, os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "kernel"), []byte(kernel), 0o600),
			os.WriteFile(filepath.Join(folder, "ramdisk"), []byte(ramdisk), 0o600))
	}
	return []string{checksum([]byte(kernel)), checksum([]byte(ramdisk))}, err
}
