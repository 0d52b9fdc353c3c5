package netbench_test

import (
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega"
)

// The configurations of the servers with which ours is compared. They are those of a small site, without anything that would
// only slow them down: no pings before an offer, no name service, no log line a request.

// write writes a file into the folder of the run.
func (b *bench) write(name, content string) string {
	path := filepath.Join(b.dir, name)
	NewWithT(b.t).Expect(os.WriteFile(path, []byte(content), 0o644)).To(Succeed())
	return path
}

// kea gives the boot file by the architecture, as ours does, and keeps its leases in a file, as it does by default.
func (b *bench) kea() *server {
	config := fmt.Sprintf(`{"Dhcp4": {
  "interfaces-config": {"interfaces": ["%s"], "dhcp-socket-type": "udp"},
  "lease-database": {"type": "memfile", "persist": true, "name": "%s", "lfc-interval": 0},
  "valid-lifetime": 3600,
  "multi-threading": {"enable-multi-threading": true, "thread-pool-size": 2, "packet-queue-size": 64},
  "client-classes": [{"name": "bios", "test": "option[93].hex == 0x0000", "next-server": "%s", "boot-file-name": "undionly.kpxe"}],
  "subnet4": [{"id": 1, "subnet": "10.99.0.0/16", "pools": [{"pool": "10.99.16.0 - 10.99.31.255"}],
    "option-data": [{"name": "routers", "data": "10.99.0.254"}, {"name": "domain-name-servers", "data": "10.99.0.253"}]}],
  "loggers": [{"name": "kea-dhcp4", "output_options": [{"output": "stdout"}], "severity": "ERROR"}]
}}`, serverDevice, filepath.Join(b.dir, "kea.leases"), serverAddress)
	return b.serve("kea", tools("usr/sbin/kea-dhcp4"), "-c", b.write("kea.json", config))
}

func (b *bench) dnsmasq() *server {
	return b.serve("dnsmasq", tools("usr/sbin/dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--interface="+serverDevice, "--bind-interfaces", "--no-ping", "--quiet-dhcp", "--dhcp-authoritative",
		"--dhcp-leasefile="+filepath.Join(b.dir, "dnsmasq.leases"), "--dhcp-lease-max=10000",
		"--dhcp-range=10.99.16.0,10.99.31.255,255.255.0.0,1h", "--dhcp-option=3,10.99.0.254", "--dhcp-option=6,10.99.0.253",
		"--dhcp-match=set:bios,option:client-arch,0", "--dhcp-boot=tag:bios,undionly.kpxe,,"+serverAddress)
}

func (b *bench) tftpd(dir string) *server {
	return b.serve("tftpd-hpa", tools("usr/sbin/in.tftpd"), "--foreground", "--secure", "--user", "root", "--address", serverAddress+":69", dir)
}

func (b *bench) nginx() *server {
	config := fmt.Sprintf(`daemon off; user root; pid %[1]s/nginx.pid; error_log stderr error; worker_processes 2;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000; default_type application/octet-stream;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen %[2]s:8481; root %[1]s; }
}`, b.dir, serverAddress)
	return b.serve("nginx", tools("usr/sbin/nginx"), "-p", b.dir, "-c", b.write("nginx.conf", config))
}
