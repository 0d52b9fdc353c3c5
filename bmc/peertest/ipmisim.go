package peertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// IPMISimUUID is the UUID that IPMISim's BMC sends, as IPMI means it, with the last byte first.
const IPMISimUUID = "7d0f3a52-9c41-4b6e-a1d3-5e2f8c90b714"

// lanConf is ipmi_sim's network side (ipmi_lan(5)). Its placeholders are the port, the reversed UUID and the script.
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
user 2 true "admin" "secret" admin 10 none md2 md5 straight
`

// chassisScript keeps the power state and the boot device in files. Its placeholder is their folder.
const chassisScript = `#!/bin/sh
cd '%s' || exit 1
shift
op=$1
shift
case $op in
get)
	for what; do
		case $what in
		power) echo "power:$(cat power)" ;;
		boot) echo "boot:$(cat boot)" ;;
		esac
	done
	;;
set)
	while [ $# -gt 1 ]; do
		case $1 in
		power) echo "$2" >power ;;
		shutdown) echo 0 >power ;;
		boot) echo "$2" >boot ;;
		esac
		shift 2
	done
	;;
esac
`

// IPMISim starts OpenIPMI's BMC emulator, ipmi_sim, as a process on a loopback port, with a sensor, a FRU and an event log, and returns
// where it is. The process ends with the test.
func IPMISim(tb testing.TB) bmctest.Subject {
	tb.Helper()
	path, err := exec.LookPath("ipmi_sim")
	if err != nil {
		tb.Fatal("ipmi_sim is not installed: apt-get install openipmi")
	}
	dir := tb.TempDir()
	port := freePort(tb)
	script := filepath.Join(dir, "chassis")
	write := func(name, content string, mode os.FileMode) {
		tb.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			tb.Fatal(err)
		}
	}
	write("power", "0", 0o600)
	write("boot", "default", 0o600)
	write("chassis", fmt.Sprintf(chassisScript, dir), 0o700)
	write("lan.conf", fmt.Sprintf(lanConf, port, reversed(IPMISimUUID), script), 0o600)
	write("sim.emu", emulation(tb), 0o600)
	if err := os.Mkdir(filepath.Join(dir, "state"), 0o700); err != nil {
		tb.Fatal(err)
	}
	sim := start(tb, program{path: path, home: dir, args: []string{
		"-n", "-c", filepath.Join(dir, "lan.conf"), "-f", filepath.Join(dir, "sim.emu"), "-s", filepath.Join(dir, "state"),
	}})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	if err := awaitPong(tb.Context(), address, sim.done); err != nil {
		tb.Fatalf("ipmi_sim: %v: %s", err, sim.tail(20))
	}
	return bmctest.Subject{Endpoint: bmc.Endpoint{URL: &url.URL{Scheme: "ipmi", Host: address}, Username: "admin", Password: "secret"}}
}

// emulation is what the BMC is (ipmi_sim_cmd(5)).
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

// reversed writes a UUID's bytes from the last to the first.
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

// freePort finds a UDP port that nobody has.
func freePort(tb testing.TB) int {
	tb.Helper()
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	return socket.LocalAddr().(*net.UDPAddr).Port //nolint:forcetypeassert // it is of a UDP socket
}

// awaitPong sends RMCP presence pings (ASF 2.0, 3.2.4.1) until one is answered.
func awaitPong(ctx context.Context, address string, ended <-chan struct{}) error {
	socket, err := (&net.Dialer{}).DialContext(ctx, "udp", address)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }()
	ping := []byte{0x06, 0x00, 0xff, 0x06, 0x00, 0x00, 0x11, 0xbe, 0x80, 0x00, 0x00, 0x00}
	pong := make([]byte, 64)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	const most = 500
	for range most {
		if _, err := socket.Write(ping); err == nil {
			_ = socket.SetReadDeadline(time.Now().Add(20 * time.Millisecond)) // the next try is soon
			if _, err := socket.Read(pong); err == nil {
				return nil
			}
		}
		select {
		case <-ticker.C: // a refused packet returns at once
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("nobody answers at %s", address)
}
