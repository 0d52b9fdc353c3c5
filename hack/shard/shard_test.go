package shard

import (
	"fmt"
	"strconv"
	"testing"
)

// names are enough names that no shard is empty.
func names() []string {
	var all []string
	for i := range 500 {
		all = append(all, fmt.Sprintf("case %d", i))
	}
	return all
}

// TestEachCaseOnce: ten consecutive numbers, such as the numbers of commits, select every case exactly once.
func TestEachCaseOnce(t *testing.T) {
	for _, first := range []int{0, 7, 4813} {
		selected := map[string]int{}
		for number := first; number < first+Count; number++ {
			t.Setenv("SHARD", strconv.Itoa(number%Count))
			here := 0
			for _, name := range names() {
				if Selected(name) {
					selected[name]++
					here++
				}
			}
			if here < len(names())/Count/2 {
				t.Errorf("shard %d has %d of %d cases", number%Count, here, len(names()))
			}
		}
		for _, name := range names() {
			if selected[name] != 1 {
				t.Errorf("from number %d on, %q was selected %d times", first, name, selected[name])
			}
		}
	}
}

// TestStable: the shard of a name never changes, because two runs that know different shards would not complete each other.
func TestStable(t *testing.T) {
	for name, want := range map[string]int{"": 1, "a": 0, "foobar": 0} { // 2166136261, 3826002220 and 3214735720, by the authors of the hash
		if got := Of(name); got != want {
			t.Errorf("Of(%q) is %d, want %d", name, got, want)
		}
	}
}

func TestSelectedWithoutShard(t *testing.T) {
	for _, value := range []string{"", "all"} {
		t.Setenv("SHARD", value)
		for _, name := range names() {
			if !Selected(name) {
				t.Errorf("SHARD=%q does not select %q", value, name)
			}
		}
	}
}

func TestSelectedInvalid(t *testing.T) {
	for _, value := range []string{"10", "-1", "1.0", "01", "+1", " 1", "one", "ALL", "1,2"} {
		t.Run(value, func(t *testing.T) {
			t.Setenv("SHARD", value)
			defer func() {
				if recover() == nil {
					t.Errorf("SHARD=%q is accepted", value)
				}
			}()
			Selected("case")
		})
	}
}
