package main

import (
	"os"
	"regexp"
	"strings"
)

// rerun is the start of a line with which a test names the command that reruns it, where -run cannot select it.
const rerun = "rerun: "

// kept are the environment variables on which the choice of cases depends.
var kept = []string{"SHARD", "SEED", "E2E"}

// dropped are arguments of a run that do not belong to the command of one test: patterns of tests, and packages.
var dropped = regexp.MustCompile(`^(-run|-skip|-parallel|-p)(=.*)?$`)

// command returns the command that reruns a test alone, or a whole package that failed without a test.
func (r *run) command(t *test) string {
	var words []string
	for _, name := range kept {
		if value := os.Getenv(name); value != "" {
			words = append(words, name+"="+quote(value))
		}
	}
	for _, n := range t.notes {
		if own, ok := strings.CutPrefix(n, rerun); ok {
			return strings.Join(append(words, own), " ")
		}
	}
	words = append(append(words, "go", "test", "-count=1"), r.flags()...)
	words = append(words, short(t.pkg))
	if t.name != "" {
		parts := strings.Split(t.name, "/")
		for i, p := range parts {
			parts[i] = "^" + regexp.QuoteMeta(p) + "$"
		}
		words = append(words, "-run", quote(strings.Join(parts, "/")))
	}
	return strings.Join(words, " ")
}

// flags returns the flags of the run that matter for one test, such as -race.
func (r *run) flags() []string {
	var flags []string
	words := strings.Fields(r.args)
	for i := 0; i < len(words); i++ {
		switch word := words[i]; {
		case dropped.MatchString(word):
			if !strings.Contains(word, "=") {
				i++ // its value
			}
		case word == "-timeout" && i+1 < len(words):
			flags = append(flags, word, words[i+1])
			i++
		case strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "-count"):
			flags = append(flags, word)
		}
	}
	return flags
}

// quote makes a word of a text for a shell.
func quote(text string) string {
	if !strings.ContainsAny(text, " ^$*()[]{}|&;<>\\\"'`?!~#") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
