package bmctest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Fake is a BMC without a protocol. It records the calls and fails on demand. The zero value is ready.
type Fake struct {
	// Errors are the errors of calls by name, such as "PowerOn" or "Open".
	Errors map[string]error
	// Block, if not nil, blocks each call until it is closed or the call's context ends.
	Block <-chan struct{}

	mu      sync.Mutex
	calls   []string
	machine *Machine
	opened  int
}

var (
	_ bmc.Client         = &Fake{}
	_ bmc.VirtualMedia   = &Fake{}
	_ bmc.SecureBooter   = &Fake{}
	_ bmc.BIOSConfigurer = &Fake{}
	_ bmc.Monitor        = &Fake{}
	_ bmc.HealthReader   = &Fake{}
	_ bmc.BootRecorder   = &Fake{}
)

// Open returns the fake. It counts as open until Close.
func (f *Fake) Open(ctx context.Context, _ bmc.Endpoint) (bmc.Client, error) {
	if err := f.call(ctx, "Open"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened++
	return f, nil
}

// Opened counts the connections that are open.
func (f *Fake) Opened() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// Calls returns the names of the calls so far.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *Fake) call(ctx context.Context, name string) error {
	if f.Block != nil {
		select {
		case <-f.Block:
		case <-ctx.Done():
			return &bmc.Error{Kind: bmc.Unreachable, Op: name, Err: ctx.Err()}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	return f.Errors[name]
}

// server is the server that the fake controls.
func (f *Fake) server() *Machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.machine == nil {
		f.machine = NewMachine(Options{Name: "fake", UUID: "00000000-0000-0000-0000-000000000001", MAC: "52:54:00:00:00:01"})
	}
	return f.machine
}

// reset commands the server, unless the call fails.
func (f *Fake) reset(ctx context.Context, name, kind string) error {
	if err := f.call(ctx, name); err != nil {
		return err
	}
	f.server().reset(kind) //nolint:contextcheck // the server continues after the call
	return nil
}

// PowerState reads the power state.
func (f *Fake) PowerState(ctx context.Context) (bmc.PowerState, error) {
	if err := f.call(ctx, "PowerState"); err != nil {
		return "", err
	}
	if f.server().On() {
		return bmc.PowerOn, nil
	}
	return bmc.PowerOff, nil
}

// LastBoot returns when the server was last switched on.
func (f *Fake) LastBoot(ctx context.Context) (bmc.LastBoot, error) {
	return f.server().LastBoot(), f.call(ctx, "LastBoot")
}

// PowerOn switches the server on.
func (f *Fake) PowerOn(ctx context.Context) error { return f.reset(ctx, "PowerOn", "On") }

// ShutDown switches the server off.
func (f *Fake) ShutDown(ctx context.Context) error { return f.reset(ctx, "ShutDown", "ForceOff") }

// ForceOff switches the server off.
func (f *Fake) ForceOff(ctx context.Context) error { return f.reset(ctx, "ForceOff", "ForceOff") }

// Cycle switches the server on.
func (f *Fake) Cycle(ctx context.Context) error { return f.reset(ctx, "Cycle", "PowerCycle") }

// Reset restarts the server.
func (f *Fake) Reset(ctx context.Context) error {
	if state, err := f.PowerState(ctx); err == nil && state == bmc.PowerOff {
		return &bmc.Error{Kind: bmc.Failed, Op: "Reset", Err: errors.New("the server is off")}
	}
	return f.reset(ctx, "Reset", "ForceRestart")
}

// NMI does nothing.
func (f *Fake) NMI(ctx context.Context) error { return f.reset(ctx, "NMI", "Nmi") }

// BootOverride reads the override.
func (f *Fake) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	return f.server().Override(), f.call(ctx, "BootOverride")
}

// SetBootOverride sets the override.
func (f *Fake) SetBootOverride(ctx context.Context, override bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	if err := f.call(ctx, "SetBootOverride"); err != nil {
		return bmc.BootResult{}, err
	}
	f.server().override(override)
	return bmc.BootResult{Method: method, ReadBack: &override}, nil
}

// BootMethods returns one method.
func (f *Fake) BootMethods() []bmc.BootMethod { return []bmc.BootMethod{"Plain"} }

// Inspect returns an inventory that contains only the server.
func (f *Fake) Inspect(ctx context.Context) (bmc.Inventory, error) {
	inventory := bmc.Inventory{
		Manufacturer: "Fake", SystemUUID: f.server().opts.UUID, NICs: []bmc.NIC{{Name: "1", MACAddress: f.server().opts.MAC}},
	}
	for name, known := range map[bmc.FactName]bool{bmc.FactNICs: true, bmc.FactSystemUUID: inventory.SystemUUID != ""} {
		if known {
			inventory.SetFact(bmc.Fact{Name: name, State: bmc.FactKnown, Source: "the fake"})
		}
	}
	inventory.SetNotOffered("the fake does not offer it")
	return inventory, f.call(ctx, "Inspect")
}

// Describe returns every capability.
func (f *Fake) Describe(ctx context.Context) (bmc.Description, error) {
	return bmc.Description{Protocol: "none", Vendor: "Fake", Capabilities: []bmc.Capability{
		bmc.CanBIOSSettings, bmc.CanBootCD, bmc.CanBootDisk, bmc.CanBootHTTP, bmc.CanBootPXE, bmc.CanClock, bmc.CanCycle, bmc.CanEventLog, bmc.CanForceOff,
		bmc.CanInventory, bmc.CanNMI, bmc.CanPowerOn, bmc.CanReset, bmc.CanSecureBoot, bmc.CanSensors, bmc.CanShutDown, bmc.CanVirtualMedia,
	}}, f.call(ctx, "Describe")
}

// Media lists one drive.
func (f *Fake) Media(ctx context.Context) ([]bmc.Media, error) {
	image := f.server().Image()
	return []bmc.Media{{Name: "CD", Types: []string{"CD"}, Inserted: image != "", Image: image}}, f.call(ctx, "Media")
}

// InsertMedia inserts an image.
func (f *Fake) InsertMedia(ctx context.Context, image string) error {
	if err := f.call(ctx, "InsertMedia"); err != nil {
		return err
	}
	f.server().insert(f.server().bootDrive(), image)
	return nil
}

// EjectMedia ejects the image.
func (f *Fake) EjectMedia(ctx context.Context) error {
	if err := f.call(ctx, "EjectMedia"); err != nil {
		return err
	}
	f.server().insert(f.server().bootDrive(), "")
	return nil
}

// SecureBoot reads the state of Secure Boot.
func (f *Fake) SecureBoot(ctx context.Context) (bmc.SecureBoot, error) {
	m := f.server()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.secure, f.call(ctx, "SecureBoot")
}

// SetSecureBoot switches Secure Boot.
func (f *Fake) SetSecureBoot(ctx context.Context, enabled bool) error {
	if err := f.call(ctx, "SetSecureBoot"); err != nil {
		return err
	}
	f.server().setSecureBoot(enabled)
	return nil
}

// BIOS returns the attributes of the server, without a registry.
func (f *Fake) BIOS(ctx context.Context) (bmc.BIOS, error) {
	return bmc.BIOS{
		Path: "fake", SettingsPath: "fake", Attributes: f.server().BIOS(), Pending: f.server().PendingBIOS(), RegistryProblem: "the fake has no registry",
	}, f.call(ctx, "BIOS")
}

// PendingBIOS returns the names of the staged attributes.
func (f *Fake) PendingBIOS(ctx context.Context) ([]string, error) {
	return slices.Sorted(maps.Keys(f.server().PendingBIOS())), f.call(ctx, "PendingBIOS")
}

// StageBIOS stages the attributes that are neither set nor staged.
func (f *Fake) StageBIOS(ctx context.Context, change bmc.BIOSChange) (bmc.StagedBIOS, error) {
	if err := f.call(ctx, "StageBIOS"); err != nil {
		return bmc.StagedBIOS{}, err
	}
	current, pending, missing := f.server().BIOS(), f.server().PendingBIOS(), map[string]any{}
	for name, value := range change.Attributes {
		if staged, ok := pending[name]; ok && staged != value || !ok && current[name] != value {
			missing[name] = value
		}
	}
	if len(missing) > 0 {
		f.server().stageBIOS(missing, false)
	}
	return bmc.StagedBIOS{Sent: len(missing) > 0}, nil
}

// ClearStagedBIOS removes what is staged.
func (f *Fake) ClearStagedBIOS(ctx context.Context) error {
	if err := f.call(ctx, "ClearStagedBIOS"); err != nil {
		return err
	}
	m := f.server()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.bios.pending)
	return nil
}

// Sensors returns one.
func (f *Fake) Sensors(ctx context.Context) ([]bmc.Sensor, error) {
	return []bmc.Sensor{{Name: "Inlet", Kind: "Temperature", Value: 21, Unit: "Cel", Health: bmc.HealthOK}}, f.call(ctx, "Sensors")
}

// ReadHealth returns the health of the server's parts.
func (f *Fake) ReadHealth(ctx context.Context, request bmc.HealthRequest) (bmc.HealthReading, error) {
	return f.server().reading(request), f.call(ctx, "ReadHealth")
}

// ReadLogs returns the log of the server.
func (f *Fake) ReadLogs(ctx context.Context, _ []bmc.LogSource) ([]bmc.Log, error) {
	return []bmc.Log{f.server().readLog()}, f.call(ctx, "ReadLogs")
}

// Clock reads the clock.
func (f *Fake) Clock(ctx context.Context) (time.Time, error) {
	return f.server().now(), f.call(ctx, "Clock")
}

// Close ends the connection.
func (f *Fake) Close(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opened--
	return nil
}
