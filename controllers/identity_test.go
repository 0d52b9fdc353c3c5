package controllers

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func drawPrecedence(t *rapid.T, name string) precedence {
	flag := func(what string) bool { return rapid.Bool().Draw(t, name+what) }
	return precedence{
		booted: flag("booted"), accepted: flag("accepted"), created: rapid.Int64Range(0, 3).Draw(t, name+"created"),
		host: types.NamespacedName{Namespace: "dc", Name: name},
	}
}

// TestPropertyOneKeeper: of any hosts with one identity exactly one keeps it, in any order of comparison.
func TestPropertyOneKeeper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []precedence
		for _, name := range []string{"a", "b", "c", "d"} {
			all = append(all, drawPrecedence(t, name))
		}
		var keepers []string
		for _, s := range all {
			if !slices.ContainsFunc(all, func(o precedence) bool { return o.compare(s) < 0 }) {
				keepers = append(keepers, s.host.Name)
			}
		}
		if len(keepers) != 1 {
			t.Fatalf("%v keep it: %+v", keepers, all)
		}
	})
}

// TestPrecedence: which of two hosts keeps a value that both have.
func TestPrecedence(t *testing.T) {
	for name, c := range map[string]struct{ keeps, loses precedence }{
		"the one that was booted with it, after a move": {precedence{booted: true, created: 9}, precedence{accepted: true, created: 1}},
		"the one that had it":                           {precedence{accepted: true, created: 9}, precedence{created: 1}},
		"the older one":                                 {precedence{created: 1}, precedence{created: 9}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(c.keeps.compare(c.loses)).To(BeNumerically("<", 0))
			g.Expect(c.loses.compare(c.keeps)).To(BeNumerically(">", 0))
		})
	}
}
