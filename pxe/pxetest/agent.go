package pxetest

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
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

// WriteAgent writes kernels and ramdisks of the agent to a folder of a boot server, the kernel for arm64 in a gzip file. They are emulated, as the loaders are: a server
// that boots them says so by System.Agent. It returns the SHA-256 checksums of a kernel and its ramdisk.
func WriteAgent(dir string) (files []string, err error) {
	kernel, ramdisk := []byte("an emulated kernel of the agent"), []byte("an emulated ramdisk of the agent")
	zipped, err := gzipped(kernel)
	if err != nil {
		return nil, err
	}
	for name, content := range map[string][]byte{"amd64/kernel": kernel, "amd64/ramdisk": ramdisk, "arm64/kernel.gz": zipped,
		"arm64/kernel.squashfs": kernel, "arm64/ramdisk": ramdisk} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600))
	}
	return []string{checksum(kernel), checksum(ramdisk)}, err
}

func gzipped(content []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// unzipped returns the content of a gzip file, and other content as it is, like the loader of kernels in iPXE.
func unzipped(content []byte) ([]byte, error) {
	if !bytes.HasPrefix(content, []byte{0x1f, 0x8b}) {
		return content, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
