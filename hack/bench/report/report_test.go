package report

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var update = flag.Bool("update", false, "write the golden files")

func TestQuantilesOf(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for name, c := range map[string]struct {
		times []float64
		want  Quantiles
	}{
		"none":    {nil, Quantiles{}},
		"one":     {[]float64{3}, Quantiles{Count: 1, P50: 3, P99: 3, Max: 3}},
		"two":     {[]float64{2, 1}, Quantiles{Count: 2, P50: 2, P99: 2, Max: 2}},
		"three":   {[]float64{3, 1, 2}, Quantiles{Count: 3, P50: 2, P99: 3, Max: 3}},
		"equal":   {[]float64{1, 1, 1, 1}, Quantiles{Count: 4, P50: 1, P99: 1, Max: 1}},
		"hundred": {hundred, Quantiles{Count: 100, P50: 51, P99: 100, Max: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(QuantilesOf(c.times)).To(Equal(c.want))
		})
	}
}

// TestQuantilesProperty: a quantile is one of the times. At least its share of the times is not above it, and the others are not below it.
func TestQuantilesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 300).Draw(t, "count") // rapid's own lists are short, and the 99th percentile of a short list is its maximum
		times := rapid.SliceOfN(rapid.Float64Range(0, 100), count, count).Draw(t, "times")
		given := slices.Clone(times)
		q := QuantilesOf(times)
		if !slices.Equal(times, given) {
			t.Fatal("it changed what it was given")
		}
		if q.Count != len(times) || q.Max != slices.Max(times) || q.P50 > q.P99 || q.P99 > q.Max {
			t.Fatalf("%+v", q)
		}
		n := float64(len(times))
		for part, value := range map[float64]float64{0.5: q.P50, 0.99: q.P99} {
			notAbove, notBelow := 0, 0
			for _, other := range times {
				if other <= value {
					notAbove++
				}
				if other >= value {
					notBelow++
				}
			}
			if !slices.Contains(times, value) || float64(notAbove) < part*n || float64(notBelow) < math.Floor((1-part)*n) {
				t.Fatalf("%v of %v is not the quantile %v: %d are not above it, %d not below", value, times, part, notAbove, notBelow)
			}
		}
		slices.Reverse(times)
		if QuantilesOf(times) != q {
			t.Fatal("the order counts")
		}
	})
}

func TestRequested(t *testing.T) {
	g := NewWithT(t)
	p := Phase{Requests: map[string]float64{"GET secrets": 1, "LIST nodes": 2, "WATCH nodes": 4, "PATCH baremetalhosts": 8, "APPLY baremetalhosts/status": 16, "POST leases": 32}}
	g.Expect(p.Requested(All)).To(Equal(63.0))
	g.Expect(p.Requested(Writes)).To(Equal(56.0))
	g.Expect(p.Requested(func(verb, resource string) bool { return verb == "APPLY" && resource == "baremetalhosts/status" })).To(Equal(16.0))
	g.Expect((&Phase{}).Requested(All)).To(BeZero())
}

// small returns two runs of a few phases, which differ in every compared figure.
func small() (before, after *Run) {
	before = &Run{
		Commit: "1111111", Machine: "2 cores, go1.26", Hosts: 500, Boots: 500, Flags: []string{"--boot-concurrency=50"},
		Phases: []Phase{
			{
				Name: "register", Objects: 500, Seconds: 20, CPU: map[string]float64{"manager": 10, "apiserver": 30, "etcd": 8, "fleet": 4},
				Requests: map[string]float64{"GET secrets": 2, "PATCH baremetalhosts": 4, "PATCH baremetalhosts/status": 1, "POST events": 0.001},
				Queues:   map[string]Queue{"baremetalhost": {P50: 0.001, P99: 0.1, Deepest: 40}}, BMCRequests: 12.5, BMCCommands: 1,
				Manager: Footprint{PeakMiB: 120, HeapMiB: 60, Goroutines: 300, Connections: 20},
			},
			{
				Name: "boot", Objects: 500, Seconds: 100, CPU: map[string]float64{"manager": 50}, Requests: map[string]float64{"GET secrets": 3},
				BootRequests: map[string]float64{"DHCP discover": 2, "HTTP script": 1},
			},
			{Name: "restart", Objects: 500, Seconds: 7},
		},
		Reactions: map[string]Quantiles{"Machine created": {Count: 100, P50: 0.2, P99: 1.5, Max: 2}, "host freed": {Count: 20, P50: 1, P99: 2, Max: 2}},
		Facts:     map[string]float64{"etcd bytes per registered host": 12345.6, "idle: API writes a host and minute": 0},
	}
	after = &Run{
		Commit: "2222222", Machine: "2 cores, go1.26", Hosts: 500, Boots: 500,
		Phases: []Phase{
			{
				Name: "register", Objects: 500, Seconds: 15, CPU: map[string]float64{"manager": 5, "apiserver": 33, "etcd": 8},
				Requests: map[string]float64{"GET secrets": 1, "PATCH baremetalhosts": 4.1, "POST events": 0.003, "POST leases": 0.5},
				Manager:  Footprint{PeakMiB: 90, HeapMiB: 60},
			},
			{
				Name: "boot", Objects: 500, Seconds: 100, CPU: map[string]float64{"manager": 50}, Requests: map[string]float64{"GET secrets": 3},
				BootRequests: map[string]float64{"DHCP discover": 4, "HTTP script": 1},
			},
			{Name: "release", Objects: 500, Seconds: 9},
		},
		Reactions: map[string]Quantiles{"Machine created": {Count: 100, P50: 0.1, P99: 3, Max: 4}, "BareMetalHost created": {Count: 500, P50: 5, P99: 6, Max: 7}},
		Facts:     map[string]float64{"etcd bytes per registered host": 10000, "idle: API writes a host and minute": 0.5},
	}
	return before, after
}

func TestCompare(t *testing.T) {
	for name, change := range map[string]func(after *Run) *Run{
		"compare.txt": func(after *Run) *Run { return after },
		"sizes.txt": func(after *Run) *Run {
			after.Hosts, after.Boots, after.Phases[0].Objects = 2000, 1000, 2000
			return after
		},
		"nothing.txt": func(*Run) *Run { return &Run{} },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before, after := small()
			var got bytes.Buffer
			g.Expect(Compare(&got, before, change(after))).To(Succeed())
			checkGolden(t, name, got.Bytes())
		})
	}
}

// TestCompareSame: a run does not differ from itself.
func TestCompareSame(t *testing.T) {
	before, _ := small()
	var got bytes.Buffer
	NewWithT(t).Expect(Compare(&got, before, before)).To(Succeed())
	checkGolden(t, "same.txt", got.Bytes())
}

func TestPrint(t *testing.T) {
	before, _ := small()
	var got bytes.Buffer
	NewWithT(t).Expect(before.Print(&got)).To(Succeed())
	checkGolden(t, "print.txt", got.Bytes())
}

func checkGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(path, got, 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).To(Equal(string(want)), "go test ./hack/bench/report -update writes it again")
}

// TestFile: Read returns what Write wrote.
func TestFile(t *testing.T) {
	g := NewWithT(t)
	before, _ := small()
	path := filepath.Join(t.TempDir(), "run.json")
	g.Expect(before.Write(path)).To(Succeed())
	got, err := Read(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(before))
}

// TestWrongFile: an error names the file that is wrong.
func TestWrongFile(t *testing.T) {
	for name, content := range map[string]string{"empty.json": "", "cut.json": `{"Hosts": 5`, "list.json": "[]", "type.json": `{"Hosts": "five"}`} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), name)
			g.Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
			_, err := Read(path)
			g.Expect(err).To(MatchError(ContainSubstring(path)))
		})
	}
	g := NewWithT(t)
	absent := filepath.Join(t.TempDir(), "absent.json")
	_, err := Read(absent)
	g.Expect(err).To(MatchError(ContainSubstring(absent)))
	g.Expect((&Run{}).Write(filepath.Join(absent, "run.json"))).To(MatchError(ContainSubstring(absent)))
}
