package rules

import (
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// classes returns the names of the files with ClusterClasses in the repository.
func (s *suite) classes(t *testing.T) []string {
	t.Helper()
	classes := s.files(t, "clusterclass-")
	NewWithT(t).Expect(classes).NotTo(BeEmpty(), "the repository has no ClusterClass")
	return classes
}

func (s *suite) classNames(t *testing.T) {
	g := NewWithT(t)
	guide := s.readFile(t, filepath.Join(s.lab.Root, "docs", "guides", "clusterclass.md"))
	for _, file := range s.classes(t) {
		var class string
		for _, o := range decode(t, s.readFile(t, filepath.Join(s.repository(), file))) {
			if o.GetKind() == "ClusterClass" {
				g.Expect(class).To(BeEmpty(), "%s has two ClusterClasses", file)
				class = o.GetName()
			}
		}
		g.Expect(file).To(Equal("clusterclass-"+class+".yaml"), "clusterctl finds the file by the name of the class")
		g.Expect(guide).To(ContainSubstring("`"+class+"`"), "the guide does not name the class")
	}
}

func (s *suite) classNamespace(t *testing.T) {
	g := NewWithT(t)
	shared := map[string]string{}
	for _, file := range s.classes(t) {
		for _, o := range decode(t, s.readFile(t, filepath.Join(s.repository(), file))) {
			what := o.GetKind() + "/" + o.GetName()
			g.Expect(o.GetNamespace()).To(BeEmpty(), what)
			g.Expect(shared).NotTo(HaveKey(what), "two files of ClusterClasses share an object")
			shared[what] = file
			g.Expect(namespacesIn(o.Object)).To(BeEmpty(), "%s: references must not name a namespace", what)
		}
	}
}

// namespacesIn returns the values of the fields named namespace of references.
func namespacesIn(value any) []any {
	var out []any
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			out = append(out, namespacesIn(item)...)
		}
	case map[string]any:
		if v["kind"] != nil && v["name"] != nil && v["namespace"] != nil {
			out = append(out, v["namespace"])
		}
		for _, item := range v {
			out = append(out, namespacesIn(item)...)
		}
	}
	return out
}

func (s *suite) classVariables(t *testing.T) {
	for _, file := range s.classes(t) {
		NewWithT(t).Expect(variable.FindAllString(s.readFile(t, filepath.Join(s.repository(), file)), -1)).To(BeEmpty(),
			"%s: a ClusterClass has variables of its own", file)
	}
}
