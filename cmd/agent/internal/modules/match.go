// Package modules loads the kernel modules of a server's devices: a small modprobe and coldplug. It reads what depmod writes (modules.dep, modules.alias,
// modules.softdep), because the ramdisk has no other program.
package modules

// Match is true if a text has the form of a pattern of modules.alias. * stands for any characters, also slashes, ? for one, and [a-c] for one of a set. The
// kernel's aliases have no escapes (scripts/mod/file2alias.c).
func Match(pattern, text string) bool {
	// On a mismatch the last * takes one more character.
	star, next := -1, 0
	p, t := 0, 0
	for t < len(text) {
		if p < len(pattern) {
			if pattern[p] == '*' {
				star, next = p, t
				p++
				continue
			}
			if width := matchOne(pattern[p:], text[t]); width > 0 {
				p, t = p+width, t+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		next++
		p, t = star+1, next
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne returns how many characters of the pattern stand for c, 0 if c does not match. A set without its end matches nothing.
func matchOne(pattern string, c byte) int {
	switch pattern[0] {
	case '?':
		return 1
	case '[':
		found := false
		for i := 1; i < len(pattern); i++ {
			switch {
			case pattern[i] == ']' && found:
				return i + 1
			case pattern[i] == ']':
				return 0
			case i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']':
				found = found || pattern[i] <= c && c <= pattern[i+2]
				i += 2
			default:
				found = found || pattern[i] == c
			}
		}
		return 0
	case c:
		return 1
	default:
		return 0
	}
}
