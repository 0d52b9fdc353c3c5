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

// BMCs lock an account after three to five refused logins within some minutes, of all clients (see backoff). Hosts of several namespaces may name one BMC, under
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

// logins are those of all jobs of a pool.
type logins struct {
	mu       sync.Mutex
	refused  map[account][]time.Time
	underWay map[account]int                   // logins with credentials that were not accepted yet, whose end is not known
	accepted map[credentialsID][]acceptedLogin // usually one account for each: a map would be 1 KiB for each host
}

// acceptedLogin is when an account last logged in.
type acceptedLogin struct {
	account account
	last    time.Time
}

func newLogins() *logins {
	return &logins{refused: map[account][]time.Time{}, underWay: map[account]int{}, accepted: map[credentialsID][]acceptedLogin{}}
}

// login is that of one job. Its connections are those that AllowList.Dial makes with its context.
type login struct {
	logins *logins
	user   string
	id     credentialsID

	mu    sync.Mutex
	tried map[account]bool // true for one that counts as under way
}

type loginKey struct{}

// withLogin returns a context for a job that connects to an endpoint.
func (l *logins) withLogin(ctx context.Context, e Endpoint, id credentialsID) (context.Context, *login) {
	one := &login{logins: l, user: e.Username, id: id, tried: map[account]bool{}}
	return context.WithValue(ctx, loginKey{}, one), one
}

// ErrLoginDeferred is the error of a login that is not tried, because the BMC has refused others of the user. Before RetryAfter only credentials that it accepted earlier are tried.
var ErrLoginDeferred = errors.New("the login is not tried")

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
	one.mu.Lock()
	defer one.mu.Unlock()
	if _, again := one.tried[a]; again {
		return nil
	}
	wait, counts := one.logins.begin(a, one.id, time.Now())
	if wait > 0 {
		return &Error{
			Kind: Unauthorized, Op: "Log in", RetryAfter: wait, Err: fmt.Errorf("%w: the BMC refused %d logins of this user in the last %s, of this host or of another one, "+
				"and would lock the account", ErrLoginDeferred, loginBudget, loginWindow),
		}
	}
	one.tried[a] = counts
	return nil
}

// LoginAccepted is false for a job of a Pool whose credentials this process has not seen accepted. A login is counted when it connects, so the job needs new connections, and
// no other job may use them.
func LoginAccepted(ctx context.Context) bool {
	one, ok := ctx.Value(loginKey{}).(*login)
	if !ok {
		return true
	}
	one.logins.mu.Lock()
	defer one.logins.mu.Unlock()
	return len(one.logins.accepted[one.id]) > 0
}

// begin returns how long credentials must not be tried. If they may be, counts is true if they are under way until end.
func (l *logins) begin(a account, id credentialsID, now time.Time) (wait time.Duration, counts bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := slices.DeleteFunc(l.refused[a], func(t time.Time) bool { return now.Sub(t) >= loginWindow })
	if len(recent) == 0 {
		delete(l.refused, a)
	} else {
		l.refused[a] = recent
	}
	switch {
	case l.indexOf(id, a) >= 0:
		return 0, false
	case len(recent) >= loginBudget:
		return loginWindow - now.Sub(recent[len(recent)-loginBudget]), false
	case len(recent)+l.underWay[a] >= loginBudget:
		return loginPause, false
	}
	l.underWay[a]++
	return 0, true
}

// indexOf returns the place of an account among the accepted ones of credentials, and -1 if they were not accepted there. l.mu is held.
func (l *logins) indexOf(id credentialsID, a account) int {
	return slices.IndexFunc(l.accepted[id], func(one acceptedLogin) bool { return one.account == a })
}

// loginPause is how long credentials wait for others whose login is under way.
const loginPause = 10 * time.Second

// end records how a job ended: err is nil, or what the BMC answered. It is called once.
func (one *login) end(err error, now time.Time) {
	one.mu.Lock()
	defer one.mu.Unlock()
	l := one.logins
	l.mu.Lock()
	defer l.mu.Unlock()
	for a, counts := range one.tried {
		if counts {
			if l.underWay[a]--; l.underWay[a] == 0 {
				delete(l.underWay, a)
			}
		}
		switch kind := KindOf(err); {
		case errors.Is(err, ErrLoginDeferred): // at another address
		case err != nil && kind == Unauthorized: // accepted credentials stay accepted: BMCs also refuse while they restart
			l.refused[a] = append(l.refused[a], now)
		case err == nil || kind == Unsupported:
			if i := l.indexOf(one.id, a); i >= 0 {
				l.accepted[one.id][i].last = now
			} else {
				l.accepted[one.id] = append(l.accepted[one.id], acceptedLogin{a, now})
			}
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
	for id, all := range l.accepted {
		l.accepted[id] = slices.DeleteFunc(all, func(one acceptedLogin) bool { return now.Sub(one.last) >= loginMemory })
		if len(l.accepted[id]) == 0 {
			delete(l.accepted, id)
		}
	}
}
