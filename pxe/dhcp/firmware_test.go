package dhcp

import (
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestOtherDHCPServer: firmware that should boot from here and takes the answer of another DHCP server is reported, where this server gives the addresses.
func TestOtherDHCPServer(t *testing.T) {
	for name, test := range map[string]struct {
		mode     bootconfig.Mode
		answer   pxe.Answer
		kind     dhcpv4.MessageType
		client   []dhcpv4.Modifier
		reported bool
	}{
		"firmware":                   {bootconfig.Authoritative, networkBoot, dhcpv4.MessageTypeRequest, pxeClient(iana.EFI_X86_64), true},
		"an operating system":        {bootconfig.Authoritative, networkBoot, dhcpv4.MessageTypeRequest, nil, false},
		"firmware that may boot so":  {bootconfig.Authoritative, diskBoot, dhcpv4.MessageTypeRequest, pxeClient(iana.EFI_X86_64), false},
		"beside another DHCP server": {bootconfig.Proxy, networkBoot, dhcpv4.MessageTypeRequest, pxeClient(iana.EFI_X86_64), false},
		"a DECLINE":                  {bootconfig.Authoritative, networkBoot, dhcpv4.MessageTypeDecline, pxeClient(iana.EFI_X86_64), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b := booter(test.answer)
			_, what := ask(t, server(test.mode, b), message(t, test.kind, with(test.client, serverID(stranger), requested(leased))...), atServer)
			g.Expect(what).To(Equal(ResultElsewhere))
			if !test.reported {
				g.Expect(b.Failures()).To(BeEmpty())
				return
			}
			g.Expect(b.Failures()).To(ConsistOf(And(MatchError(pxe.ErrOtherDHCPServer), MatchError(ContainSubstring("192.0.2.9")))))
		})
	}
}

// TestFirmwareIsSeen: a request of firmware is recorded whether or not there is something to boot. Requests of an operating system, and
// those that another DHCP server answers, are not.
func TestFirmwareIsSeen(t *testing.T) {
	answer := func(p *dhcpv4.DHCPv4) { p.OpCode = dhcpv4.OpcodeBootReply }
	for name, test := range map[string]struct {
		client []dhcpv4.Modifier
		file   string
		want   []pxe.Stage
	}{
		"a boot file":             {pxeClient(iana.EFI_X86_64), "snponly.efi", []pxe.Stage{pxe.StageDHCP}},
		"PXE, nothing":            {pxeClient(iana.EFI_X86_64), "", []pxe.Stage{pxe.StageFirmware}},
		"UEFI HTTP boot, nothing": {httpClient(iana.EFI_X86_64_HTTP), "", []pxe.Stage{pxe.StageFirmware}},
		"iPXE, nothing":           {ipxeClient(), "", []pxe.Stage{pxe.StageFirmware}},
		"an operating system":     {nil, "", nil},
		"another server's answer": {append(pxeClient(iana.EFI_X86_64), answer), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := booter(pxe.Answer{Known: true})
			x := &exchange{request: discover(t, test.client...), reply: &dhcpv4.DHCPv4{}, file: test.file}
			x.client = Classify(x.request)
			(&Server{Booter: b}).recordStage(x, ResultAnswered)
			NewWithT(t).Expect(b.Stages()).To(Equal(test.want))
		})
	}
}
