package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

const controlHelp = `bmcsim's control server. NAME is a server's name, or * for all of them.

GET    /servers                               the servers, as JSON
GET    /servers/NAME                          one of them
GET    /servers/NAME/commands                 the commands that its BMC received, oldest first
PUT    /servers/NAME/power/on, .../off        switch it like its power button
PUT    /servers/NAME/faults/FAULT[?times=N]   activate a fault, N times or without limit
DELETE /servers/NAME/faults[/FAULT]           deactivate its faults
GET    /faults                                the faults, each with its protocols and what the BMC does
GET    /hosts.yaml                            BareMetalHosts and Secrets of every server, for kubectl apply -f -

  curl -X PUT 'http://%s/servers/*/faults/Slow'
`

// view is a server in the responses of the control server.
type view struct {
	Name       string `json:"name"`
	Protocol   string `json:"protocol"`
	Address    string `json:"address"`
	MACAddress string `json:"macAddress"`
	UUID       string `json:"uuid"`
	Power      string `json:"power"`
	// BootOverride is the override for the next boot.
	BootOverride override `json:"bootOverride"`
	// Image is the URL of the image in the virtual drive.
	Image string `json:"image"`
	// Sessions counts the open Redfish sessions. RefusedLogins counts the refused logins since the start.
	Sessions      int `json:"sessions"`
	RefusedLogins int `json:"refusedLogins"`
	Commands      int `json:"commands"`
	// Faults are the active faults with their remaining occasions; -1 means no limit.
	Faults map[bmctest.Fault]int `json:"faults"`
}

type override struct {
	Target     bmc.BootTarget `json:"target"`
	Mode       bmc.BootMode   `json:"mode,omitempty"`
	Continuous bool           `json:"continuous"`
	URI        string         `json:"uri,omitempty"`
}

type command struct {
	Server string `json:"server"`
	// Name is its Redfish name.
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

func (s *server) view() view {
	m := s.machine
	next, power := m.Override(), bmc.PowerOff
	if m.On() {
		power = bmc.PowerOn
	}
	return view{
		Name: s.name, Protocol: s.protocol, Address: s.url, MACAddress: s.mac, UUID: s.uuid, Power: string(power),
		BootOverride: override{Target: next.Target, Mode: next.Mode, Continuous: next.Continuous, URI: next.URI},
		Image:        m.Image(), Sessions: m.Sessions(), RefusedLogins: m.Refused(), Commands: len(m.Commands()), Faults: m.Misbehaviour(),
	}
}

// startControl starts the control server, and returns its URL; "" without a control server.
func (r *rack) startControl(ctx context.Context) (string, error) {
	if r.opts.control == "" {
		return "", nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", r.opts.control)
	if err != nil {
		return "", listenError("--control", err)
	}
	r.control.BaseContext = func(net.Listener) context.Context { return ctx }
	// It has no password, so the handler refuses cross-origin requests of browsers.
	r.control.Handler = http.NewCrossOriginProtection().Handler(r.controls())
	r.serve("control server", func() error { return r.control.Serve(l) })
	return "http://" + l.Addr().String() + "/", nil
}

func (r *rack) controls() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, req *http.Request) { writeText(w, fmt.Sprintf(controlHelp, req.Host)) })
	mux.HandleFunc("GET /hosts.yaml", func(w http.ResponseWriter, _ *http.Request) { writeText(w, r.manifests()) })
	mux.HandleFunc("GET /faults", func(w http.ResponseWriter, _ *http.Request) {
		var text strings.Builder
		for _, name := range faultNames() {
			info := bmctest.Faults[bmctest.Fault(name)]
			fmt.Fprintf(&text, "%-24s %-14s %s\n", name, strings.Join(protocolsOf(info), ", "), info.What)
		}
		writeText(w, text.String())
	})
	mux.HandleFunc("GET /servers", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, views(r.servers)) })
	mux.HandleFunc("GET /servers/{name}", r.on(func(w http.ResponseWriter, _ *http.Request, servers []*server) {
		if len(servers) == 1 {
			writeJSON(w, servers[0].view())
			return
		}
		writeJSON(w, views(servers))
	}))
	mux.HandleFunc("GET /servers/{name}/commands", r.on(getCommands))
	mux.HandleFunc("PUT /servers/{name}/power/{state}", r.on(putPower))
	mux.HandleFunc("PUT /servers/{name}/faults/{fault}", r.on(putFault))
	mux.HandleFunc("DELETE /servers/{name}/faults/{fault}", r.on(func(w http.ResponseWriter, req *http.Request, servers []*server) {
		misbehave(w, servers, 0, bmctest.Fault(req.PathValue("fault")))
	}))
	mux.HandleFunc("DELETE /servers/{name}/faults", r.on(func(w http.ResponseWriter, _ *http.Request, servers []*server) {
		misbehave(w, servers, 0, slices.Collect(maps.Keys(bmctest.Faults))...)
	}))
	return mux
}

// on finds the servers of a request.
func (r *rack) on(do func(http.ResponseWriter, *http.Request, []*server)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		name := req.PathValue("name")
		s := r.byName[name]
		switch {
		case name == "*":
			do(w, req, r.servers)
		case s == nil:
			http.Error(w, fmt.Sprintf("the server %q does not exist: GET /servers lists the servers, and * means all", name), http.StatusNotFound)
		default:
			do(w, req, []*server{s})
		}
	}
}

func views(servers []*server) []view {
	all := make([]view, 0, len(servers))
	for _, s := range servers {
		all = append(all, s.view())
	}
	return all
}

func getCommands(w http.ResponseWriter, _ *http.Request, servers []*server) {
	commands := []command{}
	for _, s := range servers {
		for _, c := range s.machine.Commands() {
			commands = append(commands, command{Server: s.name, Name: c.Name, At: c.At})
		}
	}
	slices.SortStableFunc(commands, func(a, b command) int { return a.At.Compare(b.At) })
	writeJSON(w, commands)
}

func putPower(w http.ResponseWriter, req *http.Request, servers []*server) {
	state := req.PathValue("state")
	if state != "on" && state != "off" {
		http.Error(w, fmt.Sprintf("the power state %q is unknown: use on or off", state), http.StatusBadRequest)
		return
	}
	for _, s := range servers {
		s.machine.SetPower(state == "on")
	}
	w.WriteHeader(http.StatusNoContent)
}

func putFault(w http.ResponseWriter, req *http.Request, servers []*server) {
	times := forEver
	if text := req.FormValue("times"); text != "" {
		var err error
		if times, err = strconv.Atoi(text); err != nil || times < 1 {
			http.Error(w, fmt.Sprintf("times=%s: use a number from 1, or omit it for no limit; DELETE deactivates a fault", text), http.StatusBadRequest)
			return
		}
	}
	fault := bmctest.Fault(req.PathValue("fault"))
	able := slices.DeleteFunc(slices.Clone(servers), func(s *server) bool { return !s.has(fault) })
	if info, ok := bmctest.Faults[fault]; ok && len(able) == 0 {
		only := strings.Join(protocolsOf(info), " and ")
		http.Error(w, fmt.Sprintf("only %s has the fault %s, and %s uses %s: use a server with %s, or * for all of them; GET /faults lists the faults",
			only, fault, servers[0].name, servers[0].protocol, only), http.StatusConflict)
		return
	}
	if len(able) == 0 {
		able = servers // the fault is unknown, which Misbehave reports
	}
	misbehave(w, able, times, fault)
}

// has is true if BMCs of the server's protocol have the fault.
func (s *server) has(fault bmctest.Fault) bool {
	return slices.Contains(protocolsOf(bmctest.Faults[fault]), s.protocol)
}

func protocolsOf(info bmctest.FaultInfo) []string {
	var names []string
	if info.Redfish {
		names = append(names, protocolRedfish)
	}
	if info.IPMI {
		names = append(names, protocolIPMI)
	}
	return names
}

func misbehave(w http.ResponseWriter, servers []*server, times int, faults ...bmctest.Fault) {
	for _, s := range servers {
		for _, fault := range faults {
			if err := s.machine.Misbehave(fault, times); err != nil {
				http.Error(w, noFault(string(fault)), http.StatusNotFound)
				return
			}
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // a client that went away
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // a client that went away
}
