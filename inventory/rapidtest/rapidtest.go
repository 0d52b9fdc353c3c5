// Package rapidtest makes the properties of this project draw the same values for the same tree. A test that uses rapid imports it for its effect.
package rapidtest

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	_ "pgregory.net/rapid" // has the flags
)

// variable is the environment variable with the seed, a number. make sets it to the hash of the tree, so each change draws other values and a failure is
// reproducible. The default is 1.
const variable = "SEED"

// It sets defaults before the flags are parsed, so the flags -rapid.seed and -rapid.nofailfile still count.
func init() { //nolint:gochecknoinits // a flag has no other place for a default that a package of tests shares
	for name, value := range map[string]string{
		"rapid.seed":       cmp.Or(os.Getenv(variable), "1"),
		"rapid.nofailfile": "true", // the seed reproduces it, and mutants fail often
	} {
		if err := flag.Set(name, value); err != nil {
			panic(fmt.Sprintf("rapidtest: %s=%s: %v", variable, value, err))
		}
	}
}
