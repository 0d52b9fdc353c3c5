package mutants_test

const (
	nextFile       = "next.go"
	offerFile      = "offer.go"
	identityFile   = "identity.go"
	bootFile       = "boot.go"
	attemptEndFile = "attemptend.go"
	powerHoldFile  = "powerhold.go"
	releaseFile    = "release.go"
	viewFile       = "view.go"
	powerFile      = "power.go"
	bootForFile    = "bootfor.go"
	bootQueueFile  = "bootqueue.go"
	recordFile     = "record.go"
	ownFile        = "own.go"
	inspectionFile = "inspection.go"
	agentFile      = "agent.go"
	erasureFile    = "erasure.go"
	onceFile       = "eraseonce.go"
)

// lifecycleMutants are those of inventory/lifecycle. A new line of the lifecycle deserves one here.
var lifecycleMutants = []mutant{
	// The order of the table, and its lines.
	{
		"a paused host is let go", nextFile,
		"	{StatePaused, isPaused, stayPaused},\n	{StateDeleting, func(v View) bool { return v.Deleting && !v.Claimed() }, deleteUnclaimed},\n",
		"	{StateDeleting, func(v View) bool { return v.Deleting && !v.Claimed() }, deleteUnclaimed},\n	{StatePaused, isPaused, stayPaused},\n",
	},
	{"detached means nothing", nextFile, "	{StateDetached, func(v View) bool { return v.Detached != \"\" }, stayDetached},\n", ""},
	{"maintenance means nothing", nextFile, "	{StateMaintenance, func(v View) bool { return v.Spec.Maintenance != nil }, stayInMaintenance},\n", ""},
	{"a lost consumer means nothing", nextFile, "	{StateOrphaned, isOrphaned, stayOrphaned},\n", ""},
	{"an externally provisioned host is never released", nextFile, "v.Spec.ExternallyProvisioned && !v.releasing()", "v.Spec.ExternallyProvisioned"},
	{"an externally provisioned host is cleaned", nextFile, "v.releasing() && !v.Spec.ExternallyProvisioned && v.Spec.CleaningStartedAt", "v.releasing() && v.Spec.CleaningStartedAt"},
	{
		"quarantine means nothing", nextFile,
		"	{StateQuarantined, func(v View) bool { return !v.Claimed() && v.Spec.Quarantine != nil }, stayQuarantined},\n	{StateFree, func(v View) bool { return !v.Claimed() }, offerHost},\n",
		"	{StateFree, func(v View) bool { return !v.Claimed() }, offerHost},\n	{StateQuarantined, func(v View) bool { return !v.Claimed() && v.Spec.Quarantine != nil }, stayQuarantined},\n",
	},
	{
		"holds mean nothing", nextFile, "	{StatePowerHold, View.powerHoldActive, applyPowerHold},\n	{StateProvisioned, View.Provisioned, stayProvisioned},\n",
		"	{StateProvisioned, View.Provisioned, stayProvisioned},\n	{StatePowerHold, View.powerHoldActive, applyPowerHold},\n",
	},
	{
		"a machine that ran from memory is held", nextFile, "	{StateLost, func(v View) bool { return v.Provisioned() && v.stateLost() }, recordStateLoss},\n	{StatePowerHold, View.powerHoldActive, applyPowerHold},\n",
		"	{StatePowerHold, View.powerHoldActive, applyPowerHold},\n	{StateLost, func(v View) bool { return v.Provisioned() && v.stateLost() }, recordStateLoss},\n",
	},
	{"a machine is lost by what was read before it ran", bootFile, "since = latest(since, b.DataServedAt.Time)", "_ = since"},
	{"nothing is ever lost", nextFile, "v.Provisioned() && v.stateLost()", "false && v.stateLost()"},
	{"a failure is forgotten", nextFile, "(v.Boot.Failure != nil || v.Boot.Purpose", "(v.Boot.Purpose"},
	{"a report is forgotten", nextFile, "v.CurrentBoot() != nil && v.Boot.ReportedAt != nil }, awaitProviderID}", "false }, awaitProviderID}"},

	// What the lines go by.
	{"a release goes on while it is paused", nextFile, "v.InFlight() && c != nil && c.Found && c.ClusterFound && !c.Deleting", "v.InFlight() && c != nil && c.Found && c.ClusterFound"},
	{"a machine that is moved is released", nextFile, "v.Consumer != nil && (v.Consumer.Paused || v.Consumer.DeletedForMove)", "v.Consumer != nil && v.Consumer.Paused"},
	{"a lost Cluster means nothing", nextFile, "c == nil || !c.Found || !c.ClusterFound || c.ProviderID", "c == nil || !c.Found || c.ProviderID"},
	{"another one's provider ID means nothing", nextFile, `!c.ClusterFound || c.ProviderID != "" && c.ProviderID != v.providerID()`, "!c.ClusterFound"},
	{"every machine is released", nextFile, "v.Consumer != nil && v.Consumer.Found && v.Consumer.Deleting\n", "v.Consumer != nil && v.Consumer.Found\n"},
	{"an orphan that is deleted is forgotten", nextFile, "v.Deleting && v.NamespaceDeleting && (", "v.Deleting && ("},
	{"a move waits for a paused host", nextFile, "var moveAllowedStates = []State{StatePaused, ", "var moveAllowedStates = []State{"},
	{"a power cycle of a free host is kept", nextFile, "StateCleaning, StateQuarantined, StateFree, StateLost", "StateCleaning, StateQuarantined, StateLost"},

	// Looking.
	{"a busy BMC is asked", nextFile, "	case v.BMC.Busy:\n		return Step{Message: \"Waiting for the BMC's answer\"}, true\n", ""},
	{"a BMC without a Secret is asked", viewFile, "p != nil && (p.RetryAt.IsZero() || ", "p != nil && ("},
	{"a BMC that failed is asked at once", viewFile, "v.Now.Before(p.RetryAt))", "v.Now.After(p.RetryAt))"},
	{"an old power state is believed", nextFile, "case !v.powerKnown(maxAge):", "case !v.usable():"},
	{"a power state from before the command is believed", viewFile, `v.BMC.Power != "" && v.BMC.PowerAt.After(v.BMC.LastPowerAt) && v.Now.Sub`, `v.BMC.Power != "" && v.Now.Sub`},
	{"it waits until a moment that is over", nextFile, `v.BMC.Power != "" && v.Now.Before(due)`, `v.BMC.Power != "" && !v.Now.Before(due)`},
	{"a command is repeated at once", powerFile, "v.BMC.LastPower == c && v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle))", "v.BMC.LastPower == c && v.Now.After(v.BMC.LastPowerAt.Add(s.PowerSettle))"},
	{"a command comes in a transition of the power", powerFile, " || v.powerTransitionPending(s) {", " {"},
	{"a request to shut down comes in a transition of the power", powerFile, "	case v.powerTransitionPending(s):\n", "	case false:\n"},
	{"a transition of the power is waited for without end", powerFile, "return v.powerChanging() && v.Now.Before(v.BMC.PowerSince.Add(s.PowerSettle))", "return v.powerChanging() && s.PowerSettle > 0"},
	{"who powers off is off", powerFile, `v.BMC.Power != "" && v.BMC.Power != v1alpha1.PowerOff }`, `v.BMC.Power != "" && v.BMC.Power != v1alpha1.PowerOff && v.BMC.Power != v1alpha1.PoweringOff }`},
	{"who powers on is on", powerFile, "v.notOff() && v.BMC.Power != v1alpha1.PowerOn }", "v.notOff() && v.BMC.Power == v1alpha1.PoweringOff }"},
	{"a shutdown is waited for without end", powerFile, "case v.Now.Before(asked.Add(s.ShutDownTimeout)):", "case !asked.IsZero():"},

	// Offering.
	{"a host with another one's MAC address is offered", offerFile, "	case v.hasConflict():\n		_, known", "	case false:\n		_, known"},
	{"another server than the inventory has is believed", identityFile, `	case v.Replaced != "":`, "	case false:"},
	{"a server that is another host's is believed", identityFile, `	case v.HardwareTakenBy != "":` + "\n		problem", "	case false:\n		problem"},
	{"the BMC of another host is asked", identityFile, `	case v.NotPermitted != "" || v.BMCTakenBy != "":` + "\n		problem", "	case false:\n		problem"},
	{"what another server reports counts", identityFile, "v.BMC = BMC{Problem: problem, Busy: v.BMC.Busy, OverrideSet: v.BMC.OverrideSet, OverrideNote: v.BMC.OverrideNote}", "v.BMC.Problem = problem"},
	{"a server is commanded before its inventory was read", nextFile, "case !step.Action.Commands() || v.BMC.Inspected:", "case true:"},
	{"a host that cannot be booted is offered", offerFile, "case v.BMC.Inspected && len(v.BMC.Missing) > 0:", "case false:"},
	{"a running server is offered", offerFile, `case want == "" && v.notOff():`, "case false:"},
	{"a server that a machine says it runs on is offered", offerFile, `case v.UnrecordedConsumer != "":`, "case false:"},
	{"an inventory for which time ran out is whole", viewFile, "	if v.BMC.Partial {\n", "	if false {\n"},

	// Releasing and cleaning.
	{"a power-off is not confirmed", releaseFile, "		if !v.confirmedOff(s) {\n", "		if false {\n"},
	{"a server that was just switched on counts as off", powerFile, "if v.Now.Before(v.BMC.LastPowerAt.Add(s.PowerSettle)) {\n			return false", "if false {\n			return false"},
	{"a server that the former process switched on counts as off", powerFile, "apart = max(apart, s.PowerSettle)", "apart = max(apart, s.ActiveInterval)"},
	{"a server that came on is given back", releaseFile, "case v.BMC.Power != v1alpha1.PowerOff:\n		step.Action, step.Message = RecordCleaning", "case false:\n		step.Action, step.Message = RecordCleaning"},
	{"the cleaning is skipped", releaseFile, "case v.BMC.CleanedAt.After(v.BMC.LastPowerAt) && v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt):", "case true:"},
	{"an override that was set after the cleaning stays", releaseFile, " && v.BMC.CleanedAt.After(v.BMC.NetworkBootSetAt):", ":"},
	{"a host that a person is to clean is offered", releaseFile, "v.Spec.CleaningPolicy == v1alpha1.CleaningManual", "v.Spec.CleaningPolicy == \"\" && false"},
	{"a failed cleaning is no reason for quarantine", releaseFile, "step.Message, step.Quarantine = message, v.newQuarantine(v1alpha1.ReasonCleaningFailed, message)", "step.Message = message"},
	{"a cleaning fails without a try", releaseFile, "return !v.BMC.CleanUpTriedAt.Before(", "return !v.Now.Before("},
	{"a BMC that keeps its images is asked for ever", releaseFile, "case v.BMC.CleanUpFailures >= maxCleanUpAttempts, v.cleaningTimedOut(s):", "case false && v.cleaningTimedOut(s) && maxCleanUpAttempts > 0:"},
	{"a host is let go that is not given up", releaseFile, " && (v.releasing() || isOrphaned(v))", ""},
	{"a host is let go too early", releaseFile, "return after != nil && !v.Now.Before(", "return after != nil && v.Now.Before("},
	{"what is let go goes into no quarantine", releaseFile, "	return &v1alpha1.Quarantine{Reason: reason, Message: message, Since: &now}", "	_ = &v1alpha1.Quarantine{Reason: reason, Message: message, Since: &now}\n	return nil"},

	// Holding.
	{"a hold is not recorded first", powerHoldFile, "	case since == nil:\n", "	case since == nil && !wanted:\n"},
	{"one reading is enough for a hold", powerHoldFile, "return v.confirmedOff(s) && v.powerUnchangedFor(since) >= apart", "return apart > 0 && !since.IsZero()"},
	{"what counts as off is switched on", powerHoldFile, "	case offAt != nil:\n", "	case offAt != nil && wanted:\n"},
	{"the power that is owed is forgotten", powerHoldFile, "len(v.PowerRequests.On) > 0 || v.Spec.PowerHoldSince != nil)", "len(v.PowerRequests.On) > 0)"},
	{"a server that may still shut down counts as on", powerHoldFile, "	if !v.confirmedOn(s) {\n", "	if false {\n"},
	{"a command whose answer was lost means nothing", powerHoldFile, "v.BMC.FirstShutDownAt.IsZero() && v.BMC.OffUnansweredAt.IsZero()", "v.BMC.FirstShutDownAt.IsZero()"},
	{"who wants a server on believes an old reading", powerHoldFile, "change = onceBMCKnown(v, s, s.ActiveInterval, Step{}, recordPowerOnRequest(v, now))", "change = recordPowerOnRequest(v, now)"},
	{"a machine that ran from memory is switched on", powerHoldFile, "v.BMC.Power == v1alpha1.PowerOff && v.Consumer.Persistence == v1alpha1.PersistenceEphemeral", "false"},

	// Booting.
	{"a boot begins without bootstrap data", bootFile, "if !v.Consumer.BootstrapReady {", "if false {"},
	{"a boot begins for a machine that is about to go", bootFile, "if v.Consumer.OwnerDeleting {", "if false {"},
	{"a boot begins on a host that is about to go", bootFile, "	if v.Deleting {\n", "	if false {\n"},
	{"a server that was found running is booted", bootFile, "if v.notOff() && v.Spec.Power != v1alpha1.PowerOn {", "if false {"},
	{"both hosts of a machine are booted", bootFile, "if len(v.SharesConsumerWith) > 0 {", "if false {"},
	{"a boot begins before its turn", bootFile, "	if v.QueuePosition != nil {\n", "	if false {\n"},
	{"a server whose agent ended is powered on again and again", agentFile, "	case v.agentRan(attempt) && v.BMC.Power == v1alpha1.PowerOff && ", "	case false && v.agentRan(attempt) && v.BMC.Power == v1alpha1.PowerOff && "},
	{"an attempt whose agent was refused goes on", agentFile, "	case attempt.AgentRefusedAt != nil && mayRepeat(attempt):\n", "	case attempt.AgentRefusedAt != nil && false:\n"},
	{"one reading ends an attempt of an agent", bootFile, "	case v.agentRan(attempt) && !v.confirmedOff(s):\n", "	case v.agentRan(attempt) && v.Deleting && !v.confirmedOff(s):\n"},
	// Inspections.
	{"the next attempt does not know of the permission", bootFile, "		boot.CommittedNumber = committedNumber(last)\n", "		_ = last\n"},
	{"the second next attempt does not know of the permission", agentFile, "	return last.CommittedNumber\n", "	return 0\n"},
	{"the second permission is that of the first attempt", agentFile, "	if last.CommitAllowedAt != nil {\n		return last.Number", "	if last.CommitAllowedAt != nil && last.CommittedNumber == 0 {\n		return last.Number"},
	{"an agent that is done is booted again", agentFile, "		return attempt.AgentDoneAt == nil\n", "		return true\n"},
	{"the next boot does not know which disks were written", recordFile, "		boot.WrittenDisks = v.Boot.WrittenDisks\n", "		boot.WrittenDisks = nil\n"},
	{"a host is released before its disks are erased", releaseFile, "	case v.erasureDue(s):\n", "	case false:\n"},
	{"a host whose disks were not erased is offered", erasureFile, "	if b := v.erasure(); b != nil && b.Failure != nil {\n", "	if b := v.erasure(); b != nil && b.Failure != nil && v.Deleting {\n"},
	{"all disks of a server that was never booted are erased", erasureFile, "	case cleaning.AllDisks(policy) && v.mayHaveBooted():\n		return v.recordOfClaim() != nil\n", "	case cleaning.AllDisks(policy):\n		return true\n"},
	{"a host is offered although the record of its boots is lost", erasureFile, "	case written || cleaning.AllDisks(policy) && v.mayHaveBooted():\n", "	case written:\n"},
	{"an edit of the host ends its erasure", erasureFile, "		return e.AgentDoneAt == nil && e.Failure == nil && e.VoidedAt == nil\n", "		return e.AgentDoneAt == nil && e.Failure == nil && e.VoidedAt == nil && cleaning.Erases(v.policy(s))\n"},
	{"the next attempt has another policy", erasureFile, "		return e.CleaningPolicy\n", "		return v.policy(s)\n"},
	{"a machine cannot ask for an erasure", erasureFile, "		claimed = ref.CleaningPolicy\n", "		_ = ref\n"},
	{"an erasure has no end", bootQueueFile, "v.countedFrom().Add(max(s.EraseTimeout, s.BootTimeout))", "v.countedFrom().Add(1000 * max(s.EraseTimeout, s.BootTimeout))"},
	{"an erasure of large disks is cut off", bootQueueFile, "	if v.Boot.Purpose == v1alpha1.PurposeClean {\n", "	if false {\n"},
	{"a host is offered that cannot be purged", inspectionFile, "step.Phase != v1alpha1.PhaseAvailable || len(disks) == 0 || v.policy(s) != v1alpha1.CleaningPurge", "len(disks) == 0 || true"},
	{"disks are erased for a host that is not cleaned", bootForFile, "	case StateCleaning:\n		if !v.erasing() || ", "	case StateCleaning:\n		if "},
	{"an inspection with bootstrap data ends the provider", bootFile, "attempt.Purpose == v1alpha1.PurposeProvision && attempt.DataServedAt", "attempt.DataServedAt"},
	{"a server that was read as off once is inspected", inspectionFile, "v.BMC.Power != v1alpha1.PowerOff || !v.confirmedOff(s)", "v.BMC.Power != v1alpha1.PowerOff"},
	{"a server is inspected while a Cluster is paused", inspectionFile, "	case v.Inspection.PausedCluster != \"\":\n", "	case v.Inspection.PausedCluster != \"\" && v.Deleting:\n"},
	{"a server is inspected during a power hold", inspectionFile, "	case len(holds) > 0:\n", "	case len(holds) > 1000:\n"},
	{"an agent keeps running after a second attempt", inspectionFile, "(b.PoweredOnAt != nil || b.PoweredOffAt == nil)", "b.PoweredOnAt != nil"},
	{"a server is powered off that its inspection did not power on", inspectionFile, "(b.PoweredOnAt != nil || b.PoweredOffAt == nil)", "b.Number > 0"},
	{"a server that a person powered on is inspected", inspectionFile, "attempt.PoweredOffAt != nil && attempt.PoweredOnAt == nil && v.notOff()", "false"},
	{"a failed inspection is repeated", inspectionFile, "v.Inspection.Reported || last != nil && last.Failure != nil", "v.Inspection.Reported"},
	{"an inspection is repeated before its report is visible", inspectionFile, "last.AgentDoneAt.Add(reportDelay)", "last.AgentDoneAt.Time"},
	{"a request for an inspection stays", inspectionFile, "		step.Drop = []string{v1alpha1.InspectAnnotation}\n", ""},
	{"a host whose inspection failed is offered", inspectionFile, "	case v.Spec.Inspection == v1alpha1.InspectionAgent:\n", "	case v.Spec.Inspection == v1alpha1.InspectionBMC:\n"},
	{"the agent runs after the inspection", inspectionFile, "b != nil && !v.inspectionOver(*b) && v.bootCounted()", "b != nil && v.bootCounted()"},
	{"an inspection is a stray boot", recordFile, " || ofNoMachine(v.Boot) {", " {"},
	{"an inspection makes a boot unknown", recordFile, " && !ofNoMachine(b):\n", ":\n"},
	// Erasures of free hosts.
	{"the disks of another server are erased", onceFile, "	case !strings.EqualFold(wanted, known):\n", "	case wanted == known && v.Deleting:\n"},
	{"the disks of a machine with the provider ID are erased", onceFile, "	case v.EraseOnce.Machine != \"\":\n", "	case v.EraseOnce.Machine != \"\" && v.Deleting:\n"},
	{"disks are erased while a Cluster is paused", onceFile, "	case v.Inspection.PausedCluster != \"\":\n", "	case v.Inspection.PausedCluster != \"\" && v.Deleting:\n"},
	{"disks are erased during a power hold", onceFile, "	case len(holds) > 0:\n", "	case len(holds) > 1000:\n"},
	{"the disks of a server that is wanted on are erased", onceFile, "	case v.Spec.Power == v1alpha1.PowerOn:\n", "	case false:\n"},
	{"disks are erased without a policy for that", onceFile, "	case !cleaning.AllDisks(policy):\n", "	case !cleaning.AllDisks(policy) && v.Deleting:\n"},
	{"disks are erased that cannot be purged", onceFile, "	if purge := v.offerPurgeable(s, step); purge.Phase != v1alpha1.PhaseAvailable {\n", "	if purge := v.offerPurgeable(s, step); false {\n"},
	{"the disks of a server that was read as off once are erased", onceFile, "v.powerUnchangedFor(v.BMC.LastPowerAt) >= s.ActiveInterval", "true"},
	{"an erasure that was refused in the meantime begins", onceFile, "v.eraseOnceRefusal(attempt.CleaningPolicy) != \"\" || attempt.PoweredOffAt", "attempt.PoweredOffAt"},
	{"an erasure begins on a server that a person powered on", onceFile, "|| attempt.PoweredOffAt != nil && v.notOff())", "|| false)"},
	{"an erasure begins after a claim", onceFile, "	return v.Claimed() || v.bmcRead() && ", "	return v.bmcRead() && "},
	{"a record from a backup powers a server off", onceFile, "b == nil || v.eraseOnceOutdated(s):\n		return false", "b == nil:\n		return false"},
	{"a record of nothing that was observed powers a server off", onceFile, "b.PoweredOnAt != nil && (v.Furthest.Stage != \"\" || v.BMC.LastPower == CommandPowerOn)", "b.PoweredOnAt != nil"},
	{"the agent runs after its erasure", onceFile, "	if !v.mayRunEraser(s) {\n		return conclusion\n	}\n", "	if true {\n		return conclusion\n	}\n"},
	{"an attempt follows a record from a backup", onceFile, "	case v.eraseOnceOutdated(s):\n", "	case false:\n"},
	{"an attempt follows on a server that runs something else", onceFile, "	case v.notOff() && !v.mayRunEraser(s):\n", "	case false:\n"},
	{"the next attempt has the policy of the host", onceFile, "v.newEraseOnce(attempt.Attempt+1, attempt.CleaningPolicy)", "v.newEraseOnce(attempt.Attempt+1, v.policy(s))"},
	{"a host whose erasure failed is offered", onceFile, "	case failure != nil && (v.Spec.EraseOnce != \"\" || v.Spec.Quarantine == nil):\n", "	case false:\n"},
	{"a request to erase disks is never consumed", onceFile, "	case v.Spec.EraseOnce != \"\":\n		step.Action, step.Message = EndEraseOnce", "	case false:\n		step.Action, step.Message = EndEraseOnce"},
	{"a machine boots after an erasure that failed", onceFile, "	case failure != nil && v.Claimed():\n", "	case false:\n"},
	{"an outcome stays unwritten in quarantine", nextFile, "	if v.eraseOnceIsOver() {\n", "	if false {\n"},
	{"the record of an erasure that runs is deleted", recordFile, "	case v.EraseOnceBoot() != nil: // it says what was erased\n", "	case false:\n"},
	{"an erasure that is over is served", onceFile, "b != nil && b.AgentDoneAt == nil && b.Failure == nil && v.bootCounted()", "b != nil && v.bootCounted()"},
	{"a machine ends an erasure", bootForFile, "	case StateClaimed:\n		if !v.erasesOnce(s) {", "	case StateClaimed:\n		if true {"},
	{"a host with a request is offered", offerFile, "	case v.Spec.EraseOnce != \"\" && !v.agentInspectionDue():\n", "	case false:\n"},
	{"a host that is erased in part is released", erasureFile, "b.AgentDoneAt == nil && (b.PoweredOnAt != nil || b.Attempt > 1) && v.Spec.EraseOnce == \"\"", "false"},
	{"a next attempt begins before its turn", attemptEndFile, "	case v.QueuePosition != nil:\n", "	case v.QueuePosition != nil && v.MoveBlocked:\n"},
	{"a host whose BMC is away is queued", bootQueueFile, "StateOf(v) == StateClaimed && !v.usable()", "StateOf(v) == StateClaimed && v.BMC.Power == \"\""},
	{"a host that reported in keeps others waiting", bootQueueFile, "b == nil || b.ReportedAt != nil || b.Failure != nil", "b == nil || b.Failure != nil"},
	{"the boot of a queued server times out", bootQueueFile, "return latest(v.Boot.StartedAt.Time, v.WaitedAt) }", "return v.Boot.StartedAt.Time }"},
	{"a server counts as off without a look", bootFile, "if v.BMC.Power == v1alpha1.PowerOff && v.BMC.PowerAt.After(v.BMC.LastPowerAt) {", "if true {"},
	{"a boot has no deadline", bootFile, "	case !v.Now.Before(deadline):\n", "	case false:\n"},
	{"a boot waits without looking at its deadline", bootFile, `if step.Action == "" && (step.RequeueAt.IsZero() || step.RequeueAt.After(deadline)) {`, `if step.Action == "" && step.RequeueAt.After(deadline) {`},
	{"a server that boots is power-cycled", bootFile, "case attempt.PoweredOffAt == nil && !off:", "case !off && v.Furthest.Stage == v1alpha1.StageDHCP, attempt.PoweredOffAt == nil && !off:"},
	{"a server that has its data boots from the network", bootFile, "case mayRepeat(attempt) && !v.networkBootPending(attempt):", "case !v.networkBootPending(attempt):"},
	{
		"a machine that ran from memory is started again", bootFile,
		"case v.ranFromMemory(attempt) && !v.offLongEnough():", "case attempt.DataServedAt != nil && v.Problem != nil && !v.offLongEnough():",
	},
	{"a seeded boot is tried again", attemptEndFile, "	case !mayRepeat(attempt):\n", "	case attempt.ReportedAt != nil:\n"},
	{"a boot is tried for ever", attemptEndFile, "case attempt.Attempt >= s.BootAttempts:", "case attempt.Attempt < 0:"},
	{"a packet of firmware ends a machine", bootFile, "v.restarted() && !v.NodeLostAt.IsZero()", "v.restarted()"},
	{"an installed machine is lost", bootFile, "return ephemeral && (v.offLongEnough()", "return (ephemeral || true) && (v.offLongEnough()"},
	{"a command is given to a server that reported in while its BMC is busy", bootFile, "v.BMC.OverrideSet && !v.BMC.Busy && !v.bmcBlocked()", "v.BMC.OverrideSet && !v.bmcBlocked()"},
	{"the boot server gives the data out again", bootForFile, "		case mayRepeat(*v.Boot):\n			return v.networkBoot(BootNetwork)", "		case v.Boot.Failure == nil:\n			return v.networkBoot(BootNetwork)"},

	// What is known of a boot.
	{"the record of another claim counts", recordFile, `|| ref.ClaimID == "" || b.ClaimID != ref.ClaimID || b.VoidedAt`, `|| ref.ClaimID == "" || b.VoidedAt`},
	{"an empty claim has an empty record", recordFile, `b == nil || ref.ClaimID == "" || b.ClaimID`, "b == nil || b.ClaimID"},
	{"a void record counts", recordFile, "|| b.VoidedAt != nil || b.Number < v.Spec.Boots {", "|| b.Number < v.Spec.Boots {"},
	{"a record from before the host counts", recordFile, "|| b.VoidedAt != nil || b.Number < v.Spec.Boots {", "|| b.VoidedAt != nil {"},
	{"what nobody knows means nothing", nextFile, "	{StateBootUnknown, View.bootUnknown, stayBootUnknown},\n", ""},
	{"an installed machine that runs needs its record", recordFile, "|| v.Provisioned() && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral {", "{"},
	{"a machine in memory needs no record", recordFile, "|| v.Provisioned() && v.Consumer.Persistence != v1alpha1.PersistenceEphemeral {", "|| v.Provisioned() {"},
	{"a claim without an ID is in no doubt", recordFile, `	case ref.ClaimID == "":` + "\n		return ", `	case ref.ClaimID == "" && b == nil && v.Spec.Boots > 1000:` + "\n		return "},
	{"a record that is missing is in no doubt", recordFile, "	case b == nil && v.bootedSinceClaim():\n", "	case false:\n"},
	{"a host that was not booted since the claim is in doubt", recordFile, "v.Spec.Boots > v.Spec.ConsumerRef.BootsBefore }", "v.Spec.Boots >= v.Spec.ConsumerRef.BootsBefore }"},
	{"what the host counted at the claim means nothing", recordFile, "v.Spec.Boots > v.Spec.ConsumerRef.BootsBefore }", "v.Spec.Boots > 0 }"},
	{"a record from before is in no doubt", recordFile, "	case b.Number < v.Spec.Boots && (v.bootedSinceClaim() || b.ClaimID == ref.ClaimID):\n", "	case false:\n"},
	{"a record of the claim from before the claim is in no doubt", recordFile, "(v.bootedSinceClaim() || b.ClaimID == ref.ClaimID):\n", "v.bootedSinceClaim():\n"},
	{"a claim that ended, and did not, is in no doubt", recordFile, "	case b != nil && b.ClaimID == ref.ClaimID && b.VoidedAt != nil:\n", "	case false:\n"},
	{"the record of another claim that did not end is in no doubt", recordFile, "	case b.Number >= v.Spec.Boots && IsOpen(b) && !ofNoMachine(b):\n", "	case false:\n"},
	{"a record of another claim from before the claim is in doubt", recordFile, "	case b.Number >= v.Spec.Boots && IsOpen(b) && !ofNoMachine(b):", "	case IsOpen(b):"},
	{"a move waits for what nobody knows", recordFile, "step := allowMoveOrPoll(v, s)", "step := pollBMC(v, s)"},

	// The record of a boot.
	{"a number is given twice", recordFile, "Number: number + 1,", "Number: max(number, 1),"},
	{"a number that was recorded and not counted is given again", recordFile, "		number = max(number, v.Boot.Number)\n", "		number = max(number, 0)\n"},
	{"a boot is not counted before its first command", bootFile, "	if !v.bootCounted() {\n", "	if false {\n"},
	{"a boot that is not counted is under way", recordFile, "return v.booting() && v.bootCounted()", "return v.booting()"},
	{"a server is switched on before that is recorded", bootFile, "	case attempt.PoweredOnAt == nil:\n", "	case false:\n"},
	{"a server that is not switched on yet is served", bootForFile, "if v.Boot.PoweredOnAt == nil {", "if false {"},
	{"a host is free before its boot is void", nextFile, "		step = v.voidBootFirst(step)\n", "		_ = v.voidBootFirst\n"},
	{"a boot that is void is open", recordFile, `return b != nil && b.ClaimID != "" && b.VoidedAt == nil`, `return b != nil && b.ClaimID != ""`},
	{"a host whose boot is not void is offered", offerFile, "	case v.StrayBoot() != nil:\n", "	case false:\n"},
	{"a host that boots for nobody goes as it is", releaseFile, "	if !booting || v.Spec.Maintenance", "	if booting || !booting || v.Spec.Maintenance"},
	{"a host in maintenance that boots for nobody is powered off", releaseFile, "!booting || v.Spec.Maintenance != nil || ", "!booting || "},
	{"a host that boots for nobody goes before it is surely off", releaseFile, "	case !v.confirmedOff(s):\n		known", "	case false:\n		known"},
	{"a host that boots for nobody is never let go", releaseFile, "		known.Action, known.Boot, known.Message = end.Action, end.Boot,", "		known.RequeueAt, known.Message = v.Now.Add(s.ActiveInterval), end.Message+"},
	{"the lost record of a free host stays lost", recordFile, "	case b == nil, b.Number < v.Spec.Boots:\n		step", "	case b == nil && v.Spec.Boots < 0:\n		step"},
	{"the number of a lost record starts anew", recordFile, "&v1alpha1.BareMetalBootSpec{Number: v.Spec.Boots}", "&v1alpha1.BareMetalBootSpec{Number: min(v.Spec.Boots, 1)}"},
	{"a record that is deleted stays of a free host", recordFile, "	case v.BootDeleting && !v.BootHasForeignFinalizer && !v.BootMachinePending:\n", "	case false:\n"},
	{"the record of a machine that waits goes when it is deleted", recordFile, "!v.BootHasForeignFinalizer && !v.BootMachinePending:", "!v.BootHasForeignFinalizer:"},
	{"a record that something else keeps is let go again and again", recordFile, "!v.BootHasForeignFinalizer && !v.BootMachinePending:", "!v.BootMachinePending:"},
	{"a host is offered whose record goes at any moment", offerFile, "	case v.BootHasForeignFinalizer:\n", "	case false:\n"},
	{"the boot of a machine that waits is void when another one lets the host go", recordFile, "if !IsOpen(v.Boot) || v.BootMachinePending {", "if !IsOpen(v.Boot) {"},
	{"a machine that was served elsewhere is booted", bootFile, `	if v.DataServedOn != "" {`, "	if false {"},
	{"the record of a machine that waits is void when its host goes", releaseFile, "	case v.BootMachinePending: // the", "	case false: // the"},
	{"a boot that can never be served goes on", bootFile, "if mayRepeat(attempt) && v.Problem != nil && IsPermanent(v.Problem.Reason) {", "if false {"},

	// The provider's own server.
	{"the provider's own server is forced off", ownFile, "	case step.Action == ForceOff, step.Action == ShutDown:", "	case step.Action == ShutDown:"},
	{"the provider's own server is shut down", ownFile, "	case step.Action == ForceOff, step.Action == ShutDown:", "	case step.Action == ForceOff:"},
	{"the provider's own server is offered", ownFile, "	case step.Phase == v1alpha1.PhaseAvailable:", "	case false:"},
	{"nobody can have the provider's own server powered off", ownFile, `if !v.RunsProvider || v.PowerOffProvider != "" {`, "if !v.RunsProvider {"},
}
