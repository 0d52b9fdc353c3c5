package boot

import "testing"

// BenchmarkToken checks a token: a valid one, one of the previous key, and a wrong one.
func BenchmarkToken(b *testing.B) {
	boot := tokenBoot(nil)
	booter := New(&Booter{Key: []byte("a key of this day"), PreviousKey: []byte("the key of the day before")})
	previous := New(&Booter{Key: booter.PreviousKey})
	for name, c := range map[string]struct {
		token string
		opens bool
	}{
		"good":     {booter.token(forSeed, boot), true},
		"previous": {previous.token(forSeed, boot), true},
		"wrong":    {booter.token(forReport, boot), false},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if booter.opens(c.token, forSeed, boot) != c.opens {
					b.Fatal(name)
				}
			}
		})
	}
}
