package peertest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// StartVirtualBMC starts virtualbmc's daemon for a machine of libvirt, and returns its IPMI endpoint.
func StartVirtualBMC(tb testing.TB, l *Libvirt, m Machine) bmc.Endpoint {
	tb.Helper()
	home := tb.TempDir()
	port := freeUDP(tb)
	// The file that `vbmc add` writes and `vbmc start` activates.
	if err := os.Mkdir(filepath.Join(home, m.Name), 0o700); err != nil {
		tb.Fatal(err)
	}
	write(tb, filepath.Join(home, m.Name, "config"), fmt.Sprintf(`[VirtualBMC]
username = %s
password = %s
address = 127.0.0.1
port = %d
domain_name = %s
libvirt_uri = %s
active = True
`, Username, Password, port, m.Name, l.URI))
	write(tb, filepath.Join(home, "virtualbmc.conf"), fmt.Sprintf(`[default]
config_dir = %[1]s
pid_file = %[1]s/vbmcd.pid
server_port = %[2]d
[log]
debug = true
`, home, freeTCP(tb)))
	p := start(tb, program{
		path: inVenv(tb, "python"), args: []string{inVenv(tb, "vbmcd"), "--foreground"}, home: home,
		env: []string{"PYTHONUNBUFFERED=1", "VIRTUALBMC_CONFIG=" + filepath.Join(home, "virtualbmc.conf")},
	})
	await(tb, p, answersIPMI(port))
	return bmc.Endpoint{URL: &url.URL{Scheme: "ipmi", Host: fmt.Sprintf("127.0.0.1:%d", port)}, Username: Username, Password: Password}
}
