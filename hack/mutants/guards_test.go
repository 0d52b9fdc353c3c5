package mutants_test

import (
	"path"
	"slices"
)

const (
	policyFile      = "inventory/outbound/outbound.go"
	fetchFile       = "pxe/artifact/fetch.go"
	lanesFile       = "pxe/origin/lanes.go"
	spaceFile       = "pxe/space/space.go"
	reservationFile = "pxe/space/reservation.go"
	rateFile        = "pxe/origin/rate.go"
	outboundFile    = "pxe/bootconfig/file.go"
	triesFile       = "pxe/limit.go"
	quotaFile       = "pxe/quota/quota.go"
	connectionsFile = "pxe/server/http.go"
	tftpFile        = "pxe/tftp/tftp.go"
	tenantsFile     = "pxe/bootconfig/tenants.go"
	factsFile       = "inventory/claim/facts.go"
	disksFile       = "inventory/claim/disks.go"
	slotsFile       = "inventory/slots/slots.go"
	templateFile    = "inventory/usertemplate/usertemplate.go"
	functionsFile   = "inventory/usertemplate/functions.go"
	renderFile      = "controllers/bootstrap/render/render.go"
	scriptFile      = "controllers/bootstrap/render/script.go"
	ignitionFile    = "controllers/bootstrap/render/ignition.go"
	configFile      = "controllers/bootstrap/controller.go"
	secretFile      = "controllers/bootstrap/secret.go"
	valuesFile      = "controllers/bootstrap/values.go"
	networkFile     = "controllers/remediation/network.go"
	selectFile      = "cmd/agent/internal/disk/select.go"
	sameFile        = "cmd/agent/internal/disk/same.go"
	provenFile      = "inventory/erasure/erasure.go"
	signFile        = "inventory/erasure/sign.go"
	canonicalFile   = "inventory/erasure/canonical.go"
	documentFile    = "inventory/erasure/document.go"
	recorderFile    = "controllers/erasure/recorder.go"
	claimTermsFile  = "controllers/machine/claim.go"
	hostErasureFile = "controllers/host/erasure.go"
	purgeFile       = "inventory/cleaning/cleaning.go"
	erasureKeyFile  = "controllers/erasure/key.go"
	rulesFile       = "inventory/claim/rules.go"
	hostOnceFile    = "controllers/host/eraseonce.go"
	runnerCleanFile = "cmd/agent/internal/runner/clean.go"
	runnerDisksFile = "cmd/agent/internal/runner/disks.go"
	runnerWriteFile = "cmd/agent/internal/runner/provision.go"
)

// guardTests are the tests that have to notice a mutant of a file, where the others of the package take long. The files are those of guards.
var guardTests = map[string]string{
	fetchFile:       "ReadOracle|PortScan|WhereFrom|ErrorsHaveNoContent",
	triesFile:       "Tries|Guessing",
	connectionsFile: "Connections",
	tftpFile:        "TransfersOfAClient",
	configFile:      "Owner|Pausing|Waits|SecretDeleted|WatchFilter",
	secretFile:      "DataSecret|SecretOfOthers|Restore|Once",
	valuesFile:      "Values|UserDataSecret|Invalid",
	networkFile:     "NetworkPluginMissing|OtherNotReady",
	hostOnceFile:    "EraseOnce|SerialNumber",
	claimTermsFile:  "ClaimRecordsDisks",
	hostErasureFile: "Erasure",
}

// guardTargets returns the mutants of guards as targets: those of one file, or of one folder where all its tests are quick, are one.
func guardTargets() []target {
	var all []target
	for _, m := range guards {
		folder, file := path.Split(m.file)
		of := target{folder: path.Clean(folder), runs: allTests}
		if pattern := guardTests[m.file]; pattern != "" {
			of.runs = []testRun{{"tests", []string{"-test.run=" + pattern}}}
		}
		i := slices.IndexFunc(all, func(t target) bool { return t.folder == of.folder && slices.Equal(t.runs[0].args, of.runs[0].args) })
		if i < 0 {
			all, i = append(all, of), len(all)
		}
		m.file = file
		all[i].mutants = append(all[i].mutants, m)
	}
	all[0].sampled = 1 // the others are for mutants-full: each costs the build of a package
	return all
}

// guards are the mutants of what keeps hostile users in their bounds, by the files from the project's folder on.
var guards = []mutant{
	// Where the provider connects to.
	{"loopback is connected to", policyFile, "case ip.IsLoopback() || ", "case "},
	{"link-local addresses are connected to", policyFile, "ip.IsLinkLocalUnicast() || ", ""},
	{"metadata services are connected to", policyFile, "	case contains(metadataNetworks, ip):\n		return \"an address of a cloud metadata service\", nil\n", ""},
	{"the provider connects to itself", policyFile, "return ok && network.IP.Equal(ip.AsSlice())", "return ok && network.IP == nil"},
	{"mapped addresses are connected to", policyFile, "	ip = ip.Unmap().WithZone(\"\")\n", ""},
	{"translated addresses are connected to", policyFile, "	if nat64Prefix.Contains(ip) {", "	if false {"},
	{"denied networks are connected to", policyFile, "contains(p.DenyNetworks, ip) && ", "false && "},
	{"a name that is allowed leads everywhere", policyFile, "	reason, err := p.refused(ip)\n", "	if slices.Contains(p.AllowHosts, host) {\n		return nil\n	}\n	reason, err := p.refused(ip)\n"},
	{"the address that is connected to is not checked", policyFile, "		return check(host, target.Addr())\n", "		_, _ = host, target\n		return nil\n"},
	{"the networks of the cluster are connected to", outboundFile, "	c.Deny(c.ClusterNetworks...)\n", ""},
	{"other boot servers are connected to", outboundFile, "if n.Address.IsValid() {", "if false {"},

	// Tenants.
	{"a namespace without a tenant may use all", tenantsFile, "	return Tenant{}, false\n", "	return Tenant{}, true\n"},
	{"a tenant may use every MAC address", tenantsFile, "if len(tenant.MACPrefixes) > 0 && ", "if false && "},
	{"a tenant may name BMCs by names", tenantsFile, "	if err != nil {\n		return fmt.Errorf(\"spec.bmc.address has the host name", "	if err != nil && mac == \"\" {\n		return fmt.Errorf(\"spec.bmc.address has the host name"},
	{"a tenant may use every BMC", tenantsFile, "if !slices.ContainsFunc(tenant.BMCNetworks", "if ip.IsValid() && ip.IsUnspecified() && !slices.ContainsFunc(tenant.BMCNetworks"},
	{"a tenant's servers may boot in every network", tenantsFile, "return found && (len(tenant.DHCPNetworks) == 0 || slices.Contains(tenant.DHCPNetworks, network))", "return found && (len(tenant.DHCPNetworks) >= 0 || network != \"\")"},

	// What users read of a fetch.
	{"the error has the checksum of what came", fetchFile, "fmt.Errorf(\"%w: it should be %s\", ErrChecksum, a.Checksum)", "fmt.Errorf(\"%w: it is %s:%s and should be %s\", ErrChecksum, checksumOf(a).Kind, got, a.Checksum)"},
	{"the error says why nobody answered", fetchFile, "		return &fetchError{errNoFile, err}\n", "		return err\n"},
	{"the error says what was answered", fetchFile, "return &fetchError{errNoFile, errors.New(\"the origin answered \" + response.Status)}", "return errors.New(\"the origin answered \" + response.Status)"},
	{"the error has the size of what came", fetchFile, "return &fetchError{errNoFile, fmt.Errorf(\"the origin ended", "return &fetchError{fmt.Errorf(\"%d bytes\", response.ContentLength), fmt.Errorf(\"the origin ended"},
	{"the log has the query of a URL", fetchFile, "from.Host + from.Path // a", "from.Host + from.Path + from.RawQuery // a"},

	// Fetches.
	{"an origin may have three fetches", lanesFile, "l.byLane[wanted] < l.bounds.PerOrigin", "l.byLane[wanted] <= l.bounds.PerOrigin"},
	{"an origin may have all fetches", lanesFile, "l.byLane[wanted] < l.bounds.PerOrigin && ", ""},
	{"a namespace may have all fetches", lanesFile, "(l.all < l.bounds.Shared || l.byNamespace[wanted.Namespace] < l.bounds.Guaranteed)", "l.all < l.bounds.Shared"},
	{"fetches in all are without bound", lanesFile, "l.all < l.bounds.Max && ", ""},
	{"the first that came is next", lanesFile, "l.free(w.lane) && (next < 0 || l.byNamespace[w.lane.Namespace] < l.byNamespace[l.waiting[next].lane.Namespace])", "l.free(w.lane) && next < 0"},
	{"a byte keeps a lane", rateFile, "return m.windowBytes.Swap(0) >= minBytes", "return m.windowBytes.Swap(0) > 0"},
	{"what came long ago keeps a lane", rateFile, "m.windowBytes.Swap(0)", "m.windowBytes.Load()"},

	// Room.
	{"a namespace may fill the cache", spaceFile, "			if key = s.overShare(use, share); key == \"\" {", "			if key == \"\" {"},
	{"fetches may fill the cache", spaceFile, "			if s.revoke(use, share) {", "			if false {"},
	{"a namespace takes more than its share from others", spaceFile, "			if use[namespace] > share {", "			if use[namespace] > s.opts.MaxBytes {"},
	{"one of its namespaces loses a file for all", spaceFile, "	least := int64(math.MaxInt64)\n		for namespace := range t.holders {\n			least = min(least", "	least := int64(math.MinInt64)\n		for namespace := range t.holders {\n			least = max(least"},
	{"a fetch that gave way goes on", reservationFile, "	case r.revoked:\n		return s.opts.Revoked\n	case r.ended:", "	case r.ended:"},

	// Clients.
	{"a client guesses from all addresses of its link", triesFile, "ok && !hasAttempts(t.prefixes, prefix)", "ok && false && !hasAttempts(t.prefixes, prefix)"},
	{"the servers of a rack use up each other's tries", triesFile, "const rackServers = 64", "const rackServers = 1"},
	{"an address has any number of connections and transfers", quotaFile, "c.addresses[address] >= c.PerAddress || ", ""},
	{"a link has any number of connections and transfers", quotaFile, " || counted && c.prefixes[prefix] >= c.PerPrefix", ""},
	{"connections are not counted by client", connectionsFile, " || !c.clients.Enter(address)", ""},
	{"the servers of a rack use up each other's connections", connectionsFile, "maxPerPrefix   = 2048", "maxPerPrefix   = 256"},
	{"transfers are not counted by client", tftpFile, " || !s.clients.Enter(from.Addr())", ""},
	{"the servers of a rack use up each other's transfers", tftpFile, "maxPerPrefix = 256", "maxPerPrefix = 16"},
	// How many members of a group have a slot.
	{"a slot goes to a member that others are queued before", slotsFile, "before >= limit-len(g.holders)", "len(g.holders) >= limit"},
	{"there is one slot more than the limit", slotsFile, "before >= limit-len(g.holders)", "before > limit-len(g.holders)"},
	{"an error takes the slot of a member that boots", slotsFile, "m != nil && !m.confirmed", "m != nil"},
	{"a slot never expires", slotsFile, "		if now.Before(m.until) {", "		if m.hasSlot || now.Before(m.until) {"},
	{"a member is queued for ever", slotsFile, "		if now.Before(m.until) {", "		if !m.hasSlot || now.Before(m.until) {"},
	{"each call has another position", slotsFile, "m.positionAt.IsZero() || now.Sub(m.positionAt) >= s.options.PositionTTL", "now.Sub(m.positionAt) >= 0"},
	{"no member is woken", slotsFile, "	for group := range s.changed {", "	for group := range map[string]struct{}{} {"},
	{"a member keeps its slot in the group that it left", slotsFile, "	delete(g.holders, m)\n", ""},

	// Templates that tenants write.
	{"every function can be called", templateFile, "if names := c.language.Functions(); !slices.Contains(names, n.Ident) {", "if names := c.language.Functions(); false && !slices.Contains(names, n.Ident) {"},
	{"a template ranges over anything", templateFile, "len(n.Pipe.Cmds) != 1 || !slices.Contains(", "len(n.Pipe.Cmds) != 1 || false && !slices.Contains("},
	{"ranges are nested", templateFile, "if at.inRange || len(", "if len("},
	{"templates define templates", templateFile, "if len(t.Templates()) > 1 {", "if len(t.Templates()) > 9 {"},
	{"a result has any size", templateFile, "if b.Len()+len(p) > b.maxBytes {", "if b.Len()+len(p) > 100*b.maxBytes {"},
	{"an error has a value", "inventory/usertemplate/errors.go", "	if reason == \"\" || l.Private {\n		reason = \"it cannot be evaluated\"\n	}", "	if reason == \"\" || l.Private {\n		reason = err.Error()\n	}"},
	{"functions produce any size", functionsFile, "if budget -= len(text); budget < 0 {", "if budget -= 0 * len(text); budget < 0 {"},
	{"fields are not checked below a range", templateFile, "	case *parse.VariableNode:\n		if n.Ident[0] == \"$\" {", "	case *parse.VariableNode:\n		if n.Ident[0] == \"\" {"},

	// Bootstrap data.
	{"the error quotes the user data", ignitionFile, "	return invalidUserData(\"it is not an Ignition config in JSON. ", "	return invalidUserData(string(userData) + \"it is not an Ignition config in JSON. "},
	{"a file of the user's is replaced", ignitionFile, "if known, _ := e.(map[string]any); known[key] == entry[key] {", "if known, _ := e.(map[string]any); known[key] == 0 {"},
	{"data of any size is rendered", renderFile, "if len(result) > MaxData {", "if len(result) > 9*MaxData {"},
	{"a command that fails is ignored", scriptFile, "set -eu", "set -u"},
	{"the Secret of a user is taken", secretFile, "	return wasOurs && ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, \"\") == secret.Name", "	return wasOurs || ptr.Deref(s.machine.Spec.Bootstrap.DataSecretName, \"\") == secret.Name"},
	{"the Secret of another object is taken", secretFile, "	wasOurs := owner == nil || ", "	wasOurs := true || owner == nil || "},
	{"the Secret has no owner", secretFile, "			OwnerReferences: []metav1.OwnerReference{ownerOf(s.config)},\n", ""},
	{"a restored Secret stays without owner", secretFile, "	secret.OwnerReferences = util.EnsureOwnerRef(secret.OwnerReferences, owner)\n", ""},
	{"every Secret gives values", valuesFile, "secretRef != nil && !labeled {", "secretRef != nil && !labeled && false {"},
	{"values stay behind in a move", valuesFile, "	return text, nil, r.labelForMove(ctx, o, kind)", "	_ = r.labelForMove\n	return text, nil, nil"},
	{"a config takes any Machine for its owner", configFile, "if !refersTo(machine, s.config.Name) {", "if false && !refersTo(machine, s.config.Name) {"},
	{"data is rendered again after a move", configFile, " || s.machine.Spec.ProviderID != \"\" {", " {"},
	{"paused configs are rendered", configFile, "err != nil || isPaused || requeue {", "err != nil || requeue && !isPaused {"},
	{"data is rendered before the infrastructure is there", configFile, "if !ptr.Deref(initialized.InfrastructureProvisioned, false) {", "if false && !ptr.Deref(initialized.InfrastructureProvisioned, false) {"},
	{"workers do not wait for the control plane", configFile, "waitFor == \"\" && !util", "waitFor == \"\" && util"},
	{"data is rendered again for a server that runs", configFile, "	if ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false) || s", "	if s"},
	{"data is rendered for a Machine that is deleted", configFile, "	if s.machine != nil && !s.machine.DeletionTimestamp.IsZero() {", "	if false {"},
	{"the watch filter is not observed", configFile, "!controllers.HasWatchFilter(s.config, r.WatchFilter) || ", ""},

	// Proofs of erasures.
	{"an erasure that was not verified is proven", provenFile, "	case !d.Verification.Passed:\n		return \"its verification did not pass\"\n", ""},
	{"a disk that failed is proven", provenFile, "	case d.Outcome != v1alpha1.ErasureErased:\n		return fmt.Sprintf(\"its outcome is %q\", d.Outcome)\n", ""},
	{"no disks are proven to be erased", provenFile, "&& len(report.Disks) == 0:", "&& len(report.Disks) < 0:"},
	{"Clear is proven to be Purge", provenFile, "	case classLevel(d.Class) < classLevel(policy):", "	case classLevel(d.Class) < 1:"},
	{"the record of the erasure itself is superseded", provenFile, " || r.Name == current.Name", ""},
	{"records of other hosts are superseded", provenFile, "r.Spec.HostName != current.Spec.HostName || ", ""},
	{"every signature is valid", signFile, "	if !ed25519.Verify(key, message, value) {", "	if !ed25519.Verify(key, message, value) && len(value) != ed25519.SignatureSize {"},
	{"every key may have signed", signFile, "	case signature.KeyID != KeyID(key):", "	case signature.KeyID == \"\":"},
	{"a signature has several texts", signFile, "base64.StdEncoding.Strict().DecodeString(signature.Value)", "base64.StdEncoding.DecodeString(signature.Value)"},
	{"texts are signed without escapes", canonicalFile, "		case short:\n			out = append(out, '\\\\', escape)\n", "		case short && r < ' ':\n			out = append(out, '\\\\', escape)\n"},
	{"a certificate may say something else", documentFile, "	case differs != nil:\n", "	case differs != nil && err != nil:\n"},
	{"a file has a field twice", documentFile, "	if at := firstDifference(got, want); at >= 0 {", "	if at := firstDifference(got, want); at > len(got) {"},
	{"what is not proven is certified", documentFile, "	return Check(&spec.Report)\n", "	return nil\n"},
	{"an erasure that is not proven is recorded", recorderFile, "	if err := erasure.Check(b.Erasure); err != nil {", "	if err := erasure.Check(b.Erasure); err != nil && b.Number == 0 {"},
	{"a boot that failed is recorded", recorderFile, "	case b.Failure != nil:", "	case b.Failure != nil && b.Erasure == nil:"},
	{"records are deleted while a Cluster is paused", recorderFile, "err != nil || paused != \"\" {", "err != nil || paused == \"/\" {"},
	{"a forged record counts", recorderFile, "	if err := erasure.Verify(&found.Spec, key); err != nil {", "	if err := erasure.Verify(&found.Spec, key); err != nil && key == nil {"},
	{"a record of another erasure counts", recorderFile, "	case !same:", "	case !same && found.Name == \"\":"},
	{"a key counts under every name", recorderFile, "		if id := strings.TrimSuffix(name, keySuffix); parsed[id] != nil {\n			keys[id] = parsed[id]\n		}\n", "		for id := range parsed {\n			keys[id] = parsed[id]\n		}\n		_ = strings.TrimSuffix(name, keySuffix)\n"},
	{"the public key is not published", erasureKeyFile, "	return key, r.publish(ctx, public)\n", "	_, _ = r.publish, public\n	return key, nil\n"},
	{"an error shows the key", erasureKeyFile, "PrivateKeyName, name, err)\n", "PrivateKeyName+string(secret.Data[PrivateKeyName]), name, err)\n"},

	{"a claim does not record the disks", claimTermsFile, "	terms.Disks = cleaning.Disks(&report.Spec)\n", "	_ = cleaning.Disks\n"},
	{"the disks of an old report are recorded", claimTermsFile, "	if host.Spec.Inspection != v1alpha1.InspectionAgent && host.Spec.Inspection != v1alpha1.InspectionBoth {\n		return terms, nil\n	}\n", ""},
	{"a namespace that is deleted waits for a record", hostErasureFile, "	if unfenced || gone {\n", "	if unfenced {\n"},
	{"a host is released without a record", hostErasureFile, "	if unfenced || gone {\n", "	if unfenced || err != nil {\n"},
	{"a security erase purges", purgeFile, "\"ata-secure-erase\", ", ""},

	// Remediation.
	{"new clusters without a network plugin are power-cycled", networkFile, "err != nil || !neverHadNetwork(node)", "err != nil || neverHadNetwork(node) || true"},
	{"a Node that was Ready counts as new", networkFile, ".Abs() <= registrationGrace", ".Abs() <= 100*registrationGrace"},
	{"one Node decides that a cluster has no network plugin", networkFile, "err != nil || ready {", "err != nil || ready && err != nil {"},
	{"a dead kubelet lacks a network plugin", networkFile, "c.Status == corev1.ConditionFalse && ", "c.Status != corev1.ConditionTrue && "},
	{"any program reports a missing network plugin", networkFile, "c.Reason == notReadyReason && ", ""},
	{"a dead runtime lacks a network plugin", networkFile, "strings.HasPrefix(c.Message, noNetworkPlugin)", "strings.Contains(c.Message, noNetworkPlugin)"},
	{"a user's wish waits for a network plugin", networkFile, " || annotations.HasRemediateMachine(s.machine) {", " || false && annotations.HasRemediateMachine(s.machine) {"},
	{"an unhealthy Machine waits for a network plugin", networkFile, "c != nil && c.Reason != clusterv1", "c != nil && false && c.Reason != clusterv1"},
	{"a power-off waits for a network plugin", networkFile, " || s.state != lifecycle.StateProvisioned || ", " || s.state == lifecycle.StateClaimed || "},

	// Which facts requirements are compared with.
	{"a host without a report has the facts of its BMC", factsFile, "	if host.Spec.Inspection == v1alpha1.InspectionAgent {\n		return nil\n	}\n", ""},
	{"a host whose disks are to be erased is claimed", rulesFile, "	case host.Spec.ConsumerRef == nil && host.Spec.EraseOnce != \"\":\n", "	case false:\n"},
	{"a machine of another namespace does not count", hostOnceFile, "	if namespace, host := inventory.HostOf(m.Spec.ProviderID); host != \"\" {\n", "	if namespace, host := inventory.HostOf(m.Spec.ProviderID); host != \"\" && namespace == m.Namespace {\n"},
	{"a disk that has the name of another one is erased", runnerDisksFile, "a.Name == d.Name && a.ID() == d.ID()", "a.Name == d.Name"},
	{"a disk that appears late is not erased", runnerCleanFile, "	}, settled)\n", "	}, 0*settled)\n"},
	{"an image is written to a disk that has the name of another one", runnerWriteFile, "	if err != nil {\n		return unwritten, nil, err\n	}\n	device", "	device"},
	{"a disk that appears late with the same serial number does not matter", runnerWriteFile, "		settled = settledForKnown\n", "		settled = 0\n"},
	{"the chain of logical partitions is erased with the partitions", runnerCleanFile, ", Table: p.Extended()}", "}"},
	{"a disk with a label that is not read is not kept", selectFile, "	case at >= 0:\n		why =", "	case false:\n		why ="},
	{"a blank serial number names a disk", selectFile, "strings.TrimSpace(d.Serial) != \"\" && diskname.SameSerial", "diskname.SameSerial"},
	{"a disk without a size is no disk", "cmd/agent/internal/disk/list.go", "size == 0 && (d.Removable", "size == 0 && (true || d.Removable"},
	{"a second controller is no other server's", "cmd/agent/internal/drive/nvme.go", "len(list) != 1 || list[0] != c.ID", "len(list) == 0"},
	{"a drive that does not list its controllers is nobody else's", "cmd/agent/internal/drive/nvme.go", "	if err != nil {\n		return true\n", "	if err != nil {\n		return false\n"},
	{"namespaces that only another controller has are nobody else's", "cmd/agent/internal/drive/facts.go", "	if d.controller.Several && f.Unattached > 0 {\n", "	if false {\n"},
	{"a kept namespace hides another one", "cmd/agent/internal/method/obstacle.go", "return f.Unattached > 0 }", "return f.Unattached > 0 && !f.KeptPart }"},
	{"Metadata erases a disk that might be kept", runnerCleanFile, "protected == \"\" && plan.AllDisks {", "protected == \"\" && false {"},
	{"a result that does not list all disks proves an erasure", runnerCleanFile, "out.Failure == nil && (plan.AllDisks", "false && (plan.AllDisks"},
	{"an erasure is forgotten that is not recorded", hostOnceFile, "boot != nil && lifecycle.IsEraseOnce(&boot.Spec) && (voids || step.Action == lifecycle.EndEraseOnce)", "false"},
	{"a serial number that the BMC no longer reports identifies the server", hostOnceFile, "	case isKept(h, bmc.FactSerialNumber):\n", "	case isKept(h, bmc.FactSerialNumber) && false:\n"},
	{"a report that proves nothing ends an erasure", hostOnceFile, "	case errors.As(err, &unproven) && host.Spec.Quarantine != nil:\n", "	case errors.As(err, &unproven):\n"},
	{"the BMC's facts hide those of the agent", factsFile, "host.Spec.Inspection == v1alpha1.InspectionAgent || host.Spec.Inspection == v1alpha1.InspectionBoth", "host.Spec.Inspection == v1alpha1.InspectionAgent"},
	{"a link that is down counts", factsFile, " && (n.LinkUp == nil || *n.LinkUp)", ""},
	{"one disk meets two requirements", disksFile, "group.count, left[i] = group.count-used, left[i]-used", "left[i] -= used"},
	{"disks of any kind go first", disksFile, "[]bool{false, true}", "[]bool{true, false}"},
	{"a disk of an unknown kind is of any kind", disksFile, "group.rotational != nil && *group.rotational", "group.rotational == nil || *group.rotational"},

	// Which disk is written.
	{"a disk is written by one of its paths", selectFile, "	case len(d.Paths) > 0:\n", "	case false:\n"},
	{"a kept disk is written", selectFile, "	case isKept(d, all, keep):\n", "	case len(keep) > 99:\n"},
	{"a tenant keeps a disk with the name of another one", selectFile, "	case slices.ContainsFunc(all, identifies):\n		return false\n", ""},
	{"the label of a partition keeps nothing", selectFile, "	case slices.Contains(d.PartitionNames, name):\n		return true\n", ""},
	{"two paths without a WWN are two disks", sameFile, "return a.Serial != \"\" && diskname.SameSerial(a.Serial, b.Serial)", "return false && diskname.SameSerial(a.Serial, b.Serial)"},
	{"two LUNs with one serial number are one disk", sameFile, "		return a.WWN == b.WWN\n", "		return a.WWN == b.WWN || diskname.SameSerial(a.Serial, b.Serial)\n"},
	{"a disk with unknown content is written", selectFile, "	case d.Unreadable != \"\":\n", "	case false:\n"},
}
