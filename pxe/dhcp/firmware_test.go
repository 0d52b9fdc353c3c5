package dhcp

import (
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

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
