// Package boot answers the boot server's questions from the informer cache and lifecycle.BootFor. A decision to serve a secret is made on a live read, and is
// written with an optimistic lock before a byte is served.
package boot

import (
	"context"
	"net"
	"net/netip"

	"github.com/go-logr/logr"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Booter is the pxe.Booter of a management cluster. It has the configuration, and connects the parts that do the work.
type Booter struct {
	// Client reads from the cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	// Settings are those of the lifecycle. The host controller has the same.
	Settings lifecycle.Settings
	// Key signs the tokens. All boot servers share it.
	Key []byte
	// PreviousKey signed the tokens before Key. Its tokens are still valid. Empty for none.
	PreviousKey []byte
	// Namespace is the provider's own namespace, which has the Lease objects of addresses.
	Namespace string
	// Networks are those that the boot server serves. Their modes decide what is known of a server before it asks for its script.
	Networks []bootconfig.Network
	// Tenants restrict the namespaces of hosts.
	Tenants bootconfig.Tenants
	// Images has the images that agents write. With nil there are no images.
	Images Images
	// Prefetcher has the kernels and initrds of spec.boot. Nil fetches none before a server boots. It may be set until SetupImages.
	Prefetcher Prefetcher
	// Recorder records the events of hosts. Nil records none.
	Recorder events.EventRecorder
	Log      logr.Logger
	// Clock defaults to the real clock.
	Clock clock.PassiveClock

	// What the parts below share.
	records   *bootRecords
	lookup    *lookup
	tokens    *tokenChecker
	admission *admission
	bootstrap *bootstrapReader
	images    *imageStore
	stages    *stageWriter
	events    *eventRecorder

	// The parts that answer the boot server, one for each subject.
	scripts  *scripts
	seeds    *seeds
	agents   *agents
	media    *media
	leases   *leases
	observer *observer
}

var (
	_ pxe.Booter = &Booter{}
	_ pxe.Agents = &Booter{}
	_ pxe.Media  = &Booter{}
)

// New completes a Booter whose exported fields are set. A later change of them has no effect, except of Prefetcher. Add it to the manager as a runnable too: it writes
// observed boot stages in the background.
func New(b *Booter) *Booter {
	if b.Clock == nil {
		b.Clock = clock.RealClock{}
	}
	keys, data := tokenKeys{current: b.Key, previous: b.PreviousKey}, dataReader{apiReader: b.APIReader, namespace: b.Namespace}
	b.records = &bootRecords{client: b.Client, apiReader: b.APIReader}
	b.lookup = &lookup{client: b.Client, apiReader: b.APIReader, tenants: b.Tenants, clock: b.Clock}
	b.tokens = &tokenChecker{
		apiReader: b.APIReader, clock: b.Clock, keys: keys, records: b.records, misses: newMissLimiter(), budgets: newLimiters(budgetRate, budgetBurst),
	}
	b.admission = &admission{
		client: b.Client, clock: b.Clock, namespace: b.Namespace, networks: b.Networks, tenants: b.Tenants, dhcpRequests: lru.New(16384),
	}
	b.bootstrap = &bootstrapReader{data: data, keys: keys}
	b.images = &imageStore{images: b.Images, data: data, tokens: b.tokens}
	b.events = &eventRecorder{client: b.Client, recorder: b.Recorder, refusals: lru.New(4096)}
	b.stages = &stageWriter{client: b.Client, log: b.Log, clock: b.Clock, records: b.records, events: b.events, queue: newStageQueue()}
	b.addSubjects(keys)
	return b
}

// addSubjects adds the parts that answer the boot server.
func (b *Booter) addSubjects(keys tokenKeys) {
	bound := &binding{
		client: b.Client, log: b.Log, clock: b.Clock, keys: keys, records: b.records, tokens: b.tokens, admission: b.admission, stages: b.stages,
		events: b.events,
	}
	b.scripts = &scripts{
		client: b.Client, clock: b.Clock, settings: b.Settings, keys: keys, lookup: b.lookup, records: b.records, admission: b.admission, binding: bound,
		bootstrap: b.bootstrap, stages: b.stages, events: b.events, requests: newLimiters(budgetRate, budgetBurst),
	}
	b.seeds = &seeds{
		clock: b.Clock, settings: b.Settings, keys: keys, lookup: b.lookup, tokens: b.tokens, admission: b.admission, binding: bound, bootstrap: b.bootstrap,
		stages: b.stages, events: b.events,
	}
	b.agents = &agents{
		client: b.Client, log: b.Log, clock: b.Clock, settings: b.Settings, lookup: b.lookup, records: b.records, bootstrap: b.bootstrap, images: b.images, stages: b.stages, events: b.events,
		guard: &agentGuard{
			settings: b.Settings, keys: keys, lookup: b.lookup, tokens: b.tokens, admission: b.admission, binding: bound, stages: b.stages,
		},
		inspections: &inspections{client: b.Client, apiReader: b.APIReader},
		reports:     newLimiters(reportRate, reportBurst), progress: newProgressLimiter(), sent: newImagesSent(),
	}
	b.media = &media{
		settings: b.Settings, keys: keys, lookup: b.lookup, shared: b.lookup.sharing(), tokens: b.tokens, bootstrap: b.bootstrap, stages: b.stages,
		loaders: lru.New(4096),
	}
	b.leases = &leases{
		client: b.Client, apiReader: b.APIReader, log: b.Log, namespace: b.Namespace, tenants: b.Tenants, lookup: b.lookup, records: b.records, stages: b.stages,
		events: b.events,
	}
	b.observer = &observer{client: b.Client, clock: b.Clock, lookup: b.lookup, records: b.records, admission: b.admission, stages: b.stages}
}

// newImageReconciler returns the controller that prepares images.
func (b *Booter) newImageReconciler() *imageReconciler {
	return &imageReconciler{
		lookup: b.lookup, bootRecords: b.records, imageStore: b.images, bootstrapReader: b.bootstrap, eventRecorder: b.events,
		Client: b.Client, Prefetcher: b.Prefetcher, Log: b.Log,
	}
}

// NeedLeaderElection is false: every boot server writes the stages that it observes.
func (b *Booter) NeedLeaderElection() bool { return false }

// Start writes observed stages until ctx ends, and then the pending ones.
func (b *Booter) Start(ctx context.Context) error {
	b.admission.start(b.Clock.Now())
	b.stages.run(ctx)
	return nil
}

// Lookup returns what the server with a MAC address boots now.
func (b *Booter) Lookup(ctx context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	return b.scripts.Lookup(ctx, mac)
}

// Admit decides about a client as Script does, but from the cache alone.
func (b *Booter) Admit(ctx context.Context, mac net.HardwareAddr, from netip.Addr) error {
	return b.scripts.Admit(ctx, mac, from)
}

// Script serves the boot script to the first client that is admitted.
func (b *Booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	return b.scripts.Script(ctx, mac, from)
}

// Lease returns the address that a server keeps.
func (b *Booter) Lease(ctx context.Context, request pxe.LeaseRequest) (pxe.Lease, error) {
	return b.leases.Lease(ctx, request)
}

// Decline takes an address from a server because another device uses it.
func (b *Booter) Decline(ctx context.Context, mac net.HardwareAddr, address netip.Addr) error {
	return b.leases.Decline(ctx, mac, address)
}

// KnowsSeedToken is true for a token that opens the seed of the host's boot in the cache.
func (b *Booter) KnowsSeedToken(ctx context.Context, host, token string) bool {
	return b.tokens.KnowsSeedToken(ctx, host, token)
}

// BootstrapData returns the bootstrap data to the first client that asks for a file of the seed with the token.
func (b *Booter) BootstrapData(ctx context.Context, name, token, file string, from netip.Addr) (seed.Data, error) {
	return b.seeds.BootstrapData(ctx, name, token, file, from)
}

// Report records the report of a running system.
func (b *Booter) Report(ctx context.Context, name, token string, outcome pxe.Outcome, from netip.Addr) error {
	return b.seeds.Report(ctx, name, token, outcome, from)
}

// ObserveStage records a stage of a boot.
func (b *Booter) ObserveStage(mac net.HardwareAddr, stage pxe.Stage, from netip.Addr, what string) {
	b.observer.ObserveStage(mac, stage, from, what)
}

// ObserveWaiting records that a server waits for a boot slot.
func (b *Booter) ObserveWaiting(mac net.HardwareAddr, from netip.Addr, position int) {
	b.observer.ObserveWaiting(mac, from, position)
}

// ObserveFailure records why a boot cannot be served.
func (b *Booter) ObserveFailure(mac net.HardwareAddr, err error) { b.observer.ObserveFailure(mac, err) }

// CheckToken returns nil if the token is that of the agent of the host's boot.
func (b *Booter) CheckToken(ctx context.Context, r pxe.AgentRequest) error {
	return b.agents.guard.CheckToken(ctx, r)
}

// Plan returns the plan of an agent.
func (b *Booter) Plan(ctx context.Context, r pxe.AgentRequest, hello agent.Hello) (agent.Plan, error) {
	return b.agents.Plan(ctx, r, hello)
}

// Inventory records what an agent found on its server.
func (b *Booter) Inventory(ctx context.Context, r pxe.AgentRequest, found wire.Inspection) error {
	return b.agents.Inventory(ctx, r, found)
}

// Image opens the image of an agent's plan.
func (b *Booter) Image(ctx context.Context, r pxe.AgentRequest) (*pxe.OpenedImage, error) {
	return b.agents.Image(ctx, r)
}

// Data returns the bootstrap data to an agent.
func (b *Booter) Data(ctx context.Context, r pxe.AgentRequest, where agent.DataRequest, base string) (seed.DataPartition, error) {
	return b.agents.Data(ctx, r, where, base)
}

// Commit allows an agent to make a disk bootable.
func (b *Booter) Commit(ctx context.Context, r pxe.AgentRequest, request agent.CommitRequest) error {
	return b.agents.Commit(ctx, r, request)
}

// Progress records what an agent does.
func (b *Booter) Progress(ctx context.Context, r pxe.AgentRequest, p agent.Progress) error {
	return b.agents.Progress(ctx, r, p)
}

// Result records the end of an agent's plan.
func (b *Booter) Result(ctx context.Context, r pxe.AgentRequest, result agent.Result) (agent.Answer, error) {
	return b.agents.Result(ctx, r, result)
}

// Media returns the boot medium of the attempt that the token opens.
func (b *Booter) Media(ctx context.Context, r pxe.MediaRequest) (pxe.Medium, error) {
	return b.media.Media(ctx, r)
}

// MediaScript returns what a boot medium boots.
func (b *Booter) MediaScript(ctx context.Context, r pxe.MediaRequest) (pxe.Script, error) {
	return b.media.MediaScript(ctx, r)
}
