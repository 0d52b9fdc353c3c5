package boot

import "testing"

// BenchmarkToken checks a token: a valid one, one of the previous key, and a wrong one.
func BenchmarkToken(b *testing.B) {
	boot := tokenBoot(nil)
	keys := tokenKeys{current: []byte("a key of this day"), previous: []byte("the key of the day before")}
	previous := tokenKeys{current: keys.previous}
	for name, c := range map[string]struct {
		token string
		opens bool
	}{
		"good":     {keys.token(forSeed, boot), true},
		"previous": {previous.token(forSeed, boot), true},
		"wrong":    {keys.token(forReport, boot), false},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if keys.opens(c.token, forSeed, boot) != c.opens {
					b.Fatal(name)
				}
			}
		})
	}
}
