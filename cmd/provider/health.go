package provider

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// health serves /healthz and /readyz. The manager's own server would withhold why the process is not ready: only its log and the path of the single check
// would have the reason (controller-runtime v0.24, pkg/healthz). Here no reason contains a secret.
type health struct {
	live, ready map[string]healthz.Checker
	listener    net.Listener // nil if nothing is served
}

// AddReadyzCheck adds a check of /readyz. It replaces the method of the manager, which does not serve /readyz.
func (p *Provider) AddReadyzCheck(name string, check healthz.Checker) error {
	return add(p.health.ready, name, check)
}

// AddHealthzCheck adds a check of /healthz, like AddReadyzCheck.
func (p *Provider) AddHealthzCheck(name string, check healthz.Checker) error {
	return add(p.health.live, name, check)
}

func add(checks map[string]healthz.Checker, name string, check healthz.Checker) error {
	if _, exists := checks[name]; exists {
		return fmt.Errorf("there are two health checks %q", name)
	}
	checks[name] = check
	return nil
}

// addHealth listens at an address for health checks, and serves them as soon as the manager starts. "" and "0" serve none, as with the manager.
func (p *Provider) addHealth(ctx context.Context, address string) error {
	if address == "" || address == "0" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for health checks: %w", err)
	}
	p.health.listener = listener
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": p.health.live, "/readyz": p.health.ready} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { serveChecks(w, r, checks) })
		mux.Handle(path+"/", http.StripPrefix(path, &healthz.Handler{Checks: checks})) // single checks
	}
	return p.Add(&manager.Server{Name: "health probe", Listener: listener, Server: &http.Server{
		Handler: mux, MaxHeaderBytes: 1 << 20, IdleTimeout: 90 * time.Second, ReadHeaderTimeout: 32 * time.Second, // as the manager's own
	}})
}

// serveChecks answers with one line for each check, which has the reason of a failure.
func serveChecks(w http.ResponseWriter, r *http.Request, checks map[string]healthz.Checker) {
	var body strings.Builder
	status := http.StatusOK
	for _, name := range slices.Sorted(maps.Keys(checks)) {
		if err := checks[name](r); err != nil {
			status = http.StatusInternalServerError
			fmt.Fprintf(&body, "[-]%s failed: %s\n", name, err)
			continue
		}
		fmt.Fprintf(&body, "[+]%s ok\n", name)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body.String()))
}
