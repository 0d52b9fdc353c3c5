package ipxe

import "testing"

// BenchmarkNetwork renders a host's boot script.
func BenchmarkNetwork(b *testing.B) {
	v := values(2, noCloud)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Network(v); err != nil {
			b.Fatal(err)
		}
	}
}
