//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/bootclient"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/efi"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/lldp"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/runner"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/session"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/system"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// runAsProgram is the agent in a machine that runs another system. It returns the exit code: 0 after a plan that succeeded.
func runAsProgram(args []string) int {
	if err := program(args); err != nil && !errors.Is(err, pflag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "agent:", err)
		return 1
	}
	return 0
}

func program(args []string) error {
	var p system.Parameters
	var tokenFile, firmware string
	var of agent.Server
	var diskFiles []string
	set := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	set.StringVar(&p.Server, "server", "", "URL of the boot server.")
	set.StringVar(&p.Host, "host", "", "The host, as NAMESPACE/NAME.")
	set.StringVar(&tokenFile, "token-file", "", "File with the token of the boot.")
	set.StringSliceVar(&p.Pins, "pins", nil, "Digests of the public keys that the certificate of the boot server may have.")
	set.StringArrayVar(&diskFiles, "disk", nil, "File to use as a disk of the server. May be repeated.")
	set.StringVar(&of.SystemUUID, "system-uuid", "", "System UUID of the server. The default is that it is unknown.")
	set.StringVar(&of.SerialNumber, "serial-number", "", "Serial number of the server. The default is that it is unknown.")
	set.StringVar(&firmware, "firmware", string(system.Firmware()), "How the server was booted: UEFI or BIOS. The default is how this machine was booted.")
	if err := set.Parse(args); err != nil {
		return err
	}
	if p.Server == "" || p.Host == "" || tokenFile == "" || len(diskFiles) == 0 {
		return errors.New("--server, --host, --token-file and --disk are required: outside of its ramdisk the agent does not touch the disks of a machine")
	}
	token, err := os.ReadFile(tokenFile) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	p.Token = strings.TrimSpace(string(token))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	tail := &system.Log{To: os.Stderr, Max: agent.MaxLog}
	log := newLog(tail)
	boots, err := newSession(p, wire.FirmwareMode(firmware), nil, runner.FileDisks(diskFiles), log, tail)
	if err != nil {
		return err
	}
	boots.Hello.Server = of
	next, err := boots.Run(ctx)
	if err != nil {
		return err
	}
	fmt.Println(next)
	return nil
}

// newSession wires the boot of a server that was booted by firmware. A nil dial is the default of bootclient.Config.
func newSession(
	p system.Parameters, firmware wire.FirmwareMode, dial func(context.Context, string, string) (net.Conn, error), disks runner.Disks, log *slog.Logger,
	tail *system.Log,
) (*session.Session, error) {
	client, err := bootclient.New(bootclient.Config{URL: p.Server, Host: p.Host, Token: p.Token, Pins: p.Pins, Dial: dial})
	if err != nil {
		return nil, err
	}
	provisioner := &runner.Provisioner{
		Disks: disks, Source: func(plan agent.ProvisionPlan) image.Source { return client.Source(plan) },
		Firmware: firmware, Architecture: runtime.GOARCH, Log: log,
	}
	inspector := &runner.Inspector{
		Disks: disks, Hardware: hardware.Source{Root: "/", Architecture: runtime.GOARCH}, Release: version.String(), Send: client.Inventory, Log: log,
	}
	cleaner := &runner.Cleaner{Disks: disks, Log: log}
	hello := agent.Hello{
		Release: version.String(), Firmware: firmware, Architecture: runtime.GOARCH, Kernel: system.KernelRelease(),
	}
	if os.Getpid() == 1 {
		cleaner.Port = func(d disk.Disk) drive.Port { return drive.KernelPort(d.Name) }
		provisioner.Variables = efi.Variables{Folder: system.EFIVariables}
		inspector.Network = lldp.Kernel{}
		inspector.Hardware.Links, inspector.Hardware.Port = hardware.Drivers{}, func(name string) drive.Port { return drive.KernelPort(name) }
		hello.SecureBoot, hello.Server = inspector.Hardware.SecureBoot(), inspector.Hardware.Server()
		inspector.Hardware.BMC = &hardware.SystemInterface{Device: "/dev/ipmi0"}
	}
	return &session.Session{
		Server: client, Hello: hello,
		Runners: map[agent.Purpose]session.Runner{
			agent.Inspect: inspector, agent.Provision: provisioner, agent.Clean: cleaner, agent.Configure: runner.Configurer{SecureBoot: hello.SecureBoot},
		},
		Log: log, Tail: tail.Tail,
	}, nil
}
