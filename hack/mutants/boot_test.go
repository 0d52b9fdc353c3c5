package mutants_test

// pxeMutants are those of pxe: what guards the routes of the boot server.
var pxeMutants = []mutant{
	{"failed attempts have no limit", "guard.go", "case !g.attempts.allowed(from):", "case false:"},
	{"a failed attempt is not counted", "guard.go", "			g.attempts.countFailure(from)\n", "			_ = from\n"},
	{"a HEAD binds what it does not get", "guard.go", "if r.Method == http.MethodHead {", "if false {"},
	{"a name that no host can have is looked for", "http_seed.go", "len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0", "len(validation.IsDNS1123Label(namespace)) >= 0"},
	{"a host takes the turns of all others", "imageslots.go", "if s.hosts[host] >= maxImageAnswersPerHost {", "if false {"},
	{"an image is read into memory", "http_bounds.go", "&io.LimitedReader{R: limited.R, N: part}", "&io.LimitedReader{R: struct{ io.Reader }{limited.R}, N: part}"},
	{"an answer may be cached", "guard.go", "		w.Header().Set(\"Cache-Control\", \"no-store\")\n", ""},
}

// artifactMutants are those of pxe/artifact: what a server is given to boot.
var artifactMutants = []mutant{
	{"a file with another checksum is served", "fetch.go", "if got != checksumOf(a).Digest {", "if false {"},
	{"a file that suffered on the disk is served", "fetch.go", "case err == nil && sum == checksumOf(a).Digest:", "case err == nil && sum != \"\":"},
}

// bootMutants are those of controllers/boot: which client is served, and for how long.
var bootMutants = []mutant{
	{"the last of two hosts with one MAC address is served", "booter.go", "	keeper, err := controllers.KeeperOfMAC(ctx, b.Client, b.Tenants, mac.String())\n	return keeper.DeepCopy(), err\n",
		"	hosts, err := controllers.HostsWith(ctx, b.Client, controllers.MACIndex, mac.String())\n	if len(hosts) == 0 {\n		return nil, err\n	}\n	return &hosts[len(hosts)-1], err\n"},
	{"a host whose MAC address changed gets the script for the old one", "booter.go", "	case a.host.Spec.BootMACAddress != mac.String():\n", "	case false:\n"},
	{"the script is served to any address", "booter.go", "	dhcpAt, err := b.admit(ctx, a, from, false)\n	if err != nil {\n		return pxe.Script{}, err", "	dhcpAt, err := b.admit(ctx, a, from, false)\n	if err != nil && false {\n		return pxe.Script{}, err"},
	{"the bootstrap data is served to any address", "bootstrapdata.go", "if _, err := b.admit(ctx, a, from, true); err != nil {", "if _, err := b.admit(ctx, a, from, true); false {"},
	{"a second requester is no reason to end a boot", "attempt.go", "		return secondRequesterError{what, *bound, from.String()}\n", "		return nil\n"},
	{"the bootstrap data is decided on by the cache", "bootstrapdata.go", "			return b.liveAttemptOf(ctx, boot)\n", "			return b.attemptOf(ctx, boot)\n"},
	{"a token is good for any purpose", "token.go", "hmacOf(key, string(p), boot.Namespace", "hmacOf(key, boot.Namespace"},
	{"a token is good for any boot", "token.go", "strconv.FormatInt(int64(number), 10)", "strconv.FormatInt(0, 10)"},
	{"an empty key makes tokens", "token.go", "		if len(key) == 0 {\n", "		if false {\n"},
	{"good tokens have no budget", "attempt.go", "case cached && !b.withinBudget(s.host):", "case false:"},
	{"a server is served before its DHCP request", "admission.go", "	case dhcpAt == nil:\n		return nil, tooEarly(", "	case false:\n		return nil, tooEarly("},
	{"an agent reports any step", "agentprogress.go", "if !slices.Contains(agent.Steps, p.Step) {", "if !slices.Contains(agent.Steps, p.Step) && false {"},
	{"an agent that alternates between steps writes without end", "agentprogress.go", " || !boot.writes.AllowN(now, 1) {", " {"},
	{"an inspection succeeds without a report", "inspection.go", "return report.Spec.BootNumber == a.boot.Spec.Number, nil", "return true, nil"},
	{"any agent reports hardware", "inspection.go", "a.boot.Spec.Purpose != v1alpha1.PurposeInspect || ", ""},
	{"a report has any size", "inspection.go", "	case len(content) > maxInspection:\n", "	case len(content) > 1000*maxInspection:\n"},
	{"any address of a network is a server's", "admission.go", "case !authoritative || slices.Contains(leased, from) || ", "case true || "},
	{"another address of the agent ends the boot", "agentaddress.go", "case mayBind(a) && a.boot.Spec.DataServedAt == nil:", "case false:"},
	{"a stranger may have the bootstrap data and the boot goes on", "agentaddress.go", "case mayBind(a) && a.boot.Spec.DataServedAt == nil:", "case mayBind(a) && a.boot != nil:"},
	{"another address fails a machine that may run", "agentaddress.go", "	return a.boot.Spec.CommitAllowedAt == nil && a.boot.Spec.AgentDoneAt == nil\n", "	return true\n"},
	{"an erasure succeeds without its disks", "erasure.go", "	problems = append(problems, missingDisks(a, disks)...)\n", ""},
	{"an erasure succeeds without a verification", "erasure.go", "	case v == nil || !v.Passed:\n", "	case v == nil:\n"},
	{"an erasure succeeds with a weaker class", "erasure.go", "	case !cleaning.AllDisks(class) || !cleaning.Reaches(class, policy):\n", "	case !cleaning.AllDisks(class):\n"},
	{"an erasure succeeds without a report", "erasure.go", "	case len(expectedDisks(a)) > 0 || len(a.boot.Spec.WrittenDisks) > 0:\n", "	case false:\n"},
	{"any disk may be left out", "erasure.go", "disks[at].Outcome == agent.LeftOut && len(keptDisks(a.host.Spec.Storage)) == 0", "false"},
	{"the plan has the policy of the host", "erasure.go", "if policy := a.boot.Spec.CleaningPolicy; cleaning.AllDisks(policy) {", "if policy := a.host.Spec.CleaningPolicy; cleaning.AllDisks(policy) {"},
	{"the agent does not know which disks there were", "erasure.go", "			plan.Expected = append(plan.Expected, diskID(d))\n", "			_ = d\n"},
	{"an erasure of a free host succeeds without a disk that was found", "eraseonce.go", "	return cleaning.Disks(&report.Spec), nil\n", "	return nil, nil\n"},
	{"an erasure of a free host succeeds without a report", "erasure.go", " && !lifecycle.IsEraseOnce(&a.boot.Spec):\n", ":\n"},
	{"an agent that was refused is served", "agent.go", " || boot.AgentRefusedAt != nil", ""},
	{"a boot after a restore takes the partition of another boot for its own", "agent.go", "boot.Spec.Number, boot.Spec.StartedAt.Unix()", "boot.Spec.Number, int64(0)"},
}
