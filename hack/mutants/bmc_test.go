package mutants

// bmcTargets are what a BMC may make the drivers do, and what proves that an answer is from the BMC.
var bmcTargets = []target{
	{"bmc", nil, []mutant{
		{"each new password is tried", "logins.begin", "case len(recent) >= loginBudget:", "case false:"},
		{"logins at once are not counted", "logins.begin", "len(recent)+l.underWay[a] >= loginBudget", "false"},
		{"accepted credentials wait for those of others", "logins.begin", "case ok:", "case ok && false:"},
		{"a login that was not tried counts as refused", "bmcQueue.run", "errors.Is(e, errLoginDeferred)", "false"},
		{"the addresses of BMCs are not checked", "AllowList.Check", "err != nil", "false"},
		{"an IPv4 address has two notations", "CanonicalHostname", "address.Unmap()", "address"},
		{"a name with a dot at its end is another BMC", "CanonicalHostname", `strings.TrimSuffix(strings.ToLower(name), ".")`, "strings.ToLower(name)"},
		{"the address of a BMC is not checked at the connection", "AllowList.CheckLogin", "err := p.Check(host, ip); err != nil", "err := p.Check(host, ip); err != nil && false"},
	}},
	{"bmc/ipmi", nil, []mutant{
		{"a BMC logs in without the password", "session.authenticate", "!crypto.Equal(proof, two.KeyExchangeAuthenticationCode)", "false"},
		{"a BMC logs in without the keys of the session", "session.authenticate", "!crypto.Equal(proof, four.IntegrityCheckValue)", "false"},
		{"an answer needs no authentication code", "keys.open", "!crypto.Equal(code, packet[len(packet)-length:])", "len(code) == 0"},
		{"an answer may be replayed", "session.send", "h.sequence <= s.received", ""},
		{"an answer to another request counts", "unpackMessage", "message.Command != q.command.ID || message.RequesterSequence != sequence", ""},
		{"the BMC picks any algorithms", "session.propose", "picked < 0", "picked = max(picked, 0); false"},
		{"a password that is too long for IPMI is cut", "checkCredentials", "len(e.Password) > maxPassword", "false"},
		{"a power cycle is repeated when its answer is lost", "conn.Cycle", "chassis.ChassisControlPowerCycle, true", "chassis.ChassisControlPowerCycle, false"},
	}},
	{"bmc/redfish", nil, []mutant{
		{"a server that is powering on counts as on", "power.PowerState", "bmc.PoweringOn", "bmc.PowerOn"},
		{"a server that is powering off counts as off, to Redfish", "power.PowerState", "bmc.PoweringOff", "bmc.PowerOff"},
		{"GPUs of one board are one", "addDevice", "known.own != d.own", "true"},
		{"an answer without Members counts as an empty collection", "service.collection", `!r.hasProperty("Members")`, "false"},
		{"a summary counts as the resource", "service.innerIsComplete", "err != nil || !inner.lacks(whole)", "err != nil || inner.lacks(whole) || true"},
		{"a function that is switched off is a NIC", "offFunctions", `f.text("DeviceEnabled") == "false" || hasOthers && isOfType(f)`, "hasOthers && false"},
		{"a controller without drives means that there are none", "inspection.readDisks", `strings.EqualFold(controller.text("Status", "State"), "Enabled")`, "false"},
		{"the serial number of a part is that of the server", "ownership.serialElsewhere", `!slices.Contains(partTypes, box.text("ChassisType"))`, ""},
		{"Redfish gets a power command while the power changes", "power.setPower", "command != bmc.CanForceOff && state.InTransition()", "false"},
		{"a power command is sent that changes nothing", "power.setPower", "err != nil || state == want", "err != nil"},
		{"an image that is reported as inserted is trusted", "media.InsertMedia", "if err := m.eject(ctx, drive); err != nil { return err }",
			`if drive.text("Image") == image && isInserted(drive) { return nil }; if err := m.eject(ctx, drive); err != nil { return err }`},
		{"the previous image counts as the new one", "media.awaitImage", "!stale", ""},
		{"an error contains the token of a URL that the BMC quotes", "masker.masked", "message = bmc.MaskURLs(message)", "_ = bmc.MaskURLs(message)"},
		{"an error contains the path of a URL that the BMC quotes", "masker.masked", "message = strings.ReplaceAll(message, secret, hidden)", "_ = secret"},
	}},
}
