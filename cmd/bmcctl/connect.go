package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/drivers"
)

// anywhere allows BMCs at every address, because the user can reach these addresses without this program too.
var anywhere = bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}

// connection are the flags for the connection to a BMC.
type connection struct {
	username, passwordFile, ca string
	insecure                   bool
	timeout                    time.Duration
}

func (f *connection) flags(set *pflag.FlagSet) {
	set.StringVar(&f.username, "username", "", "User `name` of the BMC account. Defaults to BMC_USERNAME in the environment.")
	set.StringVar(&f.passwordFile, "password-file", "", "The `file` with the password. Defaults to BMC_PASSWORD in the environment, and then to a prompt.")
	set.StringVar(&f.ca, "ca", "", "The `file` with the CA certificates (PEM) that verify the BMC's certificate. Defaults to those of this system.")
	set.BoolVar(&f.insecure, "insecure-skip-tls-verify", false, "Accept any certificate. An attacker on the network can then read the password.")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "Timeout of each read of the BMC, such as the whole inventory.")
}

// target is a BMC with its driver.
type target struct {
	bmc.Endpoint

	open func(context.Context, bmc.Endpoint) (bmc.Client, error)
}

// target reads the address and the credentials.
func (f *connection) target(ctx context.Context, address string, c console) (*target, error) {
	all := drivers.All(anywhere)
	u, err := parseAddress(address, all)
	if err != nil {
		return nil, err
	}
	t := &target{Endpoint: bmc.Endpoint{URL: u, InsecureSkipVerify: f.insecure}, open: all[u.Scheme].Open}
	switch {
	case f.timeout <= 0:
		return nil, usageErrorf("--timeout must be positive: omit it for a minute")
	case f.ca != "" && f.insecure:
		return nil, usageErrorf("--ca verifies certificates and --insecure-skip-tls-verify does not: use only one of them")
	case f.ca != "":
		if t.CA, err = os.ReadFile(f.ca); err != nil {
			return nil, usageErrorf("--ca: %v", err)
		}
	}
	if t.Username = cmp.Or(f.username, c.getenv("BMC_USERNAME")); t.Username == "" && drivers.NeedUsername(u.Scheme) {
		return nil, usageErrorf("there is no user name: use --username, or set BMC_USERNAME")
	}
	t.Password, err = f.password(ctx, t.Username, c)
	return t, err
}

// parseAddress reads the URL of a BMC. No error quotes a URL that may contain a password.
func parseAddress(text string, all map[string]bmc.Driver) (*url.URL, error) {
	if strings.Contains(text, "@") {
		return nil, usageErrorf("the URL contains credentials, which every user of this machine can see: remove them, " +
			"and use --username, and --password-file or BMC_PASSWORD")
	}
	u, err := url.Parse(text)
	if err != nil {
		var reason *url.Error
		if errors.As(err, &reason) {
			err = reason.Err
		}
		if !strings.Contains(text, "://") {
			err = errors.New("it has no scheme")
		}
		return nil, usageErrorf("%q is not the URL of a BMC: %v: write it like redfish://192.0.2.10", text, err)
	}
	switch {
	case !strings.Contains(text, "://"):
		return nil, usageErrorf("%q has no scheme: write redfish://%s, or use another of %s", text, text, drivers.Schemes(all))
	case u.Scheme == "https":
		return nil, usageErrorf("https:// does not name the protocol of the BMC: write redfish://%s", u.Host)
	case u.Scheme == "http":
		return nil, usageErrorf("http:// does not name the protocol of the BMC: write redfish+http://%s", u.Host)
	case all[u.Scheme].Open == nil:
		return nil, usageErrorf("the scheme %s:// is unknown: use one of %s", u.Scheme, drivers.Schemes(all))
	case u.Hostname() == "":
		return nil, usageErrorf("%q names no host: write it like %s://192.0.2.10", text, u.Scheme)
	case u.Fragment != "":
		return nil, usageErrorf("%q has a part after #, which is never sent to a BMC: remove it", text)
	}
	return u, nil
}

// password reads the password from its file, the environment or a prompt. It is never an argument, because every user of the machine can
// see arguments.
func (f *connection) password(ctx context.Context, username string, c console) (string, error) {
	if f.passwordFile != "" {
		content, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return "", usageErrorf("--password-file: %v", err)
		}
		password := strings.TrimRight(string(content), "\r\n")
		if password == "" {
			return "", usageErrorf("--password-file: %s is empty: write the password into it", f.passwordFile)
		}
		return password, nil
	}
	if password := c.getenv("BMC_PASSWORD"); password != "" {
		return password, nil
	}
	if in, ok := c.in.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		return ask(ctx, in, strings.TrimSuffix("Password of "+username, " of ")+": ", c)
	}
	return "", usageErrorf("there is no password: use --password-file, set BMC_PASSWORD, or run bmcctl at a terminal")
}

// ask prompts for a password without echo. When ctx ends, it restores the echo of the terminal.
func ask(ctx context.Context, in *os.File, question string, c console) (string, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", err
	}
	writef(c.err, "%s", question)
	type answer struct {
		password []byte
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		password, err := term.ReadPassword(fd)
		answers <- answer{password, err}
	}()
	select {
	case a := <-answers:
		writef(c.err, "\n")
		if a.err == nil && len(a.password) == 0 {
			return "", usageErrorf("the password is empty: type it, or use --password-file")
		}
		return string(a.password), a.err
	case <-ctx.Done():
		writef(c.err, "\n")
		return "", errors.Join(ctx.Err(), term.Restore(fd, before))
	}
}

// explain adds the remedy to an error of a BMC.
func (t *target) explain(err error) error {
	remedy := ""
	switch bmc.KindOf(err) {
	case bmc.Unauthorized:
		remedy = fmt.Sprintf("check the user name %q and the password; bmcctl does not retry, because BMCs lock accounts", t.Username)
		if !drivers.NeedUsername(t.URL.Scheme) {
			remedy = "check the password; bmcctl does not retry"
		}
	case bmc.BadCertificate:
		if bmc.WrongCertificate(err) {
			return err // another CA does not help, and the error contains the remedy
		}
		remedy = "use --ca FILE with the certificate of its CA, or accept any with --insecure-skip-tls-verify"
	case bmc.Unreachable:
		remedy = "check the address and the port, and that this machine can reach the BMC's network; --timeout sets a longer timeout"
	case bmc.NotFound, bmc.Unsupported, bmc.Busy, bmc.Failed:
		return err
	}
	return fmt.Errorf("%w: %s", err, remedy)
}
