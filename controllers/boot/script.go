package boot

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// scripts serve the boot scripts, and answer what a server boots now.
type scripts struct {
	client    client.Client // reads from the cache
	clock     clock.PassiveClock
	settings  lifecycle.Settings
	keys      tokenKeys
	lookup    *lookup
	records   *bootRecords
	admission *admission
	binding   *binding
	bootstrap *bootstrapReader
	stages    *stageWriter
	events    *eventRecorder
	requests  *limiters // of each scriptClient
}

// Lookup returns what the server with a MAC address boots now.
func (s *scripts) Lookup(ctx context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	host, err := s.lookup.hostOf(ctx, mac)
	if err != nil || host == nil {
		return pxe.Answer{}, err
	}
	boot, err := s.records.bootOf(ctx, client.ObjectKeyFromObject(host))
	if err != nil {
		return pxe.Answer{}, err
	}
	a, err := s.lookup.view(ctx, s.client, host, boot)
	if err != nil {
		return pxe.Answer{}, err
	}
	mode := host.Spec.BootMode
	answer := pxe.Answer{Known: true, BIOS: mode == v1alpha1.BootModeBIOS, SecureBoot: mode == v1alpha1.BootModeUEFISecureBoot}
	switch lifecycle.BootFor(a.view, s.settings) {
	case lifecycle.BootDisk:
		answer.Boot = pxe.Disk
	case lifecycle.BootAfterPowerOn:
		answer.Boot = pxe.NotYet
	case lifecycle.BootNetwork:
		answer.Boot, answer.Files, answer.Namespace = pxe.Network, files(a.consumer.BareMetalMachine.Spec.Boot), host.Namespace
	case lifecycle.BootAgent:
		answer.Boot, answer.Agent = pxe.Network, cmp.Or(string(host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64))
	case lifecycle.BootNothing:
	}
	if lifecycle.StateOf(a.view) == lifecycle.StateBooting {
		answer.ScriptFor, _ = netip.ParseAddr(boot.Spec.ScriptAddress) // invalid until the script is served
	}
	return answer, nil
}

func files(source v1alpha1.BootSource) []artifact.Artifact {
	if source.Kernel.URL == "" {
		return nil // the user's own iPXE script may name files that are elsewhere
	}
	out := []artifact.Artifact{{URL: source.Kernel.URL, Checksum: source.Kernel.Checksum}}
	for _, initrd := range source.Initrds {
		out = append(out, artifact.Artifact{URL: initrd.URL, Checksum: initrd.Checksum})
	}
	return out
}

// Admit decides about a client as Script does, but from the cache alone. Script may still refuse a client that Admit admits, because the API server
// confirms what it decides.
func (s *scripts) Admit(ctx context.Context, mac net.HardwareAddr, from netip.Addr) error {
	host, err := s.lookup.clientHost(ctx, mac)
	if err != nil {
		return err
	}
	boot, err := s.records.bootOf(ctx, client.ObjectKeyFromObject(host))
	if err != nil {
		return err
	}
	if boot == nil {
		return tooEarly("the boot of %s is not in the cache yet", mac)
	}
	a, err := s.lookup.view(ctx, s.client, host, boot)
	if err != nil {
		return err
	}
	_, err = s.admission.admit(ctx, a, mac.String(), from, false)
	s.events.recordRefusalEvent(a, from, err)
	return err
}

// scriptClient is a client that asks for the script of a host. Another client uses up nothing of its budget.
type scriptClient struct {
	host types.NamespacedName
	from netip.Addr
}

// Script serves the script, and with it the token, to the first address that admit admits, and to the same address again until the bootstrap data was
// served. A second admitted address ends the boot: it may be the server, and the first one a stranger.
func (s *scripts) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	cached, err := s.lookup.clientHost(ctx, mac)
	if err != nil {
		return pxe.Script{}, err
	}
	if !s.requests.allow(scriptClient{client.ObjectKeyFromObject(cached), from}, s.clock.Now()) { // each reads the boot and the bootstrap Secret
		return pxe.Script{}, tooEarly("the script of %s was requested too often", mac)
	}
	var script pxe.Script
	var a attempt
	first := func(known *v1alpha1.BareMetalBootSpec) bool { return known.ScriptAddress == "" }
	boot, err := s.records.update(ctx, client.ObjectKeyFromObject(cached), first, func(boot *v1alpha1.BareMetalBoot, live bool) error {
		a = attempt{boot: boot}
		whole, err := s.lookup.attemptOf(ctx, boot)
		if err != nil {
			return err
		}
		a = whole
		a.known = !live
		script, err = s.script(ctx, a, mac, from)
		return err
	})
	if err != nil {
		s.events.recordRefusalEvent(a, from, err)
		return pxe.Script{}, err
	}
	s.stages.recordStage(boot, v1alpha1.StageScript, from, "")
	return script, nil
}

// script binds the script of a boot to an address, and returns it.
func (s *scripts) script(ctx context.Context, a attempt, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	what := lifecycle.BootFor(a.view, s.settings)
	boots := what == lifecycle.BootNetwork || what == lifecycle.BootAgent
	given := lifecycle.StateOf(a.view) == lifecycle.StateBooting && a.boot.Spec.ScriptAddress != "" && !a.deadlinePassed(s.settings)
	switch {
	case !slices.Contains(a.host.Spec.BootMACAddresses, mac.String()):
		return pxe.Script{}, refused("%s boots nothing now", mac)
	case otherInterface(a.boot, mac):
		// The same server, which the firmware has moved on. The token of the attempt is bound to the address of the first one, and the next attempt starts again.
		return pxe.Script{}, tooEarly("the script of this attempt went to the interface %s", a.boot.Spec.ScriptMACAddress)
	case what == lifecycle.BootAfterPowerOn:
		return pxe.Script{}, tooEarly("%s is not powered on yet", mac)
	case !boots && !given:
		return pxe.Script{}, refused("%s boots nothing now", mac)
	}
	dhcpTime, err := s.admission.admit(ctx, a, mac.String(), from, false)
	if err != nil {
		return pxe.Script{}, err
	}
	bootstrap, err := s.bootstrap.bootstrapForScript(ctx, a)
	if err != nil {
		a.recordProblem(s.stages, bootstrapReason(err), err)
		return pxe.Script{}, errors.Join(pxe.ErrNotYet, err)
	}
	if a.boot.Spec.ScriptAddress == "" {
		a.boot.Spec.DHCPTime, a.boot.Spec.ScriptMACAddress = dhcpTime, mac.String()
	}
	if err := s.binding.bindScript(ctx, a, from); err != nil {
		return pxe.Script{}, err
	}
	machine, name, title := a.boot.Spec.MachineName, a.host.Namespace+"/"+a.host.Name, a.title()
	switch {
	case !boots:
		return pxe.Script{}, refused("%s is booting and gets no script any more", mac)
	case what == lifecycle.BootAgent:
		return pxe.Script{Title: title, Hostname: cmp.Or(machine, a.host.Name), Agent: &pxe.AgentScript{
			Architecture: cmp.Or(string(a.host.Spec.Architecture), string(v1alpha1.ArchitectureAMD64)),
			Host:         name, Token: s.keys.token(forAgent, a.boot), Network: bootstrap.network,
		}}, nil
	}
	source := a.consumer.BareMetalMachine.Spec.Boot
	return pxe.Script{
		Title:       title,
		CommandLine: source.CommandLine, Files: files(source), Format: bootstrap.format, Network: bootstrap.network,
		Hostname: machine, Template: source.IPXETemplate,
		SeedPath: pxe.SeedPath(name, s.keys.token(forSeed, a.boot)),
	}, nil
}

// otherInterface is true if the script of a boot went to another interface than the one with a MAC address.
func otherInterface(boot *v1alpha1.BareMetalBoot, mac net.HardwareAddr) bool {
	return boot.Spec.ScriptMACAddress != "" && boot.Spec.ScriptMACAddress != mac.String()
}
