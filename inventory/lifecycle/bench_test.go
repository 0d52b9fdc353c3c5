package lifecycle

import "testing"

// BenchmarkNext decides the next step of an available host, of a provisioned one, and of a booting one.
func BenchmarkNext(b *testing.B) {
	settings := DefaultSettings()
	for name, view := range map[string]View{
		"free":        freeView(),
		"provisioned": claimedView(provisioned, poweredOn),
		"booting":     bootingView(poweredOn, scriptSeen),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if Next(view, settings).State == "" {
					b.Fatal("no state")
				}
			}
		})
	}
}
