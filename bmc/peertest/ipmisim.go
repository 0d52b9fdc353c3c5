package peertest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// IPMISimUUID is the UUID that IPMISim's BMC sends in the byte order of IPMI, with the last byte first.
const IPMISimUUID = "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"

// lanConf is ipmi_sim's network side (ipmi_lan(5)). Its placeholders are the port, the reversed UUID, the script and the credentials.
const lanConf = `name "peer"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 %d
  priv_limit admin
  allowed_auths_callback none md2 md5 straight
  allowed_auths_user none md2 md5 straight
  allowed_auths_operator none md2 md5 straight
  allowed_auths_admin none md2 md5 straight
  guid %s
endlan
chassis_control "%s 0x20"
user 2 true "%s" "%s" admin 10 none md2 md5 straight
`

// chassisScript keeps the power state and the boot device in files. With a control program, the power is that of a server: the script runs
// the program with "on" and the boot device, with "off", or with "status", which prints 1 or 0. Its placeholders are the folder of the
// files and the program.
const chassisScript = `#!/bin/sh
cd '%s' || exit 1
control='%s'
switch() {
	echo "$1" >power
	[ -z "$control" ] || if [ "$1" = 1 ]; then "$control" on "$(cat boot)"; else "$control" off; fi
}
shift
op=$1
shift
case $op in
get)
	for what; do
		case $what in
		power) if [ -z "$control" ]; then echo "power:$(cat power)"; else echo "power:$("$control" status)"; fi ;;
		boot) echo "boot:$(cat boot)" ;;
		esac
	done
	;;
set)
	while [ $# -gt 1 ]; do
		case $1 in
		power) switch "$2" ;;
		shutdown) switch 0 ;;
		boot) echo "$2" >boot ;;
		esac
		shift 2
	done
	;;
esac
`

// Sim is a running ipmi_sim.
type Sim struct {
	// Subject is its address and credentials.
	Subject bmctest.Subject
	dir     string
}

// IPMISim is StartIPMISim for tests that only need the Subject.
func IPMISim(tb testing.TB) bmctest.Subject {
	tb.Helper()
	return StartIPMISim(tb, "").Subject
}

// StartIPMISim starts OpenIPMI's BMC emulator, ipmi_sim, as a process on a loopback port, with a sensor, a FRU and an event log. It controls
// the server of the control program or, if control is empty, no server. The process ends with the test.
func StartIPMISim(tb testing.TB, control string) Sim {
	tb.Helper()
	dir := tb.TempDir()
	port := freeUDP(tb)
	file := func(name string) string { return filepath.Join(dir, name) }
	write(tb, file("power"), "0")
	write(tb, file("boot"), "default")
	if err := os.WriteFile(file("chassis"), fmt.Appendf(nil, chassisScript, dir, control), 0o700); err != nil { //nolint:gosec // it is run
		tb.Fatal(err)
	}
	write(tb, file("lan.conf"), fmt.Sprintf(lanConf, port, reversed(IPMISimUUID), file("chassis"), Username, Password))
	write(tb, file("sim.emu"), emulation(tb))
	if err := os.Mkdir(file("state"), 0o700); err != nil {
		tb.Fatal(err)
	}
	p := start(tb, program{path: installed(tb, "/usr/bin/ipmi_sim"), home: dir, args: []string{
		"-n", "-c", file("lan.conf"), "-f", file("sim.emu"), "-s", file("state"),
	}})
	await(tb, p, answersIPMI(port))
	return Sim{dir: dir, Subject: bmctest.Subject{Endpoint: bmc.Endpoint{
		URL: &url.URL{Scheme: "ipmi", Host: fmt.Sprintf("127.0.0.1:%d", port)}, Username: Username, Password: Password,
	}}}
}

// BootDevice returns the boot device that the BMC last set, by its name in ipmi_sim: pxe, cdrom, default for the disk, none for no
// override. It is the device in effect, even if the BMC reports other flags.
func (s Sim) BootDevice(tb testing.TB) string {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(s.dir, "boot"))
	if err != nil {
		tb.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// emulation describes the BMC (ipmi_sim_cmd(5)).
func emulation(tb testing.TB) string {
	tb.Helper()
	const fruSize = 256
	fru, err := types.PackFRUInventory(&types.FRU{ProductInfoArea: &types.FRUProductInfoArea{
		Manufacturer: []byte("OpenIPMI"), Name: []byte("ipmi_sim"), SerialNumber: []byte("SIM-1"),
	}})
	if err != nil {
		tb.Fatal(err)
	}
	const name = "Inlet"
	sensor := types.SDRFull{
		GeneratorID: types.GeneratorBMC, SensorNumber: 1, SensorType: types.SensorTypeTemperature,
		SensorEventReadingType: types.EventReadingTypeThreshold, SensorUnit: types.SensorUnit{BaseUnit: types.SensorUnitType_DegreesC},
		ReadingFactors:     types.ReadingFactors{M: 1},
		IDStringTypeLength: types.TypeLength(0xc0 | len(name)), IDStringBytes: []byte(name),
	}
	return "mc_setbmc 0x20\n" +
		"mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\n" +
		"sel_enable 0x20 100 0x0a\n" +
		"sel_add 0x20 0x02 0 0 0 0x60 0x20 0 4 0x12 1 0x6f 1 0 0\n" +
		"sel_add 0x20 0x02 1 0 0 0x60 0x20 0 4 0x12 1 0x6f 1 0 0\n" +
		fmt.Sprintf("mc_add_fru_data 0x20 0 %d data%s\n", fruSize, hexBytes(append(fru, make([]byte, fruSize-len(fru))...))) +
		fmt.Sprintf("main_sdr_add 0x20%s\n", hexBytes(sensor.Pack(1))) +
		"sensor_add 0x20 0 1 1 1\n" +
		"sensor_set_value 0x20 0 1 21 0\n" +
		"sensor_set_event_support 0x20 0 1 enable scanning none 000000000000000 000000000000000 000000000000000 000000000000000\n" +
		"mc_enable 0x20\n"
}

func hexBytes(data []byte) string {
	var text strings.Builder
	for _, b := range data {
		_, _ = fmt.Fprintf(&text, " 0x%02x", b) // it never fails
	}
	return text.String()
}

// reversed returns a UUID's bytes from the last to the first.
func reversed(uuid string) string {
	var text string
	for i := 0; i < len(uuid); {
		if uuid[i] == '-' {
			i++
			continue
		}
		text = uuid[i:i+2] + text
		i += 2
	}
	return text
}
