package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const aboutProbe = `bmcctl probe URL reads a BMC: its model, its capabilities, and the state of its server. It changes nothing. It ends with a
verdict: whether the server can be registered, and what to correct before.

  bmcctl probe redfish://192.0.2.10 --username admin --ca bmc-ca.crt
  bmcctl probe ipmi://192.0.2.10 --username admin -o json
`

// findings are the data of a BMC. Data that it does not offer is nil, and named in NotOffered.
type findings struct {
	Address     string           `json:"address"`
	Description bmc.Description  `json:"description"`
	Lacks       []bmc.Capability `json:"lacks"`

	Power        bmc.PowerState    `json:"power"`
	BootOverride *bmc.BootOverride `json:"bootOverride"`
	Media        []bmc.Media       `json:"media"`
	SecureBoot   *bmc.SecureBoot   `json:"secureBoot"`
	Clock        *time.Time        `json:"clock"`
	// ClockAheadSeconds is how far the BMC's clock is ahead of this machine's.
	ClockAheadSeconds *float64       `json:"clockAheadSeconds"`
	Inventory         *bmc.Inventory `json:"inventory"`
	Sensors           []bmc.Sensor   `json:"sensors,omitempty"`
	Events            []bmc.LogEntry `json:"events,omitempty"`

	// Ready is true if a host with this BMC can be registered and booted. Verdict says so, and Warnings what to correct before.
	Ready    bool          `json:"ready"`
	Verdict  string        `json:"verdict"`
	Warnings []bmc.Warning `json:"warnings"`
	// NotChecked are the checks that the BMC gives no facts for.
	NotChecked []string `json:"notChecked,omitempty"`

	NotOffered  []string           `json:"notOffered"`
	Errors      map[string]string  `json:"errors"`
	TookSeconds map[string]float64 `json:"tookSeconds"`
}

// bmcReader reads one part after the other, until the BMC becomes unreachable.
type bmcReader struct {
	target  *target
	client  bmc.Client
	timeout time.Duration
	found   *findings
	gone    bool
}

func probe(ctx context.Context, args []string, c console) error {
	var (
		f       connection
		sensors bool
		events  int
		output  string
		mac     string
	)
	set := pflag.NewFlagSet("probe", pflag.ContinueOnError)
	f.flags(set)
	set.BoolVar(&sensors, "sensors", false, "Also read the sensors.")
	set.IntVar(&events, "events", 0, "Number of newest entries of the event logs to read, up to 64 a log. 0 reads none.")
	set.StringVar(&mac, "boot-mac", "", "MAC address of the interface that boots from the network, as in spec.bootMACAddresses. Without it, all interfaces are checked.")
	set.StringVarP(&output, "output", "o", "text", "Output `format`: text or json.")
	address, err := parse(set, args, c, aboutProbe)
	if err != nil {
		return err
	}
	switch {
	case output != "text" && output != "json":
		return usageErrorf("--output: %q is neither text nor json", output)
	case events < 0:
		return usageErrorf("--events: %d is negative: use 0 or more", events)
	}
	if mac != "" {
		parsed, err := net.ParseMAC(mac)
		if err != nil || len(parsed) != 6 {
			return usageErrorf("--boot-mac: %q is no MAC address: write it like 52:54:00:00:00:01", mac)
		}
		mac = parsed.String()
	}
	t, err := f.target(ctx, address, c)
	if err != nil {
		return err
	}
	found, err := readBMC(ctx, t, f.timeout, sensors, events)
	if err != nil {
		return t.explain(err)
	}
	found.judge(t.Endpoint, mac)
	if output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(plain(found, nil))
	} else {
		err = found.print(c.out)
	}
	if err == nil && len(found.Errors) > 0 {
		err = fmt.Errorf("the BMC could not be read completely: %s", sentence(found.Errors))
	}
	return err
}

// readBMC opens a BMC and reads all parts. It returns an error if the connection fails. The findings contain other errors.
func readBMC(ctx context.Context, t *target, timeout time.Duration, sensors bool, events int) (*findings, error) {
	found := &findings{Address: t.URL.String(), NotOffered: []string{}, Errors: map[string]string{}, TookSeconds: map[string]float64{}}
	openCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	client, err := t.open(openCtx, t.Endpoint)
	if err != nil {
		return nil, err
	}
	found.TookSeconds["open"] = time.Since(start).Seconds()
	l := &bmcReader{target: t, client: client, timeout: timeout, found: found}
	l.readConfiguration(ctx)
	if sensors {
		found.Sensors = value(read(ctx, l, "sensors", monitor(l, bmc.Monitor.Sensors)))
	}
	if events > 0 {
		found.Events = value(read(ctx, l, "events", func(ctx context.Context) ([]bmc.LogEntry, error) { return newestEntries(ctx, client, events) }))
	}
	closeCtx, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancelClose()
	if err := client.Close(closeCtx); err != nil && !l.gone {
		found.Errors["logOut"] = clean(err.Error())
	}
	return found, ctx.Err()
}

func (l *bmcReader) readConfiguration(ctx context.Context) {
	found, client := l.found, l.client
	if d := read(ctx, l, "description", client.Describe); d != nil {
		found.Description, found.Lacks = *d, lacking(d.Capabilities)
	}
	found.Power = value(read(ctx, l, "power", client.PowerState))
	if found.BootOverride = read(ctx, l, "bootOverride", client.BootOverride); found.BootOverride != nil {
		found.BootOverride.URI = bmc.MaskURLs(found.BootOverride.URI)
	}
	found.Media = value(read(ctx, l, "media", func(ctx context.Context) ([]bmc.Media, error) {
		m, err := bmc.As[bmc.VirtualMedia](client, "Read the virtual media")
		if err != nil {
			return nil, err
		}
		return m.Media(ctx)
	}))
	maskImages(found.Media)
	found.SecureBoot = read(ctx, l, "secureBoot", func(ctx context.Context) (bmc.SecureBoot, error) {
		s, err := bmc.As[bmc.SecureBooter](client, "Read Secure Boot")
		if err != nil {
			return bmc.SecureBoot{}, err
		}
		return s.SecureBoot(ctx)
	})
	before := time.Now()
	if found.Clock = read(ctx, l, "clock", monitor(l, bmc.Monitor.Clock)); found.Clock != nil {
		ahead := found.Clock.Sub(before.Add(time.Since(before) / 2)).Seconds()
		found.ClockAheadSeconds = &ahead
	}
	found.Inventory = read(ctx, l, "inventory", client.Inspect)
}

// newestEntries reads the newest entries of all logs, newest first.
func newestEntries(ctx context.Context, client bmc.Client, limit int) ([]bmc.LogEntry, error) {
	reader, err := bmc.As[bmc.HealthReader](client, "Read the event log")
	if err != nil {
		return nil, err
	}
	logs, err := reader.ReadLogs(ctx, nil)
	if err != nil {
		return nil, err
	}
	var entries []bmc.LogEntry
	for _, log := range bmc.Newest(logs, limit) {
		entries = append(entries, log.Entries...)
	}
	slices.SortStableFunc(entries, func(a, b bmc.LogEntry) int { return b.Time.Compare(a.Time) })
	return entries, nil
}

// monitor calls a method of bmc.Monitor, which not every driver implements.
func monitor[T any](l *bmcReader, do func(bmc.Monitor, context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		m, err := bmc.As[bmc.Monitor](l.client, "Monitor")
		if err != nil {
			var none T
			return none, err
		}
		return do(m, ctx)
	}
}

// read reads one part. It returns nil if the BMC does not offer it or failed, and records which. After the BMC has become unreachable, or
// has refused the credentials, read sends no further requests.
func read[T any](ctx context.Context, l *bmcReader, name string, do func(context.Context) (T, error)) *T {
	if l.gone || ctx.Err() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	start := time.Now()
	got, err := do(ctx)
	switch {
	case err == nil:
		l.found.TookSeconds[name] = time.Since(start).Seconds()
		return &got
	case bmc.KindOf(err) == bmc.Unsupported:
		l.found.NotOffered = append(l.found.NotOffered, name)
	default:
		kind := bmc.KindOf(err)
		l.gone = kind == bmc.Unreachable || kind == bmc.Unauthorized
		l.found.Errors[name] = clean(err.Error())
	}
	return nil
}

func value[T any](v *T) T {
	if v == nil {
		var none T
		return none
	}
	return *v
}

// sentence lists the errors.
func sentence(errs map[string]string) string {
	parts := make([]string, 0, len(errs))
	for _, name := range slices.Sorted(maps.Keys(errs)) {
		parts = append(parts, name+": "+errs[name])
	}
	return strings.Join(parts, "; ")
}

// capabilities lists all capabilities in the order of the output.
var capabilities = []bmc.Capability{
	bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanNMI,
	bmc.CanBootPXE, bmc.CanBootHTTP, bmc.CanBootDisk, bmc.CanBootCD,
	bmc.CanInventory, bmc.CanVirtualMedia, bmc.CanSecureBoot, bmc.CanBIOSSettings, bmc.CanSensors, bmc.CanEventLog, bmc.CanClock,
}

// lacking lists the missing capabilities.
func lacking(there []bmc.Capability) []bmc.Capability {
	return slices.DeleteFunc(slices.Clone(capabilities), func(c bmc.Capability) bool { return slices.Contains(there, c) })
}
