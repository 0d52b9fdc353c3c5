package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Some BMCs have no boot override, only the firmware's boot order (DSP0268, ComputerSystem.Boot.BootOrder) and descriptions of its entries
// (BootOption). For these, the driver moves the options of the wanted target to the front, and restores the previous order when the
// override is removed. It keeps the previous order in memory: after a restart of this process, the changed order remains.

// orders contains the boot orders that were replaced. The zero value is ready.
type orders struct {
	mu       sync.Mutex
	replaced map[string]replacedOrder
}

// replacedOrder is the previous boot order, and the target that is first in the new one.
type replacedOrder struct {
	order  []string
	target bmc.BootTarget
}

func (o *orders) get(system string) (replacedOrder, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	was, ok := o.replaced[system]
	return was, ok
}

func (o *orders) set(system string, was replacedOrder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.replaced == nil {
		o.replaced = map[string]replacedOrder{}
	}
	o.replaced[system] = was
}

func (o *orders) forget(system string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.replaced, system)
}

// bootOption is an option of the firmware's boot manager.
type bootOption struct {
	// reference is its name in the boot order.
	reference string
	// target is its boot target; empty for an option that is no boot target.
	target bmc.BootTarget
}

// bootOrder is the boot order of the system.
type bootOrder struct {
	service *service
	system  *system
	// orders contains the boot orders that were replaced, of all systems.
	orders *orders
	// inUse is true if the driver changes the boot order, because the BMC has no boot override.
	inUse bool
}

// key identifies the system among those of all BMCs.
func (o *bootOrder) key() string { return o.service.endpoint.URL.Host + o.system.path }

// current returns the boot order of the system, as last read.
func (o *bootOrder) current() []string { return o.system.texts("Boot", "BootOrder") }

// guess sets inUse without a request: a settings object that is not read yet may have an override.
func (o *bootOrder) guess() {
	o.inUse = o.offered() && !offersOverride(o.system.resource) && o.system.settings() == ""
}

// detect sets inUse, which is true if the BMC has a boot order and no override.
func (o *bootOrder) detect(ctx context.Context) bool {
	o.inUse = o.offered() && o.system.bootSource(ctx) == nil
	return o.inUse
}

// offered is true if the system has a boot order, and describes its options.
func (o *bootOrder) offered() bool {
	return len(o.current()) > 0 && o.system.link("Boot", "BootOptions") != ""
}

// options reads the options of the boot order.
func (o *bootOrder) options(ctx context.Context) ([]bootOption, error) {
	if !o.detect(ctx) {
		return nil, errNoOverride
	}
	paths, _, err := o.service.collection(ctx, o.system.link("Boot", "BootOptions"))
	if err != nil {
		return nil, err
	}
	targets := map[string]bmc.BootTarget{}
	for _, r := range o.service.readAll(ctx, paths) {
		if r.has("BootOptionEnabled") && !r.boolean("BootOptionEnabled") {
			continue
		}
		for _, name := range []string{r.text("BootOptionReference"), r.text("Name"), r.id()} {
			if _, known := targets[name]; !known && name != "" {
				targets[name] = targetOf(r)
			}
		}
	}
	var options []bootOption
	for _, reference := range o.current() {
		options = append(options, bootOption{reference, targets[reference]})
	}
	return options, o.service.unavailable(ctx)
}

// targetOf returns the boot target of an option: by its alias, which has the names of override targets, by its device path (UEFI 2.10,
// 10.3), or by its name.
func targetOf(option resource) bmc.BootTarget {
	alias := option.text("Alias")
	for target, names := range targets {
		if slices.ContainsFunc(names, func(name schemas.BootSource) bool {
			return target != bmc.BootNone && strings.EqualFold(string(name), alias)
		}) {
			return target
		}
	}
	path, name := strings.ToLower(option.text("UefiDevicePath")), strings.ToLower(option.text("DisplayName")+" "+option.text("Name"))
	contains := func(text string, words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
	}
	switch {
	case contains(path, "uri("):
		return bmc.BootHTTP
	case contains(path, "ipv4(", "ipv6("), path == "" && contains(name, "pxe"):
		return bmc.BootPXE
	case contains(path, "cdrom("), path == "" && contains(name, "cd-rom", "cdrom", "dvd", "optical"):
		return bmc.BootCD
	case contains(path, "hd(", "nvme(", "sata(", "scsi(", "sas("), path == "" && contains(name, "hard disk", "hard drive", "hdd", "ssd"):
		return bmc.BootDisk
	default:
		return ""
	}
}

// read returns the boot order as an override. It is BootNone if the order is the original one.
func (o *bootOrder) read() bmc.BootOverride {
	was, replaced := o.orders.get(o.key())
	if !replaced || slices.Equal(was.order, o.current()) {
		return bmc.BootOverride{Target: bmc.BootNone}
	}
	return bmc.BootOverride{Target: was.target, Mode: bmc.BootUEFI, Continuous: true}
}

// set moves the options of the wanted target to the front of the boot order, or restores the order.
func (o *bootOrder) set(ctx context.Context, want bmc.BootOverride) (bmc.BootResult, error) {
	unsupported := func(err error) error { return &bmc.Error{Kind: bmc.Unsupported, Op: "Set the boot order", Err: err} }
	if want.Mode == bmc.BootLegacy {
		return bmc.BootResult{}, unsupported(errors.New("the BMC has no boot override, only a UEFI boot order"))
	}
	if want.URI != "" {
		return bmc.BootResult{}, unsupported(errors.New("the BMC has no boot override, only a UEFI boot order, which has no place for a URL"))
	}
	was, replaced := o.orders.get(o.key())
	if want.Target == bmc.BootNone {
		if !replaced {
			return bmc.BootResult{Method: methodBootOrder, ReadBack: &bmc.BootOverride{Target: bmc.BootNone}}, nil
		}
		return o.write(ctx, want, was.order)
	}
	options, err := o.options(ctx)
	if err != nil {
		return bmc.BootResult{}, unsupported(err)
	}
	var first, rest []string
	for _, option := range options {
		if option.target == want.Target {
			first = append(first, option.reference)
		} else {
			rest = append(rest, option.reference)
		}
	}
	if len(first) == 0 {
		return bmc.BootResult{}, unsupported(fmt.Errorf("the BMC's boot order has no option that boots from %s", want.Target))
	}
	if !replaced {
		was.order = o.current()
	}
	o.orders.set(o.key(), replacedOrder{was.order, want.Target})
	return o.write(ctx, want, slices.Concat(first, rest))
}

// write writes the boot order and reads it back. Services with a settings object accept it there.
func (o *bootOrder) write(ctx context.Context, want bmc.BootOverride, order []string) (bmc.BootResult, error) {
	var (
		err     error
		written = o.system.path
	)
	for _, path := range []string{o.system.path, o.system.settings()} {
		if path == "" || slices.Equal(o.current(), order) {
			break
		}
		written = path
		if err = o.service.patch(ctx, path, map[string]any{"Boot": map[string]any{"BootOrder": order}}); err == nil || !refused(err) {
			break
		}
	}
	if err != nil {
		return bmc.BootResult{}, err
	}
	after, err := o.service.fetch(ctx, written)
	if err != nil {
		return bmc.BootResult{}, err
	}
	result := bmc.BootResult{Method: methodBootOrder}
	result.ReadBack = &bmc.BootOverride{Target: bmc.BootNone}
	if want.Target != bmc.BootNone {
		result.Lasts = !want.Continuous
		result.ReadBack = &bmc.BootOverride{Target: want.Target, Mode: bmc.BootUEFI, Continuous: true}
	}
	if now := after.texts("Boot", "BootOrder"); !slices.Equal(now, order) {
		result.Doubt = fmt.Sprintf("the BMC accepted the boot order and still reports %.200s", strings.Join(now, ", "))
		return result, nil
	}
	if want.Target == bmc.BootNone {
		o.orders.forget(o.key())
	}
	return result, nil
}
