package bmctest

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// bootOverride is the boot override of an emulated server.
type bootOverride struct {
	*core

	next      bmc.BootOverride
	pending   *bmc.BootOverride // written to the settings object: it becomes next when the server boots
	bootURI   string            // of a BMC with KeepsBootURI
	bootedURI string            // of the last boot
}

// Override returns the boot override for the next boot.
func (b *bootOverride) Override() bmc.BootOverride {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending != nil {
		return *b.pending
	}
	return b.next
}

// BootedURI returns the URI of UEFI HTTP boot with which the server was last booted; empty for none.
func (b *bootOverride) BootedURI() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bootedURI
}

// override sets the boot override for the next boot.
func (b *bootOverride) override(boot bmc.BootOverride) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commands = append(b.commands, Command{Name: "Boot=" + string(boot.Target), At: time.Now()})
	if b.faults.on(OverrideAtSettings) {
		b.pending = &boot
	} else {
		b.next = boot
	}
	b.etag++
}

// take returns what the server boots now, and ends an override for one boot. b.mu is held.
func (b *bootOverride) take() bmc.BootTarget {
	if b.pending != nil {
		b.next, b.pending = *b.pending, nil
	}
	boot := b.next.Target
	b.bootedURI = b.next.URI
	if boot == bmc.BootNone || b.faults.on(OverrideReverts) {
		boot = bmc.BootDisk
	}
	if !b.next.Continuous && !b.faults.on(OverrideNeverResets) {
		b.next = bmc.BootOverride{Target: bmc.BootNone, Mode: b.next.Mode}
	}
	return boot
}
