package seed_test

import (
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// BenchmarkFile renders all files of a host's seed.
func BenchmarkFile(b *testing.B) {
	for _, format := range seed.Formats() {
		b.Run(string(format), func(b *testing.B) {
			d := data(format)
			if format == seed.Ignition {
				d.UserData = []byte(`{"ignition":{"version":"3.4.0"}}`)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, name := range seed.FileNames(format) {
					if _, _, err := seed.File(d, name, base); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
