package hardware

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// features are the features that are recorded, with the kernel's names: virtualisation, vector and encryption instructions, and confidential computing.
var features = []string{
	// amd64
	"vmx", "svm", "sse4_2", "avx", "avx2", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "aes", "vaes",
	"pclmulqdq", "sha_ni", "rdrand", "rdseed", "pdpe1gb", "sgx", "sev", "sev_es", "sev_snp", "tdx_host_platform",
	// arm64
	"asimd", "sve", "sve2", "sme", "bf16", "i8mm", "atomics", "pmull", "sha2", "sha3", "rng",
}

// parseCPUInfo returns the model and the features of the first processor in /proc/cpuinfo. arm64 has no model there.
func parseCPUInfo(content []byte) (model string, found []string) {
	for line := range bytes.Lines(content) {
		key, text, ok := strings.Cut(string(line), ":")
		if !ok {
			if len(bytes.TrimSpace(line)) == 0 && found != nil {
				break // the processors are separated by empty lines, and do not differ here
			}
			continue
		}
		switch strings.TrimSpace(key) {
		case "model name":
			if model == "" {
				model = printable.Line(text, maxText)
			}
		case "flags", "Features":
			if found == nil {
				flags := strings.Fields(text)
				found = slices.DeleteFunc(slices.Clone(features), func(f string) bool { return !slices.Contains(flags, f) })
			}
		}
	}
	slices.Sort(found)
	return model, found
}

// parseMemTotal returns the memory that the kernel uses, from /proc/meminfo, in bytes, or 0.
func parseMemTotal(content []byte) int64 {
	for line := range bytes.Lines(content) {
		fields := strings.Fields(string(line))
		if len(fields) == 3 && fields[0] == "MemTotal:" && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil || n < 0 || n > math.MaxInt64>>10 {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

// cpu reads the topology from /sys/devices/system (Linux, Documentation/admin-guide/cputopology.rst).
func (c *collector) cpu(t Tables) wire.InspectedCPU {
	cpu := wire.InspectedCPU{Architecture: c.Architecture}
	content, err := c.read(maxProcFile, "proc/cpuinfo")
	if err != nil {
		c.problemf("processors: %v", err)
	}
	cpu.Model, cpu.Features = parseCPUInfo(content)
	if cpu.Model == "" {
		cpu.Model = t.Processor
	}
	packages, cores := map[int]bool{}, map[string]bool{}
	const folder = "sys/devices/system/cpu"
	for _, name := range c.entries(numbered("cpu"), folder) {
		siblings := c.attribute(folder, name, "topology/core_cpus_list")
		if siblings == "" {
			siblings = c.attribute(folder, name, "topology/thread_siblings_list") // kernels before 5.3
		}
		if siblings == "" {
			continue // a processor that is offline has no topology
		}
		cpu.Threads++
		cores[siblings] = true
		// arm64 without a table PPTT has the package -1, or one package for each cluster.
		if id, ok := c.number(folder, name, "topology/physical_package_id"); ok && id >= 0 {
			packages[id] = true
		}
	}
	cpu.Cores, cpu.Sockets = limited(len(cores)), limited(len(packages))
	if t.Sockets > 0 && (cpu.Sockets == 0 || c.Architecture == "arm64") {
		cpu.Sockets = t.Sockets
	}
	cpu.NUMANodes = limited(len(c.entries(numbered("node"), "sys/devices/system/node")))
	if cpu.Threads == 0 {
		c.problemf("processors: %s has no topology", folder)
	}
	return cpu
}
