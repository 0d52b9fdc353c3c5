package fat16_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16/fat16test"
)

// TestRoundTrip: a reader that was written from the specification gets every file back, and the same input gives the same bytes. fsck.vfat and mtools read the
// file systems in hack/seedcheck.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		sector := rapid.SampledFrom([]int{512, 4096}).Draw(t, "sector size")
		want := map[string]string{}
		var files []fat16.File
		for i := range rapid.IntRange(0, 12).Draw(t, "files") {
			path := rapid.StringMatching(`([a-z]{1,12}/){0,2}`).Draw(t, "folder") + fmt.Sprintf("%s%d", rapid.StringMatching(`[a-zA-Z._-]{0,40}`).Draw(t, "name"), i)
			content := bytes.Repeat([]byte{0, 0xff, byte(i), 7, 0}, 3000)[:rapid.IntRange(0, 3*4096).Draw(t, "size")]
			files, want[path] = append(files, fat16.File{Path: path, Content: content}), string(content)
		}
		o := fat16.Options{Label: "CIDATA", Serial: rapid.Uint32().Draw(t, "serial"), SectorSize: sector}
		image, err := fat16.Render(o, files)
		g.Expect(err).NotTo(HaveOccurred())
		again, err := fat16.Render(o, files)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(image, again)).To(BeTrue())
		g.Expect(len(image)%sector).To(BeZero(), "whole sectors")
		g.Expect(bytes.Trim(image[len(image)-sector:], "\x00")).NotTo(BeEmpty(), "no zeros at the end")
		volume, err := fat16test.Read(image)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(volume.Label).To(Equal("CIDATA"))
		g.Expect(volume.Size).To(Equal(fat16.Size))
		got := map[string]string{}
		for path, content := range volume.Files {
			got[path] = string(content)
		}
		g.Expect(got).To(Equal(want))
	})
}

func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		label  string
		sector int
		files  []fat16.File
		want   string
	}{
		"sector size":        {"A", 520, nil, "a sector size of 520 bytes"},
		"no label":           {"", 512, nil, "must have 1 to 11 characters"},
		"long label":         {"ABCDEFGHIJKL", 512, nil, "must have 1 to 11 characters"},
		"small letters":      {"cidata", 512, nil, "only capital letters"},
		"empty name":         {"A", 512, []fat16.File{{Path: "a//b"}}, "is not valid"},
		"dots":               {"A", 512, []fat16.File{{Path: "../b"}}, "is not valid"},
		"a dot at the end":   {"A", 512, []fat16.File{{Path: "b."}}, "ends in a dot"},
		"long name":          {"A", 512, []fat16.File{{Path: strings.Repeat("a", 65)}}, "is not valid"},
		"other characters":   {"A", 512, []fat16.File{{Path: "é"}}, "does not allow"},
		"a colon":            {"A", 512, []fat16.File{{Path: "a:b"}}, "does not allow"},
		"twice":              {"A", 512, []fat16.File{{Path: "a"}, {Path: "A"}}, "another file has this name"},
		"file and folder":    {"A", 512, []fat16.File{{Path: "a"}, {Path: "a/b"}}, "another file has this name"},
		"too large":          {"A", 512, []fat16.File{{Path: "a", Content: make([]byte, fat16.MaxContent)}, {Path: "b", Content: []byte{1}}}, "more than 8388608 bytes"},
		"too many in root":   {"A", 512, many("%d", 300), "too many files in the root"},
		"too many in folder": {"A", 512, many("a/%d", 100), `too many files in the directory "a"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fat16.Render(fat16.Options{Label: c.label, SectorSize: c.sector}, c.files)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

func TestLargest(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		_, err := fat16.Render(fat16.Options{Label: "A", SectorSize: sector}, []fat16.File{{Path: "a", Content: make([]byte, fat16.MaxContent)}})
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
	}
}

func many(format string, count int) []fat16.File {
	var out []fat16.File
	for i := range count {
		out = append(out, fat16.File{Path: fmt.Sprintf(format, i)})
	}
	return out
}
