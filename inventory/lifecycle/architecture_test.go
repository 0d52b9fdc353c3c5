package lifecycle

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture compares ARCHITECTURE.md with the code: it lists the table in its order, draws every state, and draws no transition that is impossible.
func TestArchitecture(t *testing.T) {
	page, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## The life of a host")
	section, _, _ = strings.Cut(section, "\n## ")

	var order []string
	for _, line := range table {
		order = append(order, string(line.state))
	}
	listed := strings.Join(strings.Fields(regexp.MustCompile(` \([^)]*\)`).ReplaceAllString(section, "")), " ")
	if want := strings.Join(order, ", "); !strings.Contains(listed, want) {
		t.Errorf("ARCHITECTURE.md does not list the states in the order of the table: %s", want)
	}
	var corrections []string
	for _, g := range guards {
		corrections = append(corrections, g.name)
	}
	if want := strings.Join(corrections, "; "); !strings.Contains(strings.Join(strings.Fields(section), " "), want) {
		t.Errorf("ARCHITECTURE.md does not list the guards in their order: %s", want)
	}

	_, drawing, _ := strings.Cut(section, "```mermaid")
	drawing, _, _ = strings.Cut(drawing, "```")
	drawn := strings.Fields(drawing)
	for _, state := range states() {
		if !slices.Contains(drawn, string(state)) {
			t.Errorf("The drawing in ARCHITECTURE.md has no state %s", state)
		}
	}
	for _, arrow := range regexp.MustCompile(`(\w+) --> (\w+)`).FindAllStringSubmatch(drawing, -1) {
		from, to := State(arrow[1]), State(arrow[2])
		if next, isState := possible[from]; isState && slices.Contains(states(), to) && !slices.Contains(next, to) {
			t.Errorf("The drawing in ARCHITECTURE.md has %s -> %s, which is impossible", from, to)
		}
	}
}
