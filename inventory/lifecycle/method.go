package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Each attempt of a boot uses one method, which is recorded when the attempt begins (decision 0032). If the server does not make the request that is expected of the
// method, the next attempt uses the next method. So a method that does not work costs one attempt.

// defaultMethods are the methods of a host without spec.bootMethods. The BMC may not offer all of them.
var defaultMethods = []v1alpha1.BootMethod{v1alpha1.MethodPXE, v1alpha1.MethodUefiHTTP, v1alpha1.MethodVirtualMedia}

// MethodRefusal is the answer of a BMC that refused a boot method.
type MethodRefusal struct {
	// Boot is the number of the boot whose method was refused.
	Boot int32
	// Message is what the BMC answered.
	Message string
}

// MethodOf returns the boot method of an attempt.
func MethodOf(b *v1alpha1.BareMetalBootSpec) v1alpha1.BootMethod {
	return cmp.Or(b.Method, v1alpha1.MethodPXE)
}

// UsesMedium is true for an attempt that boots from a boot medium.
func UsesMedium(b *v1alpha1.BareMetalBootSpec) bool { return MethodOf(b) != v1alpha1.MethodPXE }

// wantedMethods returns the methods of the host, before it is known which of them are possible.
func (h Host) wantedMethods() []v1alpha1.BootMethod {
	if len(h.Spec.BootMethods) > 0 {
		return h.Spec.BootMethods
	}
	return defaultMethods
}

// obstacle returns why a method is not possible; empty if it is.
func obstacle(v View, m v1alpha1.BootMethod) string {
	switch {
	case m == v1alpha1.MethodUefiHTTP && v.Host.Spec.BootMode == v1alpha1.BootModeBIOS:
		return fmt.Sprintf("%s needs spec.bootMode UEFI or UEFISecureBoot", m)
	case m != v1alpha1.MethodPXE && v.Provider.MediaURL == "":
		return fmt.Sprintf("%s needs the flag --boot-media-url of the provider, with an entry for the network of the BMC", m)
	case m != v1alpha1.MethodPXE && v.Consumer != nil && v.Consumer.NeedsIPXE && !v.Consumer.Deleting:
		return fmt.Sprintf("%s cannot boot the machine: its spec.boot has an ipxeTemplate, or a command line with quotation marks or backslashes, which only iPXE can boot", m)
	case v.BMC.Methods != nil && !slices.Contains(v.BMC.Methods, m):
		return fmt.Sprintf("the BMC does not offer %s", m)
	default:
		return ""
	}
}

// possibleMethods returns the methods that are possible now, in the order in which they are tried. A method that worked comes first.
func possibleMethods(v View) []v1alpha1.BootMethod {
	list := slices.DeleteFunc(slices.Clone(v.Host.wantedMethods()), func(m v1alpha1.BootMethod) bool { return obstacle(v, m) != "" })
	if i := slices.Index(list, v.BMC.MethodWorked); i > 0 {
		list = slices.Insert(slices.Delete(list, i, i+1), 0, v.BMC.MethodWorked)
	}
	return list
}

// methodObstacles returns why the host can be booted by none of its methods; empty if it can be booted by one.
func methodObstacles(v View) string {
	if !v.BMC.Inspected || len(possibleMethods(v)) > 0 {
		return ""
	}
	sentences := []string{"The host can be booted by none of its methods (spec.bootMethods)"}
	for _, m := range v.Host.wantedMethods() {
		sentences = append(sentences, sentence(obstacle(v, m)))
	}
	return strings.Join(sentences, ". ")
}

// sentence returns a text with a capital letter at its start.
func sentence(text string) string {
	if text == "" {
		return text
	}
	first := text[0]
	if first >= 'a' && first <= 'z' {
		first -= 'a' - 'A'
	}
	return string(first) + text[1:]
}

// firstMethod returns the method of a first attempt: what worked on this server, or without spec.bootMethods what worked on its model, or the first of the list.
func firstMethod(v View, list []v1alpha1.BootMethod) v1alpha1.BootMethod {
	if m := v.BMC.ModelMethod; v.BMC.MethodWorked == "" && len(v.Host.Spec.BootMethods) == 0 && slices.Contains(list, m) {
		return m
	}
	return list[0]
}

// methodFor returns the method of an attempt that begins now: that of a first attempt, or after another attempt the next one. It is that of the attempt before if the server
// made the request that is expected of it: the attempt has failed for another reason.
func methodFor(v View, attempt int32) v1alpha1.BootMethod {
	list := possibleMethods(v)
	if len(list) == 0 {
		list = v.Host.wantedMethods()
	}
	if attempt <= 1 || v.Host.Boot == nil {
		return firstMethod(v, list)
	}
	before := slices.Index(list, MethodOf(v.Host.Boot))
	if before >= 0 && !v.Observed.methodWorks(*v.Host.Boot) {
		return list[(before+1)%len(list)]
	}
	return list[max(before, 0)]
}

// methodWorks is true once the server made a request in an attempt that shows that it booted by the method. A request of the medium does not show that: the BMC makes
// it when the medium is inserted. Nor does a DHCP request of firmware that has to fetch a medium, nor a read of the loader: the firmware may refuse to run it.
func (o Observed) methodWorks(attempt v1alpha1.BareMetalBootSpec) bool {
	switch {
	case attempt.ScriptAddress != "" || attempt.DataAddress != "" || attempt.AgentKey != "" || attempt.DataServedTime != nil || attempt.CommitAllowedTime != nil || attempt.AgentDoneTime != nil:
		return true // the status may be lost, and the spec is not
	case o.Problem != nil && !UsesMedium(&attempt) || o.WaitedAt.After(attempt.StartTime.Time):
		return true
	case UsesMedium(&attempt):
		return o.bootedMedium()
	default:
		return o.Furthest.Stage != "" && o.Furthest.Stage != v1alpha1.StageMedia
	}
}

// bootedMedium is true if a stage was observed that follows the start of a boot loader.
func (o Observed) bootedMedium() bool {
	at := o.Furthest.Stage
	return at != "" && at != v1alpha1.StageMedia && at != v1alpha1.StageDHCP && at != v1alpha1.StageLoader
}

// MethodWorked is true if the current boot shows that its method works on this server. In an attempt with a medium, the medium must
// have been requested. A server that reported got its data over the network, whatever the status shows: it may show the first stage later than the spec shows the report. The address
// of the script does not show that, since it may be a stranger's.
func (v View) MethodWorked() bool {
	b := cmp.Or(v.Host.CurrentBoot(), v.Host.HostBoot())
	switch {
	case b == nil:
		return false
	case !UsesMedium(b):
		return b.ReportedTime != nil && b.DataServedTime != nil || v.Observed.Furthest.Stage != "" && v.Observed.Furthest.Stage != v1alpha1.StageMedia
	default:
		return v.Observed.Media.Stage != "" && v.Observed.bootedMedium()
	}
}

// maxAttempts is the maximum number of attempts of a boot: each method is tried once.
func maxAttempts(v View, s Settings) int32 {
	return max(s.BootAttempts, int32(len(possibleMethods(v)))) //nolint:gosec // there are three methods
}

// hasNextMethod is true if another attempt may begin now, and would use another method. Without that the attempt has its whole time: until its deadline it is served,
// and a move must not begin before.
func hasNextMethod(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) bool {
	paused := v.Host.Paused || v.Consumer != nil && v.Consumer.Paused || isHostBoot(&attempt) && v.Host.PausedCluster != ""
	claimed := OutlivesClaim(&attempt) && v.Host.Claimed()
	return mayRepeat(attempt) && !paused && !claimed && v.QueuePosition == nil && attempt.Attempt < maxAttempts(v, s) && methodFor(v, attempt.Attempt+1) != MethodOf(&attempt)
}

// HasNextMethod is true if a boot that cannot use its method continues with another one.
func HasNextMethod(v View, s Settings) bool {
	return v.Host.Boot != nil && hasNextMethod(v, s, *v.Host.Boot)
}

// expectedRequestMade is true once the server, or its BMC, made the first request that the method leads to. The attempt has its whole time then.
func (o Observed) expectedRequestMade(attempt v1alpha1.BareMetalBootSpec) bool {
	return o.methodWorks(attempt) || UsesMedium(&attempt) && o.Media.Stage != ""
}

// methodDeadline is when an attempt ends because its expected request did not come; the zero time if it does not end for that reason. A server that is not on shows
// nothing about the method.
func methodDeadline(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) time.Time {
	on := attempt.PoweredOnTime != nil && v.BMC.Problem == nil && v.BMC.Power == v1alpha1.PowerOn
	if !on || v.Observed.expectedRequestMade(attempt) || !hasNextMethod(v, s, attempt) {
		return time.Time{}
	}
	since := attempt.PoweredOnTime.Time
	if v.BMC.LastPower == CommandPowerOn && v.BMC.LastPowerAt.After(since) { // the BMC was busy, or refused the command at first
		since = v.BMC.LastPowerAt
	}
	return since.Add(cmp.Or(s.MethodTimeout, s.BootTimeout))
}

// untilMethodDeadline requeues a step that waits at the deadline of the method.
func untilMethodDeadline(v View, s Settings, attempt v1alpha1.BareMetalBootSpec, step Step) Step {
	if due := methodDeadline(v, s, attempt); step.Action == "" && !due.IsZero() && (step.RequeueAt.IsZero() || due.Before(step.RequeueAt)) {
		step.RequeueAt = due
	}
	return step
}

// methodOver returns why an attempt ends so that the next one uses another method; empty while it may continue.
func methodOver(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) string {
	if r := v.BMC.MethodRefused; r != nil && r.Boot == attempt.Number && hasNextMethod(v, s, attempt) {
		message := fmt.Sprintf("The BMC refused to boot the server by %s in attempt %d: %s", MethodOf(&attempt), attempt.Attempt, r.Message)
		if refusal := v.Observed.mediaRefusal(); refusal != "" {
			message += ". The likeliest cause: " + refusal
		}
		return message
	}
	if due := methodDeadline(v, s, attempt); due.IsZero() || v.Now.Before(due) {
		return ""
	}
	return fmt.Sprintf("%s after the server was powered on in attempt %d: %s", cmp.Or(s.MethodTimeout, s.BootTimeout), attempt.Attempt, noRequest(v, attempt))
}

// mediaRefusal says who requested the medium and why the boot server refused it; empty if it did not.
func (o Observed) mediaRefusal() string {
	if o.Problem == nil || o.Problem.Reason != v1alpha1.ReasonMediaRefused {
		return ""
	}
	return o.Problem.Message
}

// noRequest says which request of a method did not come, or was refused, and what to check.
func noRequest(v View, attempt v1alpha1.BareMetalBootSpec) string {
	refusal := v.Observed.mediaRefusal()
	switch method := MethodOf(&attempt); {
	case method != v1alpha1.MethodPXE && refusal != "":
		return refusal
	case method == v1alpha1.MethodUefiHTTP:
		return fmt.Sprintf("the firmware never requested the boot medium from %s: check that it gets an address, and that it reaches that URL", v.Provider.MediaURL)
	case method == v1alpha1.MethodVirtualMedia:
		return fmt.Sprintf("the BMC never requested the boot medium from %s: check that it reaches that URL", v.Provider.MediaURL)
	default:
		return "the server requested no boot file (DHCP)"
	}
}

// notBooted says whether the medium of an attempt was never requested, or was requested and not booted; empty for an attempt without a medium, and for one that has
// booted it.
func notBooted(v View, attempt v1alpha1.BareMetalBootSpec) string {
	info := v.Observed.mediaStage(attempt)
	switch {
	case info == nil || info.stage == v1alpha1.StageLoader || attempt.PoweredOnTime == nil || !mayRepeat(attempt):
		return ""
	case v.Observed.Media.Stage == "":
		return noRequest(v, attempt)
	case MethodOf(&attempt) == v1alpha1.MethodUefiHTTP:
		return fmt.Sprintf("the firmware requested the boot medium%s, but the server did not boot from it. The likeliest cause: %s", v.Observed.describeObservation(attempt, v1alpha1.StageMedia), info.cause)
	default:
		return fmt.Sprintf("the BMC requested the boot medium%s, but the server did not boot from it. The likeliest cause: %s", v.Observed.describeObservation(attempt, v1alpha1.StageMedia), info.cause)
	}
}

// onlyBMCSeen is true if the only request of an attempt is that of a medium by the BMC, which makes it while the server is off.
func (o Observed) onlyBMCSeen(attempt v1alpha1.BareMetalBootSpec) bool {
	return o.Furthest.Stage == v1alpha1.StageMedia && MethodOf(&attempt) == v1alpha1.MethodVirtualMedia
}

// describeMethod returns the method of an attempt for users.
func describeMethod(attempt v1alpha1.BareMetalBootSpec) string {
	switch MethodOf(&attempt) {
	case v1alpha1.MethodUefiHTTP:
		return "the URL of the boot medium (UefiHttp)"
	case v1alpha1.MethodVirtualMedia:
		return "the boot medium in the virtual drive (VirtualMedia)"
	default:
		return "the network (PXE)"
	}
}

// attemptName names an attempt for users.
func attemptName(attempt v1alpha1.BareMetalBootSpec) string {
	if UsesMedium(&attempt) {
		return fmt.Sprintf("Boot attempt %d (%s)", attempt.Attempt, attempt.Method)
	}
	return fmt.Sprintf("Boot attempt %d", attempt.Attempt)
}

// attemptOver returns why an attempt is over before its deadline; empty while it may continue.
func attemptOver(v View, s Settings, attempt v1alpha1.BareMetalBootSpec) string {
	return cmp.Or(agentOver(v, s, attempt), methodOver(v, s, attempt))
}

// needsConfirmedOff is true for an attempt that changes the medium in a virtual drive: the server may still read it unless it is off.
func (b BMC) needsConfirmedOff(attempt v1alpha1.BareMetalBootSpec) bool {
	return MethodOf(&attempt) == v1alpha1.MethodVirtualMedia || b.MediaInserted
}

// mediaLeft is true for a medium that is still in a virtual drive although the server needs it no more. The firmware may prefer the drive to the disk.
func (v View) mediaLeft() bool { return v.BMC.MediaInserted && !v.BMC.Busy && !v.bmcBlocked() }
