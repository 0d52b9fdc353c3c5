package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// rootPath is the service root (DSP0266, 6.4). It is the only path with a trailing slash.
const rootPath = "/redfish/v1/"

// wire sends the requests of a connection. It authenticates with the session if there is one, and otherwise with HTTP basic
// authentication. Requests to the service root and for a new session have no credentials.
type wire struct {
	client    *http.Client
	transport *loginTransport
	base      string // scheme and host
	host      string
	// username and password are empty until the service root has been read.
	username, password string
	// token authenticates a session, and session is its path.
	token, session string
}

func (d *Driver) newWire(ctx context.Context, endpoint bmc.Endpoint) (*wire, error) {
	client, transport, err := d.httpClient(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	return &wire{client: client, transport: transport, base: baseURL(endpoint.URL), host: endpoint.URL.Host}, nil
}

// answer is a response of a BMC.
type answer struct {
	header http.Header
	body   []byte
}

// send sends a request. The error is an *answerError if the BMC answered with an error.
func (w *wire) send(ctx context.Context, method, path string, body any, headers map[string]string) (answer, error) {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, w.base+path, content)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	switch {
	case w.token != "":
		request.Header.Set("X-Auth-Token", w.token)
	case w.username != "":
		request.SetBasicAuth(w.username, w.password)
	}
	response, err := w.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body) // limitedTransport.RoundTrip has read it into memory
	if err != nil {
		return answer{}, err
	}
	if response.StatusCode/100 != 2 {
		return answer{}, errorOf(response.StatusCode, read)
	}
	return answer{response.Header, read}, nil
}

// openSession opens a session (DSP0266, 13.3.4). Further requests use it.
func (w *wire) openSession(ctx context.Context, sessions, username, password string) error {
	made, err := w.send(ctx, http.MethodPost, sessions, map[string]any{"UserName": username, "Password": password}, nil)
	if err != nil {
		return err
	}
	path := w.localPath(made.header.Get("Location"))
	if path == "" {
		session, _ := decode(made.body) // it may be empty
		path = session.link("@odata.id")
	}
	token := made.header.Get("X-Auth-Token")
	if token == "" || path == "" {
		return &bmc.Error{Kind: bmc.Failed, Op: "Log in", Err: errors.New(
			"the BMC opened a session without a path or token, so the provider cannot close it: remove auth=session from the address")}
	}
	w.token, w.session = token, path
	return nil
}

// localPath returns the path of a Location header, or "" if the header names another host.
func (w *wire) localPath(location string) string {
	u, err := url.Parse(strings.TrimSpace(location))
	if err != nil || u.Host != "" && u.Host != w.host {
		return ""
	}
	return cleanLink(u.Path)
}

// closeSession ends the session, if there is one.
func (w *wire) closeSession(ctx context.Context) error {
	if w.session == "" {
		return nil
	}
	_, err := w.send(ctx, http.MethodDelete, w.session, nil, nil)
	if status := statusOf(err); err == nil || status == http.StatusUnauthorized || status == http.StatusNotFound {
		w.token, w.session = "", "" // after 401 and 404, the BMC has already ended it
		return nil
	}
	return wrap("Log out", err)
}
