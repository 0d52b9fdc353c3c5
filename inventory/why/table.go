package why

import (
	"regexp"
	"strings"
	"time"
)

// State says whether an object needs anything.
type State string

const (
	// Done means that nothing is waited for.
	Done State = "Done"
	// Waits means that something is under way, or that a person asked for the wait. It becomes a fault if it takes much longer than usual.
	Waits State = "Waits"
	// Fault means that a person has to act.
	Fault State = "Fault"
	// Unknown means that the objects that were read do not answer the question. No row has it.
	Unknown State = "Unknown"
)

// Row explains a reason of a condition, a phase, or a reason of spec.quarantine. Its texts are Markdown with links relative to docs/reference; Plain converts them.
type Row struct {
	// Reason is the word, such as CredentialsRefused.
	Reason string
	// Lead is the cell before the reason in the tables that have one: the condition, its status, or the phase. It is empty in other tables.
	Lead string
	// State is what the reason means for the object.
	State State
	// Means is what the reason means, as a sentence without a full stop.
	Means string
	// Do is what a person does about it, as a sentence without a full stop. It is empty if nothing is to be done.
	Do string
	// Cause is the likeliest cause, in plain text that continues "likeliest cause: ". It is empty for Done, and for a stage of a boot, whose cause package lifecycle has.
	Cause string
	// Next is the next command. It is empty for Done.
	Next Command
	// Usual is how long it usually takes at most. It is zero if there is no usual time: for a fault, and for a wait that a person ends. The times are estimates for servers
	// whose self-test takes up to eight minutes, and follow the defaults of the provider's flags.
	Usual time.Duration
}

// Table is the reasons of some conditions of a kind.
type Table struct {
	// ID names the table in docs/reference/conditions.md.
	ID string
	// Kind is the kind of the objects.
	Kind string
	// Lead is the header of the column with Row.Lead; empty without that column.
	Lead string
	// Word is the header of the column with Row.Reason.
	Word string
	// Rows are in the order of the page.
	Rows []Row
}

// The kinds that have explanations. Other kinds than these can be the owner of a Machine.
const (
	KindCluster          = "Cluster"
	KindMachine          = "Machine"
	KindBareMetalCluster = "BareMetalCluster"
	KindBareMetalMachine = "BareMetalMachine"
	KindHost             = "BareMetalHost"
	KindBoot             = "BareMetalBoot"
	KindConfig           = "BareMetalConfig"
	KindRemediation      = "BareMetalRemediation"
	KindErasureRequest   = "BareMetalErasureRequest"
	KindMachineTemplate  = "BareMetalMachineTemplate"
	KindProfile          = "BareMetalProfile"
	KindSettings         = "BareMetalSettings"
)

// tables are all tables. Within a kind each reason has one row.
var tables = []Table{
	{ID: "phases", Kind: KindHost, Word: "phase", Rows: hostPhases},
	{ID: "BMCReady", Kind: KindHost, Word: "reason", Rows: bmcReasons},
	{ID: "Verified", Kind: KindHost, Word: "reason", Rows: verifiedReasons},
	{ID: "SettingsConform", Kind: KindHost, Word: "reason", Rows: settingsReasons},
	{ID: "InspectionConsistent", Kind: KindHost, Word: "reason", Rows: consistentReasons},
	{ID: "PreflightPassed", Kind: KindHost, Word: "reason", Rows: preflightReasons},
	{ID: "HardwareHealthy", Kind: KindHost, Word: "reason", Rows: healthReasons},
	{ID: "Booted", Kind: KindHost, Word: "reason", Rows: bootReasons},
	{ID: "agent", Kind: KindHost, Word: "reason", Rows: agentReasons},
	{ID: "NodeMatched", Kind: KindHost, Lead: "status", Word: "reason", Rows: nodeReasons},
	{ID: "RunsProvider", Kind: KindHost, Word: "reason", Rows: providerReasons},
	{ID: "quarantine", Kind: KindHost, Word: "reason", Rows: quarantineReasons},
	{ID: "machine", Kind: KindBareMetalMachine, Lead: "condition", Word: "reason", Rows: machineReasons},
	{ID: "cluster", Kind: KindBareMetalCluster, Lead: "condition", Word: "reason", Rows: clusterReasons},
	{ID: "remediation", Kind: KindRemediation, Lead: "phase", Word: "reason", Rows: remediationReasons},
	{ID: "config", Kind: KindConfig, Word: "reason", Rows: configReasons},
	{ID: "request", Kind: KindErasureRequest, Word: "reason", Rows: requestReasons},
	{ID: "template", Kind: KindMachineTemplate, Word: "reason", Rows: templateReasons},
	{ID: "profile", Kind: KindProfile, Word: "reason", Rows: profileReasons},
}

// Tables returns all tables, in the order of docs/reference/conditions.md. The caller must not change them.
func Tables() []Table { return tables }

// word is a reason of a kind.
type word struct{ kind, reason string }

var rows = indexRows()

func indexRows() map[word]*Row {
	index := map[word]*Row{}
	for _, table := range tables {
		for i := range table.Rows {
			index[word{table.Kind, table.Rows[i].Reason}] = &table.Rows[i]
		}
	}
	return index
}

// Lookup returns the row of a reason of a kind. A BareMetalMachine, a BareMetalBoot and a BareMetalSettings have the reasons of their host too. It returns false for a reason that the
// provider does not have, such as one of a later version.
func Lookup(kind, reason string) (Row, bool) {
	row := rows[word{kind, reason}]
	if row == nil && (kind == KindBareMetalMachine || kind == KindBoot || kind == KindSettings) {
		row = rows[word{KindHost, reason}]
	}
	if row == nil {
		return Row{}, false
	}
	return *row, true
}

var markdownLink = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// trailingLink matches a link to more about a remedy, which says nothing without its address.
var trailingLink = regexp.MustCompile(`; \[[^]]*\]\([^)]*\)$`)

// Plain returns Markdown of a row as plain text.
func Plain(markdown string) string {
	markdown = trailingLink.ReplaceAllString(markdown, "")
	return strings.NewReplacer("`", "", "**", "").Replace(markdownLink.ReplaceAllString(markdown, "$1"))
}
