package mutants_test

// bmcMutants are those of bmc: what a host's address may be, and what a BMC may be burdened with.
var bmcMutants = []mutant{
	{"where BMCs may be is not checked", "allowlist.go", "	if err := outbound.Policy(p).Check(host, ip); err != nil {", "	if err := outbound.Policy(p).Check(host, ip); false {"},
	{"addresses are not checked when a connection is made", "allowlist.go", "outbound.Dial(ctx, timeout, p.Check, network, address)", "outbound.Dial(ctx, timeout, func(string, netip.Addr) error { return nil }, network, address)"},
	{"a BMC that did not do it is asked again at once", "backoff.go", "	f[id] = recorded\n", "	_ = recorded\n"},
	{"a fault with other credentials counts", "backoff.go", "e.Username, e.Password, e.CA, e.InsecureSkipVerify)", "\"\", \"\", e.CA, e.InsecureSkipVerify)"},
	{"a fault of another protocol counts", "backoff.go", "e.URL.Scheme, e.URL.Host,", "\"\", e.URL.Host,"},
	{"who wants the pool's faults ignored does not get it", "bmcqueue.go", "known != nil && !job.IgnoreBackoff", "known != nil"},
}

// ipmiMutants are those of bmc/ipmi: what proves that an answer is the BMC's.
var ipmiMutants = []mutant{
	{"a BMC need not prove that it knows the password", "session.go", "if !crypto.Equal(proof, two.KeyExchangeAuthenticationCode) {", "if false {"},
	{"a BMC need not prove that it has the session's keys", "session.go", "err == nil && !crypto.Equal(proof, four.IntegrityCheckValue)", "err == nil && false"},
	{"an answer needs no authentication code", "packet.go", "err != nil || !crypto.Equal(code, packet[len(packet)-length:])", "err != nil || len(code) == 0"},
	{"an answer may be replayed", "session.go", " || h.sequence <= s.received", ""},
	{"an answer to another request counts", "packet.go", "message.NetFn != q.command.NetFn|1 || message.Command != q.command.ID || message.RequesterSequence != sequence", "message.NetFn != q.command.NetFn|1"},
	{"the BMC picks any algorithms", "session.go", "		if picked < 0 {\n", "		picked = max(picked, 0)\n		if false {\n"},
	{"a wrong password is tried twice", "ipmi.go", "if !errors.Is(err, errNoAnswer) || try == maxTries {", "if try == maxTries {"},
	{"a login without an answer is not tried from another port", "ipmi.go", "if !errors.Is(err, errNoAnswer) || try == maxTries {", "if true {"},
	{"a password that IPMI cannot have is cut off", "ipmi.go", "if len(e.Password) > maxPassword {", "if false {"},
	{"a cycle is repeated when its answer is lost", "power.go", "c.control(ctx, op, chassis.ChassisControlPowerCycle, true)", "c.control(ctx, op, chassis.ChassisControlPowerCycle, false)"},
}

// redfishMutants are those of bmc/redfish: what a BMC may make the driver do.
var redfishMutants = []mutant{
	{"a server that powers on is on", "power.go", "		return bmc.PoweringOn, nil\n", "		return bmc.PowerOn, nil\n"},
	{"a server that powers off is off", "power.go", "		return bmc.PoweringOff, nil\n", "		return bmc.PowerOff, nil\n"},
	{"a command comes in a transition of the power", "power.go", "	case command != bmc.CanForceOff && state.InTransition():", "	case false:"},
	{"a command that is refused for now has failed", "power.go", `(statusOf(err) == http.StatusConflict || hasMessageID(err, "ResourceInUse"))`, "false"},
	{"a BMC that refused the login is asked again", "conn.go", "		c.fatal = err\n", "		_ = err\n"},
	{"a power command that is so already is given", "power.go", "	case err != nil || state == want:\n", "	case err != nil:\n"},
	{"an override that does not show is no doubt", "boot.go", "	case got.Target != want.Target:\n", "	case false:\n"},
	{"an override that lasts is not told of", "boot.go", "Lasts: !want.Continuous && want.Target != bmc.BootNone && got.Continuous}", "Lasts: false}"},
	{"an image that is reported as inserted already is trusted", "media_insert.go", "			if err := c.eject(ctx, drive); err != nil {\n", "			if drive.text(\"Image\") == image && isInserted(drive) {\n				return nil\n			}\n			if err := c.eject(ctx, drive); err != nil {\n"},
	{"an insert does not wait for the eject", "media_insert.go", "func(now resource) bool { return !isInserted(now) })", "func(resource) bool { return true })"},
	{"an image is inserted into a full drive", "media_insert.go", "	if !claimsImage(drive) && !mayBeCopied(drive) {\n", "	if true {\n"},
	{"the previous image is taken for the new one", "media_copy.go", "return isInserted(now) && !stale", "return isInserted(now)"},
	{"a copy of an image has the time of a drive", "media_copy.go", "		case !runs && !isCopied(last, image):\n", "		case true:\n"},
	{"an insertion starts a copy again", "media_insert.go", "return isCopied(drive, image) }); i >= 0 {", "return isCopied(drive, image) }); false && i >= 0 {"},
	{"a drive that is not connected contains an image", "media.go", "return claimsImage(drive) && !notConnected(drive)", "return claimsImage(drive)"},
	{"a drive into which the BMC copies counts as empty", "media_insert.go", "!claimsImage(drive) && !mayBeCopied(drive)", "!claimsImage(drive)"},
	{"an image goes into a drive that does not boot", "media.go", "	if len(named) > 0 {", "	if false {"},
	{"an error contains the token of a URL that the BMC quotes", "hide.go", "	message = bmc.MaskURLs(message)\n", "	_ = bmc.MaskURLs(message)\n"},
	{"an error contains the path of a URL that the BMC quotes", "hide.go", "		message = strings.ReplaceAll(message, secret, hidden)\n", "		_ = secret\n"},
	{"a full drive without an ejection counts as no drive", "media_insert.go", "e.Kind == bmc.Unsupported {", "false {"},
	{"a missing licence is a failure of the BMC", "media_insert.go", "return add(bmc.Unsupported, \"install the licence", "return add(e.Kind, \"install the licence"},
	{"a boot URI that was dropped is no doubt", "boot.go", "want.URI != \"\" && got.URI == \"\":", "false:"},
	{"a boot URI stays when its override is removed", "boot.go", "want.URI == \"\" && uri != \"\" {", "false {"},
}
