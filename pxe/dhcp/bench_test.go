package dhcp

import (
	"testing"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// BenchmarkAnswer parses a firmware's DISCOVER, decides, and writes the answer, without the network and the API.
func BenchmarkAnswer(b *testing.B) {
	for _, mode := range []bootconfig.Mode{bootconfig.Proxy, bootconfig.Authoritative} {
		b.Run(string(mode), func(b *testing.B) {
			s := server(mode, booter(networkBoot))
			packet := discover(b, pxeClient(iana.EFI_X86_64)...).ToBytes()
			b.ReportAllocs()
			for b.Loop() {
				request, err := parse(packet)
				if err != nil {
					b.Fatal(err)
				}
				x, err := s.handle(b.Context(), request, atServer)
				if err != nil || len(x.reply.ToBytes()) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}
