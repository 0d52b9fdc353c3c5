package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// print writes the findings as tables.
func (f *findings) print(w io.Writer) error {
	table := newTable(w)
	d := f.Description
	table.row("BMC", f.Address)
	table.row("Protocol", d.Protocol)
	table.row("Vendor", d.Vendor)
	table.row("Model", d.Model)
	table.row("BMC firmware", d.FirmwareVersion)
	if d.Path != "" {
		table.row("System", d.Path)
	}
	table.row("Known deviations", cmp.Or(strings.Join(d.Quirks, ", "), "none listed for this BMC"))
	table.row("Can", list(d.Capabilities))
	table.row("Cannot", cmp.Or(list(f.Lacks), "none: the BMC has all capabilities"))
	f.printState(table)
	if i := f.Inventory; i != nil {
		printInventory(table, i)
	}
	if len(f.Sensors) > 0 {
		table.section("SENSOR", "KIND", "READING", "HEALTH")
		for _, s := range f.Sensors {
			table.row(s.Name, s.Kind, fmt.Sprintf("%g %s", s.Value, s.Unit), string(s.Health))
		}
	}
	if len(f.Events) > 0 {
		table.section("EVENT", "SEVERITY", "MESSAGE")
		for _, e := range f.Events {
			at := "-"
			if !e.Time.IsZero() {
				at = e.Time.UTC().Format(time.RFC3339)
			}
			table.row(at, string(e.Severity), e.Message)
		}
	}
	if err := table.flush(); err != nil {
		return err
	}
	return f.printVerdict(w)
}

// printState writes the current state of the server and its BMC.
func (f *findings) printState(table *table) {
	table.row("Power", f.orWhy("power", string(f.Power)))
	table.row("After a power loss", cmp.Or(f.Description.PowerRestorePolicy, "unknown: the BMC does not report it"))
	if o := f.BootOverride; o != nil {
		table.row("Boot override", overrideText(*o))
	} else {
		table.row("Boot override", f.orWhy("bootOverride", ""))
	}
	if len(f.Media) == 0 {
		table.row("Virtual media", f.orWhy("media", "no drive"))
	}
	for _, m := range f.Media {
		table.row("Virtual media", mediaText(m))
	}
	if s := f.SecureBoot; s != nil {
		table.row("Secure Boot", fmt.Sprintf("%s; the running boot: %s", onOff(s.Enabled), onOff(s.Active)))
	} else {
		table.row("Secure Boot", f.orWhy("secureBoot", ""))
	}
	if f.Clock != nil {
		table.row("Clock", clockText(time.Duration(*f.ClockAheadSeconds*float64(time.Second))))
	} else {
		table.row("Clock", f.orWhy("clock", ""))
	}
	if f.Inventory != nil {
		table.row("Health", string(f.Inventory.Health))
	} else {
		table.row("Inventory", f.orWhy("inventory", ""))
	}
	for _, part := range []struct{ title, name string }{{"Sensors", "sensors"}, {"Event log", "events"}} {
		if why := f.orWhy(part.name, ""); why != "" {
			table.row(part.title, why)
		}
	}
	table.row("Took", fmt.Sprintf("%s to open, %s to read the power, %s to read the inventory",
		seconds(f.TookSeconds["open"]), seconds(f.TookSeconds["power"]), seconds(f.TookSeconds["inventory"])))
}

// orWhy returns the text, or the reason why it is missing.
func (f *findings) orWhy(name, text string) string {
	if err := f.Errors[name]; err != "" {
		return "FAILED: " + err
	}
	if slices.Contains(f.NotOffered, name) {
		return "not offered"
	}
	return text
}

func overrideText(o bmc.BootOverride) string {
	if o.Target == bmc.BootNone {
		return "none"
	}
	how := "for the next boot"
	if o.Continuous {
		how = "for every boot"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", o.Target, how, o.URI))
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// yesNo returns the word for yes or no, or "" for nil.
func yesNo(known *bool, yes, no string) string {
	switch {
	case known == nil:
		return ""
	case *known:
		return yes
	default:
		return no
	}
}

func clockText(ahead time.Duration) string {
	switch ahead = ahead.Round(time.Second); {
	case ahead >= 2*time.Second:
		return ahead.String() + " ahead of this machine's"
	case ahead <= -2*time.Second:
		return (-ahead).String() + " behind this machine's"
	default:
		return "agrees with this machine's"
	}
}

func printInventory(table *table, i *bmc.Inventory) {
	table.section("INVENTORY")
	table.row("Server", strings.TrimSpace(i.Manufacturer+" "+i.Model))
	table.row("Serial number", i.SerialNumber)
	table.row("System UUID", i.SystemUUID)
	table.row("Firmware", i.FirmwareVersion)
	table.row("CPU", fmt.Sprintf("%d x %s, %d cores, %d threads, %s", i.CPUSockets, cmp.Or(i.CPUModel, "?"), i.CPUCores, i.CPUThreads, cmp.Or(i.Architecture, "?")))
	table.row("Memory", size(i.MemoryMiB<<20))
	for _, f := range i.Facts {
		if f.State != bmc.FactKnown || f.Message != "" {
			table.row(strings.TrimSpace(string(f.State)+" "+string(f.Name)), cmp.Or(f.Message, "the BMC reports that there is none"), f.Source)
		}
	}
	if len(i.DIMMs) > 0 {
		table.section("DIMM", "SIZE", "MANUFACTURER", "PART", "SERIAL", "HEALTH")
	}
	for _, d := range i.DIMMs {
		table.row(d.Name, size(d.SizeMiB<<20), d.Manufacturer, d.PartNumber, d.SerialNumber, string(d.Health))
	}
	if len(i.NICs) > 0 {
		table.section("NIC", "MAC", "SPEED", "LINK")
	}
	for _, n := range i.NICs {
		speed := "-"
		if n.SpeedMbps > 0 {
			speed = fmt.Sprintf("%d Mbit/s", n.SpeedMbps)
		}
		table.row(n.Name, n.MACAddress, speed, yesNo(n.LinkUp, "up", "down"))
	}
	if len(i.Disks) > 0 {
		table.section("DISK", "SIZE", "KIND", "MODEL", "SERIAL", "WWN", "HEALTH")
	}
	for _, d := range i.Disks {
		table.row(d.Name, size(d.SizeBytes), yesNo(d.Rotational, "rotational", "solid state"), d.Model, d.SerialNumber, d.WWN, string(d.Health))
	}
	if len(i.Devices) > 0 {
		table.section("DEVICE", "CLASS", "MODEL", "SERIAL", "FIRMWARE", "HEALTH")
	}
	for _, d := range i.Devices {
		table.row(d.Name, d.Class, strings.TrimSpace(d.Manufacturer+" "+d.Model), d.Serial, d.Firmware, string(d.Health))
	}
	if len(i.PowerSupplies) > 0 {
		table.section("POWER SUPPLY", "MODEL", "WATTS", "HEALTH")
	}
	for _, p := range i.PowerSupplies {
		table.row(p.Name, p.Model, strconv.Itoa(p.Watts), string(p.Health))
	}
}

// table writes sections of rows with aligned columns. It keeps the first error.
type table struct {
	out io.Writer
	tab *tabwriter.Writer
	err error
}

func newTable(w io.Writer) *table {
	return &table{out: w, tab: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
}

// row writes a row. An empty column is a dash.
func (t *table) row(columns ...string) {
	for i, column := range columns {
		columns[i] = cmp.Or(clean(column), "-")
	}
	if _, err := fmt.Fprintln(t.tab, strings.Join(columns, "\t")); err != nil {
		t.err = cmp.Or(t.err, err)
	}
}

// section ends a table and begins another one.
func (t *table) section(titles ...string) {
	t.err = cmp.Or(t.err, t.tab.Flush())
	_, err := fmt.Fprintln(t.out)
	t.err = cmp.Or(t.err, err)
	t.tab = tabwriter.NewWriter(t.out, 0, 0, 2, ' ', 0)
	_, err = fmt.Fprintln(t.tab, strings.Join(titles, "\t"))
	t.err = cmp.Or(t.err, err)
}

func (t *table) flush() error { return cmp.Or(t.err, t.tab.Flush()) }

func list(caps []bmc.Capability) string {
	names := make([]string, len(caps))
	for i, c := range caps {
		names[i] = string(c)
	}
	return strings.Join(names, ", ")
}

// size formats a number of bytes.
func size(bytes int64) string {
	switch {
	case bytes <= 0:
		return "-"
	case bytes >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(bytes)/(1<<40))
	default:
		return fmt.Sprintf("%.0f GiB", float64(bytes)/(1<<30))
	}
}

func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d == 0:
		return "-"
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(time.Millisecond).String()
	}
}
