package usertemplate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

type data struct {
	Name   string
	Port   int
	List   []string
	Values map[string]string
	Labels map[string]string
	Inner  struct{ Deep string }
}

var language = Language{
	Name: "test template", Left: "<%", Right: "%>", TextFunctions: true, Ranges: []string{".List", ".Labels"}, MaxTemplate: 4 << 10, MaxResult: 8 << 10,
	MaxRange: 10, MaxWork: 2000, MaxTime: time.Minute,
}

func sample() data { return data{Values: map[string]string{"token": ""}} }

func full() data {
	d := sample()
	d.Name, d.Port, d.List = "n", 6443, []string{"a", "b"}
	d.Values["token"], d.Labels = "it's \"secret\"\nof two lines", map[string]string{"x": "y", "a/b": "c"}
	return d
}

func render(text string) (string, error) {
	t, err := language.Parse(text, sample())
	if err != nil {
		return "", err
	}
	out, err := t.Render(full())
	return string(out), err
}

func TestRender(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"{{ ds.meta_data.provider_id }} ${VAR} [[ -n x ]] <<EOF":   "{{ ds.meta_data.provider_id }} ${VAR} [[ -n x ]] <<EOF",
		"<% .Name %>:<% .Port %>":                                  "n:6443",
		"<% quote .Values.token %>":                                `"it's \"secret\"\nof two lines"`,
		"<% shellQuote .Values.token %>":                           "'it'\\''s \"secret\"\nof two lines'",
		"x:\n  <% .Values.token | indent 2 %>":                     "x:\n  it's \"secret\"\n  of two lines",
		"<% base64 .Name %>":                                       "bg==",
		"<% range .List %><% . %>,<% end %>":                       "a,b,",
		"<% range $k, $v := .Labels %><% $k %>=<% $v %> <% end %>": "a/b=c x=y ",
		`<% index .Labels "a/b" %><% index .Labels "none" %>`:      "c",
		"<% with .Name %><% . %><% $.Port %><% else %>no<% end %>": "n6443",
		`<% if and (eq .Name "n") (not .Inner.Deep) %>y<% end %>`:  "y",
		"a\n<%- /* a comment */ -%>\nb":                            "ab",
		"":                                                         "",
	} {
		out, err := render(text)
		g.Expect(err).NotTo(HaveOccurred(), "%s", text)
		g.Expect(out).To(Equal(want), "%s", text)
	}
}

func TestRefused(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"x\n<% .Name\n":                                         "unclosed action started at line:2",
		"<% .Naming %>":                                         ".Naming does not exist: . has Name, Port, List, Values, Labels, Inner",
		"<% .Values.tokn %>":                                    ".Values.tokn does not exist: .Values has token",
		"<% if .Port %><% .Values.a %><% end %>":                ".Values.a does not exist",
		"<% range .List %><% $.Values.a %><% end %>":            ".Values.a does not exist",
		"<% range .List %><% else %><% .Values.a %><% end %>":   ".Values.a does not exist",
		"<% .Name.First %>":                                     ".Name.First does not exist: .Name has no fields",
		"<% .Inner.Shallow %>":                                  ".Inner.Shallow does not exist: .Inner has Deep",
		"<% printf \"%1000000d\" 1 %>":                          "the function printf is not available: only and, base64, eq, indent, index, len, ne, not, or, quote, shellQuote are",
		"<% .Name | js %>":                                      "the function js is not available",
		"<% if (print 1) %><% end %>":                           "the function print is not available",
		"<% nope %>":                                            `function "nope" not defined`,
		"<% range .Values %><% end %>":                          "a template may range over .List, .Labels only, and ranges cannot be nested",
		"<% range 1000000000 %><% end %>":                       "a template may range over .List, .Labels only",
		"<% range .List %><% range $.List %><% end %><% end %>": "ranges cannot be nested",
		"<% define \"a\" %><% end %>":                           "it must not define other templates",
		"<% template \"a\" %>":                                  "a template cannot contain",
		"<% (index .List 0).X %>":                               "a template cannot contain",
		"<% index .List 2 %>":                                   "index out of range",
		"<% .Labels.none %>":                                    `map has no entry for key "none"`,
		"<% indent 65 .Name %>":                                 "the number of spaces must be from 0 to 64",
		strings.Repeat("x", 4097):                               "it has 4097 bytes, and may have 4096",
	} {
		_, err := render(text)
		g.Expect(err).To(MatchError(And(HavePrefix("test template: "), ContainSubstring(want))), "%s", text)
		g.Expect(err.Error()).NotTo(ContainSubstring("secret"), "no value is in an error")
	}
}

// TestNoValueInErrors: an error has no value of the data, also where text/template writes one, nor the text of a private template.
func TestNoValueInErrors(t *testing.T) {
	g := NewWithT(t)
	private := language
	private.Private = true
	for text, want := range map[string]string{
		"\n<% index .List (len .Values.token) %>":  "test template: line 2: index out of range",
		"<% index .List .Values.token %>":          "test template: line 1: it cannot be evaluated",
		"<% if eq .Port .Values.token %><% end %>": "test template: line 1: incompatible types for comparison",
		"<% index .Labels .Port %>":                "test template: line 1: it cannot be evaluated",
		"<% quote .Port %>":                        "test template: line 1: wrong type for value; expected string; got int",
	} {
		parsed, err := language.Parse(text, sample())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Render(full())
		g.Expect(err).To(MatchError(want))
		parsed, err = private.Parse(text, sample())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Render(full())
		g.Expect(err).To(MatchError(HaveSuffix(": it cannot be evaluated")))
	}
}

// TestTooLarge: neither the result nor what the functions produce exceeds its bound, however the template multiplies.
func TestTooLarge(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{
		"<% range .List %>" + strings.Repeat("<% $.Values.token %>", 150) + "<% end %>" + strings.Repeat("<% .Values.token %>", 40),
		"<% $x := base64 .Values.token" + strings.Repeat(" | base64", 60) + " %>",
		strings.Repeat("<% $x := .Values.token | indent 64 %>", 100),
		"<% $x := .Values.token" + strings.Repeat(" | indent 64 | quote", 100) + " %>",
	} {
		d := full()
		d.Values["token"] = strings.Repeat("\n", 64)
		parsed, err := language.Parse(text, sample())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Render(d)
		g.Expect(errors.Is(err, ErrResultTooLarge)).To(BeTrue(), "%.40s: %v", text, err)
	}
}

// TestWork: a template is refused before it does more than it may, by the elements of what it ranges over and by what it does with each, also without output.
func TestWork(t *testing.T) {
	labels := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[strconv.Itoa(i)] = ""
		}
		return all
	}
	body := func(actions int) string {
		return "<% range $k, $v := $.Labels %>" + strings.Repeat("<% if $v %><% end %>", actions) + "<% end %>"
	}
	for name, c := range map[string]struct {
		text   string
		labels int
		want   string // in the error; empty for none
	}{
		"few":                      {body(10), 10, ""},
		"many labels":              {body(1), 11, "ranges over .Labels, which has 11 elements, and may range over 10"},
		"many actions":             {body(80), 10, "steps, and may take 2000"},
		"many actions, few labels": {body(80), 4, ""},
		"in two ranges":            {body(40) + body(40), 10, "steps, and may take 2000"},
		"in else":                  {"<% range .List %><% else %>" + strings.Repeat("<% if .Port %><% end %>", 150) + "<% end %>", 0, ""},
		"in if, in range":          {"<% if .Name %><% with .Name %>" + body(80) + "<% end %><% end %>", 10, "steps"},
		"no data":                  {"<% range .List %>x<% end %>", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := full()
			d.Labels = labels(c.labels)
			parsed, err := language.Parse(c.text, sample())
			g.Expect(err).NotTo(HaveOccurred())
			_, err = parsed.Render(d)
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

// TestParseIsBounded: a template that only dry runs see costs no more than one that is rendered.
func TestParseIsBounded(t *testing.T) {
	g := NewWithT(t)
	l := language
	l.MaxTemplate = 64 << 10
	calls := func(n int) string { return "<% " + strings.Repeat("len ", n) + "%>" }
	_, err := l.Parse(calls(2000), sample())
	g.Expect(err).To(MatchError(MatchRegexp("it takes 20[0-9]+ steps, and may take 2000")))
	_, err = l.Parse("<% range .List %>"+strings.Repeat("<% if .Port %><% end %>", 700)+"<% end %>", sample())
	g.Expect(err).To(MatchError(ContainSubstring("steps, and may take 2000")))
	allocations := func(n int) float64 {
		return testing.AllocsPerRun(10, func() { _, _ = l.Parse(calls(n), sample()) })
	}
	g.Expect(allocations(1000)-allocations(500)).To(BeNumerically("<", 500*8), "for each identifier the parser has two, and the names of all functions thirty")
}

// TestCompare: eq and ne are those of text/template, and compare only so many bytes.
func TestCompare(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		`<% eq .Name "n" %><% eq .Name "m" "n" %><% eq .Name "m" %>`: "truetruefalse",
		`<% ne .Name "m" %><% eq .Port 6443 %><% ne .Port 1 %>`:      "truetruetrue",
		`<% eq (len .List) 2 %><% eq true (not false) %>`:            "truetrue",
	} {
		out, err := render(text)
		g.Expect(err).NotTo(HaveOccurred(), text)
		g.Expect(out).To(Equal(want), text)
	}
	for _, text := range []string{`<% eq .Name 1 %>`, `<% eq .List .List %>`, `<% eq .Port "1" %>`} {
		_, err := render(text)
		g.Expect(err).To(MatchError(ContainSubstring("incompatible types")), text)
	}
	d := full()
	d.Values["token"] = strings.Repeat("x", 1<<20)
	d.Values["other"] = strings.Repeat("x", 1<<20-1) + "y"
	for _, text := range []string{"<% $a := eq $.Values.token" + strings.Repeat(" $.Values.other", 65) + " %>", strings.Repeat("<% $a := ne $.Values.token $.Values.other %>", 65)} {
		parsed, err := language.Parse(text, nil)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Render(d)
		g.Expect(err).To(MatchError(ErrTooSlow))
	}
}

// TestTooSlow: a template ends at its deadline, at its next output or function.
func TestTooSlow(t *testing.T) {
	for _, text := range []string{"x", "<% $x := quote .Name %>"} {
		late := language
		late.MaxTime = -time.Second
		parsed, err := late.Parse(text, sample())
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		_, err = parsed.Render(full())
		NewWithT(t).Expect(err).To(MatchError(ErrTooSlow), text)
	}
}

// TestQuoteForCloudInit: neither Jinja nor PyYAML finds a special character in a quoted text.
func TestQuoteForCloudInit(t *testing.T) {
	for text, want := range map[string]string{
		"{{ a }}":                        `"\u007b{ a }}"`,
		"{% a %}{# b #}":                 `"\u007b% a %}\u007b# b #}"`,
		"{{{%":                           `"\u007b\u007b\u007b%"`,
		"{a} {":                          `"{a} {"`,
		`\{{`:                            `"\\\u007b{"`,
		"\u007f\u0085\u009f\ufeff\uffff": `"\u007f\u0085\u009f\ufeff\uffff"`,
		"\u00a0é🔑\ufffd":                 "\"\u00a0é🔑\ufffd\"",
	} {
		g := NewWithT(t)
		g.Expect(quote(text)).To(Equal(want))
		var read string
		g.Expect(json.Unmarshal([]byte(want), &read)).To(Succeed())
		g.Expect(read).To(Equal(text))
	}
}

// TestPropertyQuoted: a quoted text is read back as it was, by JSON, YAML and a shell.
func TestPropertyQuoted(t *testing.T) {
	parsed := func(text string) *Template {
		p, err := language.Parse(text, nil)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return p
	}
	quote, shell, encoded := parsed("<% quote .Name %>"), parsed("<% shellQuote .Name %>"), parsed("<% base64 .Name %>")
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		text := rapid.StringMatching(`[ -~\n\t'"äñ€\\$]{0,40}`).Draw(t, "text")
		render := func(p *Template) []byte {
			out, err := p.Render(data{Name: text})
			g.Expect(err).NotTo(HaveOccurred())
			return out
		}
		var read string
		g.Expect(json.Unmarshal(render(quote), &read)).To(Succeed())
		g.Expect(read).To(Equal(text))
		var value struct{ V string }
		g.Expect(yaml.Unmarshal(append([]byte("v: "), render(quote)...), &value)).To(Succeed())
		g.Expect(value.V).To(Equal(text))
		out, err := exec.Command("/bin/sh", "-c", "printf %s "+string(render(shell))).Output() //nolint:noctx // ends at once
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(out)).To(Equal(text))
		decoded, err := base64.StdEncoding.DecodeString(string(render(encoded)))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(decoded)).To(Equal(text))
	})
}

// FuzzRender: every template ends, within its bounds, and no error has a value.
func FuzzRender(f *testing.F) {
	f.Add("<% range $k, $v := .Labels %><% $k | quote | indent 3 %><% end %>")
	f.Add("<% with .Values %><% .token | base64 %><% else %><% index $.List 1 %><% end %>")
	f.Add("<% if eq .Name .Values.token %><% len .Labels %><% end %>")
	f.Fuzz(func(t *testing.T, text string) {
		d := full()
		d.Values["token"] = "EveryoneMustNotSeeThis"
		parsed, err := language.Parse(text, sample())
		if err != nil {
			return
		}
		out, err := parsed.Render(d)
		if err != nil && strings.Contains(err.Error(), d.Values["token"]) && !strings.Contains(text, d.Values["token"]) {
			t.Fatalf("a value is in the error: %v", err)
		}
		if len(out) > language.MaxResult {
			t.Fatalf("%d bytes", len(out))
		}
	})
}
