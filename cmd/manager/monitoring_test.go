package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// monitoring returns the path of a file of config/monitoring.
func monitoring(name string) string {
	return filepath.Join(controllerstest.Root(), "config", "monitoring", name)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// rules is a rule file.
type rules struct {
	Groups []struct {
		Name  string `json:"name"`
		Rules []struct {
			Alert       string            `json:"alert,omitempty"`
			Record      string            `json:"record,omitempty"`
			Expr        string            `json:"expr"`
			For         string            `json:"for,omitempty"`
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"rules"`
	} `json:"groups"`
}

func readRules(t *testing.T) rules {
	t.Helper()
	var r rules
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(read(t, monitoring("rules.yaml"))), &r)).To(Succeed())
	return r
}

// queries returns every query of the rules and of the dashboard, by its place.
func queries(t *testing.T) map[string]string {
	t.Helper()
	g := NewWithT(t)
	all := map[string]string{}
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			all["alert "+rule.Alert] = rule.Expr
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				RefID string `json:"refId"`
				Expr  string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
		Templating struct {
			List []struct {
				Query any `json:"query"`
			} `json:"list"`
		} `json:"templating"`
	}
	g.Expect(json.Unmarshal([]byte(read(t, monitoring("dashboard.json"))), &dashboard)).To(Succeed())
	panels := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all["panel "+p.Title+" "+target.RefID] = target.Expr
			panels++
		}
	}
	g.Expect(panels).To(BeNumerically(">", 20))
	return all
}

// promtool runs Prometheus' program that checks rules.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	program := filepath.Join(".cache", "prometheus", "promtool")
	controllerstest.NeedFile(t, "make monitoring", program)
	out, err := exec.CommandContext(t.Context(), filepath.Join(controllerstest.Root(), program), args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "promtool %s:\n%s", strings.Join(args, " "), out)
}

// TestRules: promtool accepts the rules. Every alert fires in one test and is silent in another, and has a line in docs/reference/metrics.md. The PrometheusRule
// has the same rules.
func TestRules(t *testing.T) {
	g := NewWithT(t)
	promtool(t, "check", "rules", monitoring("rules.yaml"))
	promtool(t, "test", "rules", monitoring("rules.test.yaml"))

	var tests struct {
		Tests []struct {
			PromQL []struct {
				Expr    string `json:"expr"`
				Samples []struct {
					Labels string `json:"labels"`
				} `json:"exp_samples"`
			} `json:"promql_expr_test"`
		} `json:"tests"`
	}
	g.Expect(yaml.Unmarshal([]byte(read(t, monitoring("rules.test.yaml"))), &tests)).To(Succeed())
	fires, silent := map[string]bool{}, strings.Builder{}
	for _, test := range tests.Tests {
		for _, q := range test.PromQL {
			for _, sample := range q.Samples {
				fires[regexp.MustCompile(`alertname="(\w+)"`).FindStringSubmatch(sample.Labels)[1]] = true
			}
			if len(q.Samples) == 0 {
				silent.WriteString(q.Expr + "\n")
			}
		}
	}
	page := read(t, filepath.Join(controllerstest.Root(), "docs", "reference", "metrics.md"))
	var alerts []string
	for _, group := range readRules(t).Groups {
		for _, rule := range group.Rules {
			alerts = append(alerts, rule.Alert)
			g.Expect(fires).To(HaveKey(rule.Alert), "no test sees it fire")
			g.Expect(silent.String()).To(Or(ContainSubstring(rule.Alert), ContainSubstring(`ALERTS{alertstate="firing"}`)), rule.Alert)
			g.Expect(rule.Labels).To(HaveKeyWithValue("severity", BeElementOf("critical", "warning", "info")), rule.Alert)
			g.Expect(rule.Annotations["summary"]).To(HaveSuffix("."), rule.Alert)
		}
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(Capbm\\w+)` \\| (critical|warning|info) \\| .{20,} \\|$").FindAllStringSubmatch(page, -1) {
		documented = append(documented, row[1])
		for _, group := range readRules(t).Groups {
			for _, rule := range group.Rules {
				if rule.Alert == row[1] {
					g.Expect(row[2]).To(Equal(rule.Labels["severity"]), rule.Alert)
				}
			}
		}
	}
	g.Expect(documented).To(ConsistOf(alerts), "the runbook")

	made := filepath.Join(t.TempDir(), "rule.yaml")
	out, err := exec.CommandContext(t.Context(), filepath.Join(controllerstest.Root(), "hack", "monitoring.sh"), made).CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), "%s", out)
	g.Expect(read(t, made)).To(Equal(read(t, monitoring("prometheusrule.yaml"))), "make generate makes it")
	var wrapped struct {
		Spec rules `json:"spec"`
	}
	g.Expect(yaml.Unmarshal([]byte(read(t, made)), &wrapped)).To(Succeed())
	g.Expect(wrapped.Spec).To(Equal(readRules(t)))
}

// TestDashboardQueries: promtool accepts every query of the dashboard.
func TestDashboardQueries(t *testing.T) {
	g := NewWithT(t)
	type rule struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var all []rule
	for _, query := range queries(t) {
		all = append(all, rule{fmt.Sprintf("query:%d", len(all)), strings.NewReplacer("$__rate_interval", "5m", "$job", ".*").Replace(query)})
	}
	content, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": all}}})
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(t.TempDir(), "queries.yaml")
	g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
	promtool(t, "check", "rules", file)
}

var (
	metricIn = regexp.MustCompile(`\b((?:capbm|controller_runtime|workqueue|rest_client|process|go)_[a-z0-9_]+)\b(\{[^}]*\})?`)
	matchIn  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	groupIn  = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// exposed are the metrics of a process, by the names that queries use.
type exposed map[string][]map[string]string

func parseMetrics(t *testing.T, text string) (exposed, map[string]*dto.MetricFamily) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	all := exposed{}
	for name, family := range families {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetType() != dto.MetricType_HISTOGRAM {
				all[name] = append(all[name], labels)
				continue
			}
			all[name+"_count"], all[name+"_sum"] = append(all[name+"_count"], labels), append(all[name+"_sum"], labels)
			buckets := map[string]string{"le": ""}
			maps.Copy(buckets, labels)
			all[name+"_bucket"] = append(all[name+"_bucket"], buckets)
		}
	}
	return all, families
}

// byScrape are labels that Prometheus adds.
var byScrape = []string{"job", "instance", "namespace", "pod"}

// wrong returns what a query needs and the process does not expose.
func (e exposed) wrong(query string) (problems []string) {
	labels := map[string]bool{}
	used := metricIn.FindAllStringSubmatch(query, -1)
	if len(used) == 0 {
		return []string{"it names no metric"}
	}
	for _, metric := range used {
		series := e[metric[1]]
		if len(series) == 0 {
			problems = append(problems, "there is no metric "+metric[1])
			continue
		}
		for label := range series[0] {
			labels[label] = true
		}
		for _, match := range matchIn.FindAllStringSubmatch(metric[2], -1) {
			label, op, value := match[1], match[2], match[3]
			if slices.Contains(byScrape, label) {
				continue
			}
			if _, ok := series[0][label]; !ok {
				problems = append(problems, metric[1]+" has no label "+label)
				continue
			}
			if strings.HasPrefix(op, "!") {
				op = strings.Replace(op, "!", "=", 1)
				op = strings.Replace(op, "==", "=", 1)
			}
			pattern := regexp.QuoteMeta(value)
			if op == "=~" {
				pattern = value
			}
			whole := regexp.MustCompile("^(?:" + pattern + ")$")
			if !slices.ContainsFunc(series, func(s map[string]string) bool { return whole.MatchString(s[label]) }) {
				problems = append(problems, fmt.Sprintf("no series of %s has a %s like %q", metric[1], label, value))
			}
		}
	}
	for _, group := range groupIn.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(group[1], ",") {
			if label = strings.TrimSpace(label); !labels[label] {
				problems = append(problems, "it groups by "+label+", which no metric of it has")
			}
		}
	}
	return problems
}

// TestWrong checks that the check itself finds errors.
func TestWrong(t *testing.T) {
	g := NewWithT(t)
	e := exposed{"capbm_hosts": {{"phase": "Available"}, {"phase": "Booting"}}}
	for query, problem := range map[string]string{
		`sum by (phase) (capbm_hosts)`:                   "",
		`capbm_hosts{phase=~"Avail.*"} > 0`:              "",
		`capbm_hosts{job=~"$job",phase!="Booting"}`:      "",
		`capbm_host{phase="Available"}`:                  "there is no metric capbm_host",
		`capbm_hosts{state="Available"}`:                 "capbm_hosts has no label state",
		`capbm_hosts{phase="Avail"}`:                     `no series of capbm_hosts has a phase like "Avail"`,
		`capbm_hosts{phase!="Gone"}`:                     `no series of capbm_hosts has a phase like "Gone"`,
		`sum by (reason) (capbm_hosts)`:                  "it groups by reason, which no metric of it has",
		`vector(1)`:                                      "it names no metric",
		`capbm_hosts{phase!~"Book.*"} or capbm_machines`: "there is no metric capbm_machines",
	} {
		if problem == "" {
			g.Expect(e.wrong(query)).To(BeEmpty(), query)
		} else {
			g.Expect(e.wrong(query)).To(ContainElement(problem), query)
		}
	}
}

// TestLife: what a real manager exposes of a host's life, and what it must not.
func TestLife(t *testing.T) {
	l := live(t)
	t.Run("metrics", func(t *testing.T) {
		// The manager counts hosts from its cache, which may be behind the test. It counts a boot stage when it has written it, after the server reported.
		NewWithT(t).Eventually(l.scrape, "30s").Should(And(ContainSubstring(`capbm_hosts{phase="Available"} 1`),
			ContainSubstring(`capbm_boot_stage_duration_seconds_count{stage="ReportedIn"} 1`)))
		all, families := parseMetrics(t, l.scrape())
		for where, query := range queries(t) {
			for _, problem := range all.wrong(query) {
				t.Errorf("%s: %s", where, problem)
			}
		}
		checkMetricDocs(t, families)
		checkCounted(t, all, families)
	})
	t.Run("secrets", func(t *testing.T) { checkSecrets(t, l) })
	t.Run("logs", func(t *testing.T) { checkLogs(t, l) })
}

// checkMetricDocs compares the list of metrics in docs/reference/metrics.md with what is in the source and, where it is shown, with that.
func checkMetricDocs(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	g := NewWithT(t)
	inSource := map[string]bool{}
	for _, folder := range []string{"controllers", "pxe", "bmc", "cmd"} {
		g.Expect(filepath.WalkDir(filepath.Join(controllerstest.Root(), folder), func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, name := range regexp.MustCompile(`"(capbm_[a-z0-9_]+)"`).FindAllStringSubmatch(read(t, path), -1) {
				inSource[name[1]] = true
			}
			return nil
		})).To(Succeed())
	}
	page := read(t, filepath.Join(controllerstest.Root(), "docs", "reference", "metrics.md"))
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(capbm_\\w+)` \\| (gauge|counter|histogram) \\| ((?:`\\w+`(?:, )?)*) ?\\| .+ \\|$").FindAllStringSubmatch(page, -1) {
		name, kind, labels := row[1], row[2], []string{}
		listed[name] = true
		for _, label := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[3], -1) {
			labels = append(labels, label[1])
		}
		family := families[name]
		if family == nil {
			g.Expect(name).To(BeElementOf("capbm_dhcp6_requests_total", "capbm_bootstrap_configs", "capbm_sensor_reading"),
				"it is not shown; of DHCPv6 nothing was asked here, the bootstrap provider is another process, and no flag asks for sensors")
			continue
		}
		g.Expect(strings.ToLower(family.GetType().String())).To(Equal(kind), name)
		shown := []string{}
		for _, l := range family.GetMetric()[0].GetLabel() {
			shown = append(shown, l.GetName())
		}
		g.Expect(labels).To(ConsistOf(shown), name)
	}
	g.Expect(listed).To(Equal(inSource), "docs/reference/metrics.md lists what the source has")
}

// checkCounted checks that the metrics count the life of the one host once.
func checkCounted(t *testing.T, all exposed, families map[string]*dto.MetricFamily) {
	t.Helper()
	g := NewWithT(t)
	value := func(name, label, want string) float64 {
		for _, m := range families[name].GetMetric() {
			if label == "" || slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label && l.GetValue() == want }) {
				switch {
				case m.GetHistogram() != nil:
					return float64(m.GetHistogram().GetSampleCount())
				case m.GetGauge() != nil:
					return m.GetGauge().GetValue()
				default:
					return m.GetCounter().GetValue()
				}
			}
		}
		return -1
	}
	for _, one := range [][3]string{
		{"capbm_hosts", "phase", "Available"}, {"capbm_claims_total", "result", "claimed"}, {"capbm_host_registration_duration_seconds"},
		{"capbm_machine_provisioning_duration_seconds"}, {"capbm_host_release_duration_seconds", "result", "free"}, {"capbm_host_cleaning_duration_seconds"},
		{"capbm_boot_stage_duration_seconds", "stage", "ReportedIn"},
	} {
		g.Expect(value(one[0], one[1], one[2])).To(BeEquivalentTo(1), strings.Join(one[:], " "))
	}
	g.Expect(value("capbm_tokens_refused_total", "purpose", "seed")).To(BeEquivalentTo(3))
	g.Expect(value("capbm_boot_problems_total", "reason", "ArtifactUnavailable")).To(BeNumerically(">=", 1))
	g.Expect(value("capbm_bmc_calls_total", "outcome", "Unauthorized")).To(BeNumerically(">=", 1))
	series := 0
	for name, list := range all {
		if strings.HasPrefix(name, "capbm_") {
			series += len(list)
		}
	}
	g.Expect(series).To(BeNumerically("<", 600), "the labels have few values")
	t.Logf("the provider's metrics have %d series (a histogram's buckets count as one)", series)
}

// checkSecrets searches for planted secrets in all outputs of a life.
func checkSecrets(t *testing.T, l *life) {
	t.Helper()
	g := NewWithT(t)
	var events, objects string
	g.Eventually(func() string {
		events, objects = l.recorded()
		return events
	}, 30*time.Second).Should(And(ContainSubstring("BootNotServed"), ContainSubstring("BMCNotReady"), ContainSubstring(`"Released"`)))
	places := map[string]string{"log": l.log(), "events": events, "hosts": objects, "metrics": l.scrape()}
	for place, has := range map[string]string{"log": "Refused", "events": "CredentialsRefused", "hosts": "lastOperation", "metrics": "capbm_hosts"} {
		g.Expect(places[place]).To(ContainSubstring(has), "%s are looked at", place)
	}
	g.Expect(len(l.secrets)).To(BeNumerically(">=", 12))
	for place, text := range places {
		for what, secret := range l.secrets {
			g.Expect(len(secret)).To(BeNumerically(">", 15), what)
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s in the %s: %q", what, place, text[max(0, at-400):min(len(text), at+len(secret)+100)])
			}
		}
	}
	t.Logf("looked for %d secrets in %d bytes of log, %d of events, %d of hosts, %d of metrics", len(l.secrets), len(places["log"]), len(events), len(objects), len(places["metrics"]))
}

// checkLogs checks that every decision of a life is one line of the log, with the keys of its object.
func checkLogs(t *testing.T, l *life) {
	t.Helper()
	g := NewWithT(t)
	seen, decisions := map[string]int{}, map[string]int{}
	for line := range strings.Lines(l.log()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue // of the race detector, or of a library
		}
		message, _ := entry["msg"].(string)
		if v, ok := entry["v"].(float64); !ok || v > 0 {
			continue
		}
		if decision, ok := entry["action"].(string); ok {
			message += " " + decision
		}
		seen[message]++
		if controller, ok := entry["controller"].(string); ok && strings.HasPrefix(controller, "baremetal") && entry["reconcileID"] != nil {
			g.Expect(entry).To(And(HaveKeyWithValue("namespace", l.namespace), HaveKey("name")), line)
			delete(entry, "ts")
			delete(entry, "reconcileID")
			decision, err := json.Marshal(entry)
			g.Expect(err).NotTo(HaveOccurred())
			decisions[string(decision)]++
		}
	}
	for _, once := range []string{
		"Claimed a host", "Started a BMC command SetNetworkBoot", "Started a BMC command PowerOn", "Started a BMC command ShutDown", "Started a BMC command CleanUp",
		"Recorded the cleaning", "Released the host",
	} {
		g.Expect(seen).To(HaveKeyWithValue(once, 1), "%v", seen)
	}
	for decision, times := range decisions {
		g.Expect(times).To(Equal(1), "a line for every look: %s", decision)
	}
	t.Logf("%d kinds of lines: %v", len(seen), seen)
}
