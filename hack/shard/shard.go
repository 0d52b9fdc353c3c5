// Package shard divides the cases of long suites into ten shards, of which one run takes one.
//
// A case belongs to a shard by its name alone. So ten consecutive shards run every case once, and a new case moves no other.
package shard

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
)

// Count is the number of shards.
const Count = 10

// variable is the environment variable that selects the shard: a number from 0 to 9. Without it, or with "all", every case is selected.
const variable = "SHARD"

// Of returns the shard of the case with this name, from 0 to Count-1.
func Of(name string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // a hash never returns an error
	return int(h.Sum32() % Count)
}

// Selected reports whether this run has the case with this name. It panics if SHARD is invalid: a run that selects nothing would pass.
func Selected(name string) bool {
	value := os.Getenv(variable)
	if value == "" || value == "all" {
		return true
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n >= Count || value != strconv.Itoa(n) {
		panic(fmt.Sprintf(`%s is %q: set it to a number from 0 to %d, or to "all"`, variable, value, Count-1))
	}
	return Of(name) == n
}
