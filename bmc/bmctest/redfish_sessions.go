package bmctest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// logins are the account of a BMC and its Redfish sessions.
type logins struct {
	*core

	sessions  map[string]string // the tokens, by ID
	lastToken int
	refused   int // logins
}

// Sessions counts the Redfish sessions that are open.
func (l *logins) Sessions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.sessions)
}

// Refused counts the logins that were refused.
func (l *logins) Refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// SetPassword changes the BMC's password.
func (l *logins) SetPassword(password string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opts.Password = password
}

func (l *logins) authorized(r *http.Request) bool {
	if l.faults.take(Unauthorized401) {
		l.forgetSessions()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if token := r.Header.Get("X-Auth-Token"); token != "" {
		for _, t := range l.sessions {
			if t == token {
				return true
			}
		}
		return false
	}
	username, password, ok := r.BasicAuth()
	return l.loggedIn(ok && username == l.opts.Username && password == l.opts.Password)
}

// loggedIn counts logins. l.mu is held.
func (l *logins) loggedIn(ok bool) bool {
	if !ok {
		l.refused++
	}
	return ok
}

func (l *logins) login(w http.ResponseWriter, r *http.Request) {
	var login struct {
		UserName string `json:"UserName"`
		Password string `json:"Password"`
	}
	err := json.NewDecoder(r.Body).Decode(&login)
	if l.faults.on(SessionTableFull) {
		refuse(w, http.StatusServiceUnavailable, "SessionLimitExceeded", "There are too many sessions")
		return
	}
	l.mu.Lock()
	ok := l.loggedIn(err == nil && login.UserName == l.opts.Username && login.Password == l.opts.Password)
	l.lastToken++
	id := strconv.Itoa(l.lastToken)
	if ok {
		l.sessions[id] = "token-" + id
	}
	l.mu.Unlock()
	if !ok {
		refuse(w, http.StatusUnauthorized, "InsufficientPrivilege", "Wrong or no credentials")
		return
	}
	w.Header().Set("X-Auth-Token", "token-"+id)
	w.Header().Set("Location", sessionPath+"/"+id)
	w.WriteHeader(http.StatusCreated)
}

func (l *logins) logout(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sessions, id)
}

func (l *logins) forgetSessions() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.sessions)
}
