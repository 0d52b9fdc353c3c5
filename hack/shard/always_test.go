package shard

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestAlways(t *testing.T) {
	file := filepath.Join(t.TempDir(), "always.txt")
	write := func(content string) {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# a comment\n\ncase 1\ta second power cycle\ncase 2\ttwo claims\n")
	list, err := ReadAlways(file)
	if err != nil {
		t.Fatal(err)
	}
	for number := range Count {
		t.Setenv("SHARD", string(rune('0'+number)))
		for _, name := range []string{"case 1", "case 2"} {
			if !list.Selected(name) {
				t.Errorf("shard %d does not have %s", number, name)
			}
		}
		if list.Selected("case 3") != (Of("case 3") == number) {
			t.Errorf("shard %d: case 3 is not on the list", number)
		}
	}
	if unknown := list.Unknown([]string{"case 1"}); !slices.Equal(unknown, []string{"case 2"}) {
		t.Errorf("unknown are %v", unknown)
	}
	write("case 1\n")
	if _, err := ReadAlways(file); err == nil {
		t.Error("a case without a reason is accepted")
	}
}
