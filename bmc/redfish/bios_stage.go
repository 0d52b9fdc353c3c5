package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// StageBIOS stages a change for the next reset. All attributes are in one request: iDRAC makes a job of the first one and refuses a second one.
func (b *bios) StageBIOS(ctx context.Context, change bmc.BIOSChange) (bmc.StagedBIOS, error) {
	const op = "Stage BIOS attributes"
	state, err := b.read(ctx, op)
	if err != nil {
		return bmc.StagedBIOS{}, err
	}
	attributes, secureBoot := maps.Clone(change.Attributes), change.SecureBoot
	if attributes == nil {
		attributes = map[string]any{}
	}
	if name := b.system.quirk.secureBootAttribute; secureBoot != nil && state.attributes()[name] != nil {
		attributes[name] = map[bool]string{true: attributeOn, false: attributeOff}[*secureBoot]
		secureBoot = nil
	}
	var staged bmc.StagedBIOS
	if len(attributes) > 0 {
		if staged, err = b.write(ctx, state, attributes); err != nil {
			return bmc.StagedBIOS{}, wrap(op, err)
		}
		if err := b.ensureJob(ctx, &staged); err != nil {
			return staged, wrap(op, err)
		}
	}
	if secureBoot != nil {
		switcher := secureBootOf(b)
		before, err := switcher.SecureBoot(ctx)
		if err == nil {
			err = switcher.SetSecureBoot(ctx, *secureBoot)
		}
		staged.Sent = staged.Sent || before.Next() != *secureBoot
		return staged, err
	}
	return staged, nil
}

// The values of the attribute by which a BMC changes Secure Boot.
const (
	attributeOn  = "Enabled"
	attributeOff = "Disabled"
)

// secureBootOf returns the Secure Boot of the same system.
func secureBootOf(b *bios) *secureBoot { return &secureBoot{service: b.service, system: b.system} }

// write writes attributes through gofish, which sends those that the settings object does not have yet. gofish gets only what it needs of the Bios resource, because
// it returns an error for a resource with one invalid property, and the settings object of BMCs that do not link to it.
func (b *bios) write(ctx context.Context, state *biosState, attributes map[string]any) (bmc.StagedBIOS, error) {
	content, err := json.Marshal(map[string]any{
		"@odata.id": state.path, "Attributes": state.attributes(),
		"@Redfish.Settings": map[string]any{"SettingsObject": map[string]any{"@odata.id": state.target()}},
	})
	if err != nil {
		return bmc.StagedBIOS{}, err
	}
	var typed schemas.Bios
	if err := json.Unmarshal(content, &typed); err != nil {
		return bmc.StagedBIOS{}, err
	}
	counting := &countingClient{gofishClient: gofishClient{ctx: ctx, service: b.service}}
	typed.SetClient(counting)
	task, err := typed.UpdateBiosAttributesApplyAtWithTask(attributes, applyTime(state.resource))
	if err != nil {
		return bmc.StagedBIOS{}, err
	}
	staged := bmc.StagedBIOS{Sent: counting.patches > 0}
	if task != nil {
		staged.Task = b.service.wire.localPath(task.TaskMonitor)
		if staged.Task == "" && task.Task != nil {
			staged.Task = cleanLink(task.Task.ODataID)
		}
	}
	return staged, nil
}

// countingClient counts the changes that gofish sends.
type countingClient struct {
	gofishClient

	patches int
}

// PatchWithHeaders counts and changes a resource.
func (c *countingClient) PatchWithHeaders(url string, payload any, headers map[string]string) (*http.Response, error) {
	c.patches++
	return c.gofishClient.PatchWithHeaders(url, payload, headers)
}

// applyTime returns the apply time to request (DSP0266, 9.10): OnReset where the BMC offers it. Without it, values of iDRAC stay pending.
func applyTime(bios resource) schemas.SettingsApplyTime {
	if slices.Contains(bios.texts("@Redfish.Settings", "SupportedApplyTimes"), string(schemas.OnResetSettingsApplyTime)) {
		return schemas.OnResetSettingsApplyTime
	}
	return ""
}

// ensureJob makes the job that applies staged attributes, for BMCs that need one, if there is no job yet: the attributes may have been staged without one.
func (b *bios) ensureJob(ctx context.Context, staged *bmc.StagedBIOS) error {
	if !b.system.quirk.biosJob || staged.Task != "" {
		return nil
	}
	state, err := b.read(ctx, "Read the staged BIOS attributes")
	if err != nil || len(state.pending()) == 0 {
		return err
	}
	queue, jobs, err := b.openJobs(ctx, state)
	if err != nil || queue == "" {
		return err
	}
	if len(jobs) > 0 {
		staged.Task = jobs[0]
		return nil
	}
	answered, header, err := b.service.request(ctx, http.MethodPost, queue, map[string]any{"TargetSettingsURI": state.settingsPath}, nil)
	if err != nil {
		return err
	}
	staged.Sent, staged.Task = true, b.service.taskOf(answered, header)
	return nil
}

// closedJobs are the states of jobs of iDRAC that are over.
var closedJobs = []string{"Completed", "CompletedWithErrors", "Failed", "RebootCompleted", "RebootFailed", "Cancelled"}

// openJobs returns the queue of jobs that the settings object names (Dell), and the paths of its jobs about BIOS attributes that are not over.
func (b *bios) openJobs(ctx context.Context, state *biosState) (queue string, jobs []string, err error) {
	if queue = state.settings.link("Oem", "Dell", "Jobs"); queue == "" {
		return "", nil, nil
	}
	paths, _, err := b.service.collection(ctx, queue)
	if err != nil {
		return queue, nil, err
	}
	for _, job := range b.service.readAll(ctx, paths) {
		if job.text("JobType") == "BIOSConfiguration" && !slices.Contains(closedJobs, job.text("JobState")) {
			jobs = append(jobs, job.link("@odata.id"))
		}
	}
	return queue, jobs, b.service.unavailable(ctx)
}

// ClearStagedBIOS removes what is staged: jobs first, because iDRAC keeps the values of a job, then by the action of iDRAC, or by staging the current values.
func (b *bios) ClearStagedBIOS(ctx context.Context) error {
	const op = "Clear staged BIOS attributes"
	state, err := b.read(ctx, op)
	if err != nil || len(state.pending()) == 0 {
		return err
	}
	_, jobs, err := b.openJobs(ctx, state)
	if err != nil {
		return wrap(op, err)
	}
	for _, job := range jobs {
		if _, _, err := b.service.request(ctx, http.MethodDelete, job, nil, nil); err != nil {
			return wrap(op, err)
		}
	}
	if target := clearAction(state.settings); target != "" {
		_, _, err = b.service.request(ctx, http.MethodPost, target, map[string]any{}, nil)
	} else {
		err = b.stageCurrent(ctx, state)
	}
	if err != nil {
		return wrap(op, err)
	}
	after, err := b.read(ctx, op)
	if err != nil {
		return err
	}
	if left := after.pending(); len(left) > 0 {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: fmt.Errorf("these attributes are still pending: %s. Clear them in the BMC, or restart the server to apply them",
			strings.Join(slices.Sorted(maps.Keys(left)), ", "))}
	}
	return nil
}

// clearAction returns the target of iDRAC's action that clears what is staged; "" without one. Its name has the version of its schema before the #.
func clearAction(settings resource) string {
	for name := range settings.object("Actions", "Oem") {
		if strings.HasSuffix(name, "#DellManager.ClearPending") {
			return settings.link("Actions", "Oem", name, "target")
		}
	}
	return ""
}

// stageCurrent stages the current values of all pending attributes.
func (b *bios) stageCurrent(ctx context.Context, state *biosState) error {
	current, values := state.attributes(), map[string]any{}
	for name := range state.pending() {
		if current[name] == nil {
			return fmt.Errorf("%s is pending, and its current value is not shown", name)
		}
		values[name] = current[name]
	}
	if state.settingsPath == "" {
		return errors.New("the BMC has no settings object")
	}
	body := map[string]any{"Attributes": values}
	if at := applyTime(state.resource); at != "" {
		body["@Redfish.SettingsApplyTime"] = map[string]any{"ApplyTime": at}
	}
	return b.service.patch(ctx, state.settingsPath, body)
}
