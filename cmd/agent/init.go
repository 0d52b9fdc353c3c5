//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/link"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/modules"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/runner"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/system"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// readable is how long the last messages stay on the console before the server is powered off after an error.
const readable = time.Minute

// memoryLimit is where the garbage collector works harder: the smallest server has 512 MiB, of which the kernel and the ramdisk have a third.
const memoryLimit = 160 << 20

// runAsInit is the first program. It never returns: the kernel panics when the first program ends.
func runAsInit() {
	mounted := system.Mount()
	debug.SetMemoryLimit(memoryLimit)
	tail := &system.Log{To: system.Consoles(), Max: agent.MaxLog}
	log := newLog(tail)
	if mounted != nil {
		log.Error("Failed to mount the kernel's file systems", "error", mounted)
	}
	end := system.PowerOff
	next, err := boot(log, tail)
	switch {
	case err != nil:
		log.Error("The agent ends, and powers the server off after a minute", "error", err)
		time.Sleep(readable) // a person at the console can read the error; nothing else runs now
	case next == agent.Reboot:
		end = system.Restart
	case next == agent.Wait:
		log.Info("Waiting for the provider to power the server off")
		system.WaitForever()
	}
	log.Info("The agent ends", "reboot", end == system.Restart)
	log.Error("Failed to power the server off or to restart it", "error", system.Finish(end))
	system.WaitForever()
}

// boot brings the server up and carries the plan out. A panic is an error.
func boot(log *slog.Logger, tail *system.Log) (next agent.Next, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the agent panicked, which is a bug: %v\n%s", p, debug.Stack())
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	log.Info("The agent starts", "kernel", system.KernelRelease(), "firmware", string(system.Firmware()))
	commandLine, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", err
	}
	p, err := system.ParseParameters(string(commandLine))
	if err != nil {
		return "", err
	}
	if seeded, err := system.SeedRandom(p.Token); seeded {
		log.Info("The kernel had no random numbers: seeded them with the token of the boot", "error", err)
	}
	manager := &link.Manager{Network: p.Network, StaticFirst: p.StaticFirst, Log: log, Kernel: &link.System{Log: log}}
	guard(log, "the network", func() error { return manager.Run(ctx) })
	loadModules(ctx, log)
	disks := &runner.KernelDisks{}
	guard(log, "the watch of disks", func() error { return disks.Watch(ctx) })
	boots, err := newSession(p, system.Firmware(), manager.DialContext, disks, log, tail)
	if err != nil {
		return "", err
	}
	return boots.Run(ctx)
}

// guard runs a part of the agent in the background. Its end, or its panic, is logged: what needs it times out.
func guard(log *slog.Logger, what string, run func() error) {
	go func() {
		defer func() {
			if p := recover(); p != nil {
				log.Error("A part of the agent panicked: this is a bug", "part", what, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		if err := run(); err != nil && !errors.Is(err, context.Canceled) {
			log.Error("A part of the agent ended", "part", what, "error", err)
		}
	}()
}

// loadModules loads the modules of all devices, now and when they appear. A server whose modules fail may have others: it is logged.
func loadModules(ctx context.Context, log *slog.Logger) {
	started := time.Now()
	loader, err := modules.Open()
	if err != nil {
		log.Error("Failed to open the kernel's modules: the ramdisk is not of this kernel", "error", err)
		return
	}
	load := func(name string) {
		if _, err := loader.Load(name); err != nil {
			log.Error("Failed to load kernel modules", "device", name, "error", err)
		}
	}
	all := func() {
		loaded, err := loader.ForDevices("/sys")
		if err != nil {
			log.Error("Failed to load kernel modules", "error", err)
		}
		log.Info("Loaded the kernel modules of the devices", "count", len(loaded), "seconds", time.Since(started).Seconds())
	}
	// Before the devices are read: none appears unnoticed in between.
	if events, err := modules.Listen(); err != nil {
		log.Error("Devices that appear late are not noticed", "error", err)
	} else {
		guard(log, "the events of devices", func() error { return events.Each(ctx, load, all) })
	}
	all()
	for _, name := range []string{"efivarfs", "sd_mod", "ipmi_devintf"} { // no device names them
		load(name)
	}
	if err := system.MountEFI(); err != nil {
		log.Error("The variables of UEFI are not available", "error", err)
	}
}

// newLog returns a logger that writes one line for each message, with the seconds since the start: the server's clock may be wrong.
func newLog(to io.Writer) *slog.Logger {
	started := time.Now()
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.String("t", fmt.Sprintf("%.2f", time.Since(started).Seconds()))
		}
		return a
	}}))
}
