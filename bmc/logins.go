package bmc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// BMCs lock an account after three to five refused logins within some minutes, whoever caused them (see backoff). Hosts of several namespaces may name one BMC, under
// several names, and each new password would be tried at once. So the refused logins of a user at an address are counted for the whole process, and credentials that this
// process has not seen accepted wait once there were loginBudget of them within loginWindow.
const (
	loginBudget = 2
	loginWindow = 10 * time.Minute
	// loginMemory is how long credentials count as accepted after their last login.
	loginMemory = 24 * time.Hour
)

// account is a user of a BMC. The standard ports of a BMC have the same users, so they have the port 0; BMCs at other ports may be several behind one address.
type account struct {
	address netip.Addr
	port    string
	user    string
}

// credentialsOf are credentials of an account.
type credentialsOf struct {
	account
	id credentialsID
}

// logins are those of all jobs of a pool.
type logins struct {
	mu       sync.Mutex
	refused  map[account][]time.Time
	accepted map[credentialsOf]time.Time
}

func newLogins() *logins {
	return &logins{refused: map[account][]time.Time{}, accepted: map[credentialsOf]time.Time{}}
}

// login is that of one job. Its connections are those that AllowList.Dial makes with its context.
type login struct {
	logins *logins
	user   string
	id     credentialsID

	mu    sync.Mutex
	tried []account
}

type loginKey struct{}

// withLogin returns a context for a job that connects to an endpoint.
func (l *logins) withLogin(ctx context.Context, e Endpoint, id credentialsID) (context.Context, *login) {
	one := &login{logins: l, user: e.Username, id: id}
	return context.WithValue(ctx, loginKey{}, one), one
}

// errLoginHeld is why a login is not tried.
var errLoginHeld = errors.New("the login is not tried")

// admitLogin returns an error if the user of the job in ctx must not log in at an address now. Without a job, as in bmcctl, each login is admitted.
func admitLogin(ctx context.Context, ip netip.Addr, port string) error {
	one, ok := ctx.Value(loginKey{}).(*login)
	if !ok {
		return nil
	}
	if slices.Contains([]string{"443", "80", "623", "16992", "16993"}, port) {
		port = "0"
	}
	a := account{ip.Unmap().WithZone(""), port, one.user}
	if wait := one.logins.wait(a, one.id, time.Now()); wait > 0 {
		return &Error{
			Kind: Unauthorized, Op: "Log in", RetryAfter: wait, Err: fmt.Errorf("%w: the BMC refused %d logins of this user in the last %s, of this host or of another one, "+
				"and would lock the account", errLoginHeld, loginBudget, loginWindow),
		}
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if !slices.Contains(one.tried, a) {
		one.tried = append(one.tried, a)
	}
	return nil
}

// wait is how long credentials must not be tried.
func (l *logins) wait(a account, id credentialsID, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := slices.DeleteFunc(l.refused[a], func(t time.Time) bool { return now.Sub(t) >= loginWindow })
	if len(recent) == 0 {
		delete(l.refused, a)
	} else {
		l.refused[a] = recent
	}
	if _, ok := l.accepted[credentialsOf{a, id}]; ok || len(recent) < loginBudget {
		return 0
	}
	return loginWindow - now.Sub(recent[len(recent)-loginBudget])
}

// end records how a job ended: the BMC refused the credentials, or answered with them.
func (one *login) end(refused bool, now time.Time) {
	one.mu.Lock()
	defer one.mu.Unlock()
	l := one.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range one.tried {
		if refused { // accepted credentials stay accepted: BMCs also refuse while they restart
			l.refused[a] = append(l.refused[a], now)
		} else {
			l.accepted[credentialsOf{a, one.id}] = now
		}
	}
}

// forget drops what has no effect any more.
func (l *logins) forget(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, times := range l.refused {
		if now.Sub(times[len(times)-1]) >= loginWindow {
			delete(l.refused, a)
		}
	}
	for c, last := range l.accepted {
		if now.Sub(last) >= loginMemory {
			delete(l.accepted, c)
		}
	}
}
