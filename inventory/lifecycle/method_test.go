package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

const (
	viaPXE   = v1alpha1.MethodPXE
	viaHTTP  = v1alpha1.MethodUefiHTTP
	viaMedia = v1alpha1.MethodVirtualMedia
)

func wants(methods ...v1alpha1.BootMethod) func(*View) {
	return func(v *View) { v.Host.Spec.BootMethods = methods }
}

func offers(methods ...v1alpha1.BootMethod) func(*View) {
	return func(v *View) { v.BMC.Methods = methods }
}

func workedOnModel(m v1alpha1.BootMethod) func(*View) { return func(v *View) { v.BMC.ModelMethod = m } }

func worked(m v1alpha1.BootMethod) func(*View) { return func(v *View) { v.BMC.MethodWorked = m } }

// attempted makes the last attempt one with this method.
func attempted(attempt int32, m v1alpha1.BootMethod) func(*View) {
	return func(v *View) { v.Host.Boot.Attempt, v.Host.Boot.Method = attempt, m }
}

// on is a server that was powered on this long ago.
func on(ago time.Duration) func(*View) {
	return func(v *View) {
		at := metav1.NewTime(noon.Add(-ago))
		v.Host.Boot.StartTime, v.Host.Boot.PoweredOffTime, v.Host.Boot.PoweredOnTime = at, &at, &at
		v.BMC.Power, v.BMC.PowerSince = v1alpha1.PowerOn, noon.Add(-ago)
	}
}

func stage(s v1alpha1.BootStage) func(*View) {
	return func(v *View) {
		v.Observed.Furthest = v1alpha1.ObservedStage{Stage: s, Time: metav1.NewTime(noon.Add(-time.Minute)), Address: "192.0.2.9"}
		if s == v1alpha1.StageMedia {
			v.Observed.Media = v.Observed.Furthest
		}
	}
}

func fetched(v *View) {
	v.Observed.Media = v1alpha1.ObservedStage{Stage: v1alpha1.StageMedia, Time: metav1.NewTime(noon.Add(-time.Minute)), Address: "192.0.2.9"}
}

func legacy(v *View)     { v.Host.Spec.BootMode = v1alpha1.BootModeBIOS }
func noMediaURL(v *View) { v.Provider.MediaURL = "" }
func needsIPXE(v *View)  { v.Consumer.NeedsIPXE = true }

// TestMethods: which methods are tried, in which order.
func TestMethods(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*View)
		want   []v1alpha1.BootMethod
	}{
		"the default":                              {nil, []v1alpha1.BootMethod{viaPXE, viaHTTP, viaMedia}},
		"what the BMC offers":                      {[]func(*View){offers(viaPXE, viaMedia)}, []v1alpha1.BootMethod{viaPXE, viaMedia}},
		"what it offers is unknown":                {[]func(*View){offers()}, []v1alpha1.BootMethod{viaPXE, viaHTTP, viaMedia}},
		"no boot media":                            {[]func(*View){noMediaURL}, []v1alpha1.BootMethod{viaPXE}},
		"legacy firmware":                          {[]func(*View){legacy}, []v1alpha1.BootMethod{viaPXE, viaMedia}},
		"the order of the host":                    {[]func(*View){wants(viaMedia, viaPXE)}, []v1alpha1.BootMethod{viaMedia, viaPXE}},
		"what worked comes first":                  {[]func(*View){worked(viaMedia)}, []v1alpha1.BootMethod{viaMedia, viaPXE, viaHTTP}},
		"what worked and is not wanted":            {[]func(*View){wants(viaPXE), worked(viaMedia)}, []v1alpha1.BootMethod{viaPXE}},
		"what worked and is not offered any more":  {[]func(*View){offers(viaPXE), worked(viaMedia)}, []v1alpha1.BootMethod{viaPXE}},
		"a host that wants what is not offered":    {[]func(*View){wants(viaMedia), offers(viaPXE)}, []v1alpha1.BootMethod{}},
		"a host that wants media, and there is no": {[]func(*View){wants(viaMedia, viaHTTP), noMediaURL}, []v1alpha1.BootMethod{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := freeView(append([]func(*View){hasMedia}, c.change...)...)
			g.Expect(possibleMethods(v)).To(Equal(c.want))
			g.Expect(v.Incapable()).To(Equal(len(c.want) == 0))
			g.Expect(v.Verified()).To(Equal(len(c.want) > 0))
		})
	}
}

// TestNoMethod: a host without a possible method says what each lacks, is not offered and not booted.
func TestNoMethod(t *testing.T) {
	g := NewWithT(t)
	v := freeView(hasMedia, wants(viaMedia, viaPXE), offers(viaHTTP), noMediaURL)
	g.Expect(MissingCapabilityMessage(v)).To(Equal("The host can be booted by none of its methods (spec.bootMethods). VirtualMedia needs the flag --boot-media-url of the " +
		"provider, with an entry for the network of the BMC. The BMC does not offer PXE"))
	g.Expect(Next(v, DefaultSettings()).Phase).To(Equal(v1alpha1.PhaseRegistering))
	v = claimedView(hasMedia, wants(viaMedia), offers(viaPXE))
	step := Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(Inspect), "a licence may have added it")
	g.Expect(step.Reason).To(Equal(v1alpha1.ReasonCapabilityMissing))
}

// TestNextMethod: which method an attempt uses after another one.
func TestNextMethod(t *testing.T) {
	for name, c := range map[string]struct {
		change  []func(*View)
		attempt int32
		want    v1alpha1.BootMethod
	}{
		"the first":                                   {nil, 1, viaPXE},
		"the first of another boot":                   {[]func(*View){attempted(3, viaHTTP), on(time.Hour)}, 1, viaPXE},
		"another server of the model booted":          {[]func(*View){workedOnModel(viaMedia)}, 1, viaMedia},
		"this server booted, and one of its model":    {[]func(*View){workedOnModel(viaMedia), worked(viaHTTP)}, 1, viaHTTP},
		"a user has ordered the methods":              {[]func(*View){workedOnModel(viaMedia), wants(viaHTTP, viaMedia)}, 1, viaHTTP},
		"what its model can do is not offered":        {[]func(*View){workedOnModel(viaMedia), offers(viaPXE, viaHTTP)}, 1, viaPXE},
		"the method of the model was tried":           {[]func(*View){workedOnModel(viaMedia), attempted(1, viaMedia), on(time.Hour)}, 2, viaPXE},
		"nothing was requested":                       {[]func(*View){attempted(1, viaPXE), on(time.Hour)}, 2, viaHTTP},
		"nothing was requested again":                 {[]func(*View){attempted(2, viaHTTP), on(time.Hour)}, 3, viaMedia},
		"after the last comes the first":              {[]func(*View){attempted(3, viaMedia), on(time.Hour)}, 4, viaPXE},
		"an old record without a method":              {[]func(*View){attempted(1, ""), on(time.Hour)}, 2, viaHTTP},
		"DHCP came":                                   {[]func(*View){attempted(1, viaPXE), on(time.Hour), stage(v1alpha1.StageDHCP)}, 2, viaPXE},
		"only the medium was requested":               {[]func(*View){attempted(1, viaMedia), on(time.Hour), stage(v1alpha1.StageMedia)}, 2, viaPXE},
		"the medium was requested, and then DHCP":     {[]func(*View){attempted(1, viaHTTP), on(time.Hour), stage(v1alpha1.StageDHCP), fetched}, 2, viaMedia},
		"only the loader was read":                    {[]func(*View){attempted(1, viaMedia), on(time.Hour), stage(v1alpha1.StageLoader), fetched}, 2, viaPXE},
		"the agent came":                              {[]func(*View){attempted(1, viaMedia), on(time.Hour), stage(v1alpha1.StageAgent), fetched}, 2, viaMedia},
		"the agent came, and the status is lost":      {[]func(*View){attempted(1, viaMedia), on(time.Hour), func(v *View) { v.Host.Boot.DataAddress = "192.0.2.9" }}, 2, viaMedia},
		"the key of an agent, and the status is lost": {[]func(*View){attempted(1, viaMedia), on(time.Hour), func(v *View) { v.Host.Boot.AgentKey = "k" }}, 2, viaMedia},
		"it waited for a slot":                        {[]func(*View){attempted(1, viaPXE), on(time.Hour), func(v *View) { v.Observed.WaitedAt = noon }}, 2, viaPXE},
		"the boot server could not serve it":          {[]func(*View){attempted(1, viaPXE), on(time.Hour), func(v *View) { v.Observed.Problem = &v1alpha1.BootFailure{Reason: "r"} }}, 2, viaPXE},
		"the boot server could not make the medium":   {[]func(*View){attempted(1, viaMedia), on(time.Hour), fetched, func(v *View) { v.Observed.Problem = &v1alpha1.BootFailure{Reason: "r"} }}, 2, viaPXE},
		"only iPXE can boot the machine":              {[]func(*View){attempted(1, viaPXE), on(time.Hour), needsIPXE}, 2, viaPXE},
		"the agent erases what iPXE booted":           {[]func(*View){attempted(1, viaPXE), on(time.Hour), needsIPXE, deleting}, 2, viaHTTP},
		"the method is not possible any more":         {[]func(*View){attempted(1, viaMedia), on(time.Hour), offers(viaPXE, viaHTTP)}, 2, viaPXE},
		"the one that worked before is tried before":  {[]func(*View){attempted(1, viaPXE), on(time.Hour), worked(viaMedia)}, 2, viaHTTP},
		"nothing else is possible":                    {[]func(*View){attempted(1, viaPXE), on(time.Hour), noMediaURL}, 2, viaPXE},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := bootingView(append([]func(*View){hasMedia}, c.change...)...)
			g.Expect(methodFor(v, c.attempt)).To(Equal(c.want))
			boot := newBoot(v, c.attempt)
			g.Expect(boot.Method).To(Equal(c.want), "the record has it")
		})
	}
}

// TestMethodGivenUp: when an attempt ends so that the next one uses another method.
func TestMethodGivenUp(t *testing.T) {
	const late = 11 * time.Minute
	never := func(what string) string {
		return "10m0s after the server was powered on in attempt 1: " + what
	}
	for name, c := range map[string]struct {
		change []func(*View)
		want   string // the start of the reason; empty if the attempt continues
	}{
		"nothing was requested":                {[]func(*View){on(late)}, never("the server requested no boot file (DHCP)")},
		"not yet":                              {[]func(*View){on(9 * time.Minute)}, ""},
		"DHCP":                                 {[]func(*View){on(late), stage(v1alpha1.StageDHCP)}, ""},
		"no other method":                      {[]func(*View){on(late), noMediaURL}, ""},
		"the last attempt":                     {[]func(*View){on(late), attempted(3, viaPXE)}, ""},
		"not powered on":                       {[]func(*View){on(late), notPoweredOn}, ""},
		"the BMC powered it on later":          {[]func(*View){on(late), commanded(CommandPowerOn, 9*time.Minute)}, ""},
		"it reads as off":                      {[]func(*View){on(late), func(v *View) { v.BMC.Power = v1alpha1.PowerOff }}, ""},
		"the BMC does not answer":              {[]func(*View){on(late), bmcDown}, ""},
		"the Cluster is paused":                {[]func(*View){on(late), func(v *View) { v.Consumer.Paused = true }}, ""},
		"the host is paused":                   {[]func(*View){on(late), func(v *View) { v.Host.Paused = true }}, ""},
		"the queue is full":                    {[]func(*View){on(late), queued}, ""},
		"the script was served":                {[]func(*View){on(late), func(v *View) { v.Host.Boot.ScriptAddress = "192.0.2.9" }}, ""},
		"the bootstrap data":                   {[]func(*View){on(late), seeded}, ""},
		"the permission":                       {[]func(*View){on(late), bootsAgent, func(v *View) { v.Host.Boot.CommitAllowedTime = &metav1.Time{Time: noon} }}, ""},
		"the firmware, and no medium":          {[]func(*View){on(late), attempted(1, viaHTTP)}, never("the firmware never requested the boot medium from http://192.0.2.1: check")},
		"the BMC, and no medium":               {[]func(*View){on(late), attempted(1, viaMedia)}, never("the BMC never requested the boot medium from http://192.0.2.1: check")},
		"the BMC, and refused":                 {[]func(*View){on(late), attempted(1, viaMedia), mediumRefused}, never("192.0.2.66 requested the boot medium, and the boot server refused it: why")},
		"the firmware, and refused":            {[]func(*View){on(late), attempted(1, viaHTTP), mediumRefused}, never("192.0.2.66 requested the boot medium, and")},
		"the BMC refused what it did not get":  {[]func(*View){on(time.Second), attempted(1, viaMedia), refusedIn(1), mediumRefused}, "The BMC refused to boot the server by VirtualMedia in attempt 1: no. The likeliest cause: 192.0.2.66 requested"},
		"firmware that only wants an address":  {[]func(*View){on(late), attempted(1, viaHTTP), stage(v1alpha1.StageDHCP)}, never("the firmware never requested")},
		"the medium was requested":             {[]func(*View){on(late), attempted(1, viaMedia), stage(v1alpha1.StageMedia)}, ""},
		"the BMC refused the method":           {[]func(*View){on(time.Second), refusedIn(1)}, "The BMC refused to boot the server by PXE in attempt 1: no"},
		"the BMC refused that of another boot": {[]func(*View){on(time.Second), refusedIn(7)}, ""},
		"the BMC refused the only method":      {[]func(*View){on(time.Second), refusedIn(1), noMediaURL}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := bootingView(append([]func(*View){hasMedia}, c.change...)...)
			over := methodOver(v, DefaultSettings(), *v.Host.Boot)
			step := Next(v, DefaultSettings())
			begins := step.Action == RecordBoot && step.Boot.Number == 2
			if c.want == "" {
				g.Expect(over).To(BeEmpty())
				g.Expect(begins).To(BeFalse(), step.Message)
				return
			}
			g.Expect(over).To(HavePrefix(c.want))
			g.Expect(begins).To(BeTrue(), step.Message)
			g.Expect(step.Message).To(ContainSubstring(over))
			g.Expect(step.Boot.Method).NotTo(Equal(MethodOf(v.Host.Boot)))
			g.Expect(step.Boot.PoweredOffTime == nil).To(Equal(v.BMC.Power == v1alpha1.PowerOn), "the server is powered off first")
		})
	}
}

// mediumRefused is a client with the token that was refused the medium.
func mediumRefused(v *View) {
	v.Observed.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonMediaRefused, Message: "192.0.2.66 requested the boot medium, and the boot server refused it: why"}
}

func refusedIn(number int32) func(*View) {
	return func(v *View) { v.BMC.MethodRefused = &MethodRefusal{Boot: number, Message: "no"} }
}

// TestMethodDeadlineRequeues: a boot that waits is reconciled when its method is given up.
func TestMethodDeadlineRequeues(t *testing.T) {
	g := NewWithT(t)
	v := bootingView(hasMedia, on(9*time.Minute), func(v *View) { v.BMC.PowerAt = noon.Add(-time.Millisecond) })
	s := DefaultSettings()
	s.ActiveInterval = time.Hour
	g.Expect(Next(v, s).RequeueAt).To(Equal(noon.Add(time.Minute)))
}

// TestMediumTimeouts: the messages distinguish a medium that nobody requested from one that the server did not boot.
func TestMediumTimeouts(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	text := func(changes ...func(*View)) string {
		v := bootingView(append([]func(*View){hasMedia, on(31 * time.Minute)}, changes...)...)
		return describeTimeout(v, s, *v.Host.Boot)
	}
	g.Expect(text(attempted(3, viaMedia))).To(HavePrefix("30m0s after boot attempt 3 began: the BMC never requested the boot medium from http://192.0.2.1: check that it reaches"))
	g.Expect(text(attempted(3, viaMedia), mediumRefused)).To(Equal(
		"30m0s after boot attempt 3 began: 192.0.2.66 requested the boot medium, and the boot server refused it: why"))
	g.Expect(text(attempted(3, viaMedia), stage(v1alpha1.StageMedia))).To(HavePrefix(
		"30m0s after boot attempt 3 began: the BMC requested the boot medium at 2026-01-01T11:59:00Z (192.0.2.9), but the server did not boot from it. The likeliest cause: "))
	g.Expect(text(attempted(3, viaHTTP), fetched, stage(v1alpha1.StageDHCP))).To(ContainSubstring("the firmware requested the boot medium at 2026-01-01T11:59:00Z (192.0.2.9), but"))
	g.Expect(text(attempted(3, viaMedia), fetched, stage(v1alpha1.StageAgent), bootsAgent)).To(ContainSubstring("The agent runs"))
	g.Expect(text(attempted(3, viaPXE))).To(ContainSubstring("Awaited: the request for a boot file (DHCP)"))
}

// TestProgressOfAMedium: the condition shows the method, and what is awaited of it.
func TestProgressOfAMedium(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*View)
		reason string
		want   string
	}{
		"before the power-on":       {[]func(*View){func(v *View) { v.BMC.Power = v1alpha1.PowerOff }}, v1alpha1.ReasonPreparing, "Awaited until 2026-01-01T12:29:00Z: the BMC's request for the boot medium"},
		"fetched before the power":  {[]func(*View){stage(v1alpha1.StageMedia), func(v *View) { v.BMC.Power = v1alpha1.PowerOff }}, v1alpha1.ReasonPreparing, "The server is being prepared"},
		"nothing":                   {nil, v1alpha1.ReasonWaitingForMedia, "The server was powered on. Awaited until 2026-01-01T12:29:00Z: the BMC's request for the boot medium (HTTP)"},
		"refused":                   {[]func(*View){mediumRefused}, v1alpha1.ReasonMediaRefused, "It cannot be served: 192.0.2.66 requested the boot medium, and the boot server refused it: why. It continues if that is fixed before"},
		"fetched":                   {[]func(*View){stage(v1alpha1.StageMedia)}, v1alpha1.ReasonWaitingForMediaBoot, "The BMC requested the boot medium at 2026-01-01T11:59:00Z (192.0.2.9). Awaited"},
		"fetched, and DHCP":         {[]func(*View){fetched, stage(v1alpha1.StageDHCP)}, v1alpha1.ReasonWaitingForMediaBoot, "The BMC requested the boot medium"},
		"the loader":                {[]func(*View){fetched, stage(v1alpha1.StageLoader)}, v1alpha1.ReasonWaitingForKernel, "The server read the boot loader of the medium at 2026-01-01T11:59:00Z"},
		"the firmware fell to PXE":  {[]func(*View){fetched, stage(v1alpha1.StageScript)}, v1alpha1.ReasonWaitingForKernel, "The boot loader fetched the script"},
		"the medium is not its own": {[]func(*View){attempted(2, viaPXE), stage(v1alpha1.StageMedia)}, v1alpha1.ReasonWaitingForDHCP, "The server was powered on"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			v := bootingView(append([]func(*View){hasMedia, on(time.Minute), attempted(2, viaMedia), func(v *View) { v.BMC.PowerAt = noon }}, c.change...)...)
			progress := BootProgress(v, DefaultSettings(), Step{State: StateBooting})
			g.Expect(progress.Reason).To(Equal(c.reason))
			g.Expect(progress.Message).To(ContainSubstring(c.want))
			if v.Host.Boot.Method == viaMedia {
				g.Expect(progress.Message).To(HavePrefix("Boot attempt 2 (VirtualMedia). "))
			}
		})
	}
}

// TestMediumChangesOnlyWhileOff: a medium is inserted when the server is confirmed off, and ejected when nothing needs it.
func TestMediumChangesOnlyWhileOff(t *testing.T) {
	inserted := func(v *View) { v.BMC.MediaInserted = true }
	viaMedium := attempted(1, viaMedia)
	done := func(v *View) {
		bootsAgent(v)
		v.Host.Boot.DataServedTime, v.Host.Boot.CommitAllowedTime, v.Host.Boot.AgentDoneTime = &metav1.Time{Time: noon}, &metav1.Time{Time: noon}, &metav1.Time{Time: noon}
	}
	for name, c := range map[string]struct {
		view View
		want Action
	}{
		"off for long":                        {bootingView(hasMedia, viaMedium), SetNetworkBoot},
		"off, and read once":                  {bootingView(hasMedia, viaMedium, justOff), Nothing},
		"PXE needs no confirmation":           {bootingView(hasMedia, justOff), SetNetworkBoot},
		"PXE with a medium in the drive does": {bootingView(hasMedia, justOff, inserted), Nothing},
		"a BMC fetches it while it is off": {bootingView(hasMedia, viaMedium, netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
			v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-time.Second), noon.Add(-time.Hour)
			v.Observed.Media = v1alpha1.ObservedStage{Stage: v1alpha1.StageMedia, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
			v.Observed.Furthest = v.Observed.Media
		}), Nothing},
		"the firmware fetches it": {bootingView(hasMedia, attempted(1, viaHTTP), netbootSet, commanded(CommandPowerOn, 5*time.Second), func(v *View) {
			v.BMC.PowerAt, v.BMC.PowerSince = noon.Add(-time.Second), noon.Add(-time.Hour)
			v.Observed.Furthest = v1alpha1.ObservedStage{Stage: v1alpha1.StageMedia, Time: metav1.NewTime(noon.Add(-3 * time.Second))}
		}), SetNetworkBoot},
		"the override stays while only the medium was requested": {bootingView(hasMedia, viaMedium, on(time.Minute), overrideSet, stage(v1alpha1.StageMedia)), Nothing},
		"the agent runs":                           {bootingView(hasMedia, viaMedium, bootsAgent, on(time.Minute), inserted, stage(v1alpha1.StageAgent)), Nothing},
		"the agent is done":                        {bootingView(hasMedia, viaMedium, on(time.Minute), done, inserted), EjectMedia},
		"the agent is done, and the server is off": {bootingView(hasMedia, viaMedium, done, inserted), EjectMedia},
		"the agent is done, off is read once":      {bootingView(hasMedia, viaMedium, done, inserted, justOff), PowerOn},
		"the agent is done, the drive is empty":    {bootingView(hasMedia, viaMedium, on(time.Minute), done), Nothing},
		"it reported":                              {bootingView(hasMedia, viaMedium, on(time.Minute), done, reported, inserted), EjectMedia},
		"it reported, and the BMC is away":         {bootingView(hasMedia, viaMedium, on(time.Minute), done, reported, inserted, bmcDown), Nothing},
		"it is provisioned":                        {bootingView(hasMedia, viaMedium, on(time.Minute), done, reported, provisioned, inserted), Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			step := Next(c.view, DefaultSettings())
			NewWithT(t).Expect(step.Action).To(Equal(c.want), step.Message)
		})
	}
}

// TestInspectionEjects: after an inspection the server is powered off, then the medium is ejected, and then the boot is void.
func TestInspectionEjects(t *testing.T) {
	g := NewWithT(t)
	done := func(v *View) {
		v.Host.Boot.Method, v.Host.Boot.AgentDoneTime, v.BMC.MediaInserted, v.Observed.Furthest.Stage = viaMedia, &metav1.Time{Time: noon}, true, v1alpha1.StageAgent
	}
	g.Expect(Next(inspectingView(hasMedia, poweredOn, done), DefaultSettings()).Action).To(Equal(ForceOff))
	v := inspectingView(hasMedia, done)
	g.Expect(Next(v, DefaultSettings()).Action).To(Equal(EjectMedia))
	v.BMC.MediaInserted = false
	step := Next(v, DefaultSettings())
	g.Expect(step.Action).To(Equal(RecordBoot))
	g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
}

// TestEachMethodHasAnAttempt: a boot has as many attempts as methods, even if fewer are configured.
func TestEachMethodHasAnAttempt(t *testing.T) {
	g := NewWithT(t)
	s := DefaultSettings()
	s.BootAttempts = 1
	v := bootingView(hasMedia, on(31*time.Minute))
	for attempt, method := range map[int32]v1alpha1.BootMethod{1: viaPXE, 2: viaHTTP} {
		attempted(attempt, method)(&v)
		step := Next(v, s)
		g.Expect(step.Action).To(Equal(RecordBoot))
		g.Expect(step.Boot.Failure).To(BeNil())
		g.Expect(step.Boot.Attempt).To(Equal(attempt + 1))
	}
	attempted(3, viaMedia)(&v)
	g.Expect(Next(v, s).Boot.Failure).NotTo(BeNil())
}

// TestMethodThatWorked: what shows that a method works.
func TestMethodThatWorked(t *testing.T) {
	for name, c := range map[string]struct {
		change []func(*View)
		want   bool
	}{
		"nothing":               {nil, false},
		"DHCP":                  {[]func(*View){stage(v1alpha1.StageDHCP)}, true},
		"a script":              {[]func(*View){func(v *View) { v.Host.Boot.ScriptAddress = "192.0.2.9" }}, false},
		"its data":              {[]func(*View){seeded}, false},
		"a report":              {[]func(*View){seeded, reported}, true},
		"a report, no data":     {[]func(*View){reported}, false},
		"a report, by medium":   {[]func(*View){attempted(1, viaMedia), seeded, reported}, false},
		"only the medium":       {[]func(*View){attempted(1, viaMedia), stage(v1alpha1.StageMedia)}, false},
		"the agent":             {[]func(*View){attempted(1, viaMedia), fetched, stage(v1alpha1.StageAgent)}, true},
		"the agent, by PXE":     {[]func(*View){attempted(1, viaMedia), stage(v1alpha1.StageAgent)}, false},
		"a loader, that of PXE": {[]func(*View){attempted(1, viaMedia), fetched, stage(v1alpha1.StageLoader)}, false},
		"the kernel":            {[]func(*View){attempted(1, viaMedia), fetched, stage(v1alpha1.StageKernel)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(bootingView(append([]func(*View){hasMedia, on(time.Minute)}, c.change...)...).MethodWorked()).To(Equal(c.want))
		})
	}
}

// TestPropertyOneNumberHasOneMethod: no step changes the method of a boot, and no attempt ends early once its server booted, or got anything.
func TestPropertyOneNumberHasOneMethod(t *testing.T) {
	drawMore(t)
	early := 0
	rapid.Check(t, func(t *rapid.T) {
		v := pick(draw{t}, "view", drawView, drawAgentView, drawMediaView)(t)
		s := DefaultSettings()
		step := Next(v, s)
		before := v.Host.CurrentBoot()
		if step.Action != RecordBoot || before == nil {
			return
		}
		b := step.Boot
		switch {
		case b.Number == before.Number && b.Method != before.Method:
			t.Fatalf("the method %q of boot %d became %q: %+v", before.Method, b.Number, b.Method, v)
		case b.Number == before.Number || b.Attempt != before.Attempt+1 || b.Purpose != before.Purpose:
			return
		case agentOver(v, s, *before) != "" || !v.Now.Before(v.Deadline(s)):
			return
		}
		early++
		if before.DataServedTime != nil || before.CommitAllowedTime != nil || v.Observed.bootedMedium() || v.Consumer.Paused || v.Host.Paused {
			t.Fatalf("an attempt ends early although its server booted, or the Cluster is paused: %+v", v)
		}
		if b.Method == MethodOf(before) {
			t.Fatalf("an attempt ends early for the same method: %+v", v)
		}
	})
	if early == 0 {
		t.Error("no attempt ended early")
	}
}

// drawMediaView draws a boot of a provider with boot media.
func drawMediaView(t *rapid.T) View {
	d := draw{t}
	v := bootingView(hasMedia, on(pick(d, "on", time.Minute, 11*time.Minute, 31*time.Minute)))
	attempted(rapid.Int32Range(1, 3).Draw(t, "attempt"), pick(d, "method", viaPXE, viaHTTP, viaMedia))(&v)
	stage(pick(d, "stage", "", "", "", v1alpha1.StageMedia, v1alpha1.StageDHCP, v1alpha1.StageScript, v1alpha1.StageAgent))(&v)
	if d.flag("agent") {
		bootsAgent(&v)
	}
	v.Host.Boot.DataServedTime, v.Host.Boot.CommitAllowedTime = pick(d, "data", nil, nil, &metav1.Time{Time: noon}), pick(d, "commit", nil, nil, &metav1.Time{Time: noon})
	v.Consumer.Paused, v.BMC.MediaInserted = pick(d, "paused", false, false, true), d.flag("inserted")
	v.BMC.MethodRefused = pick(d, "refused", nil, nil, &MethodRefusal{Boot: 1, Message: "no"})
	return v
}
