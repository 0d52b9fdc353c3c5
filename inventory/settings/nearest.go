package settings

import "strings"

// Nearest returns the name that is most like another one, for "did you mean": the same without regard to case, or the one with the smallest edit distance, if
// that is at most a third of the length. It is empty without one. Of two equally near names it is the first.
func Nearest(name string, names []string) string {
	best, limit := "", max(2, len(name)/3)
	if len(name) > maxText {
		return ""
	}
	for _, candidate := range names {
		if strings.EqualFold(candidate, name) {
			return candidate
		}
		if len(candidate) > maxText || abs(len(candidate)-len(name)) > limit {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(candidate)); d < limit || d == limit && best == "" {
			best, limit = candidate, d
		}
	}
	return best
}

// distance is the number of insertions, deletions, replacements and exchanges of neighbours that make one text of the other (optimal string alignment), in
// bytes.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

func abs(n int) int { return max(n, -n) }
