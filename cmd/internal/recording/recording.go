// Package recording answers requests of a Redfish client from a recorded service: a JSON file, or one in gzip, that maps the paths of a service to its answers. It
// opens no connection, and refuses every request but GET.
package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
)

// maxRecording is the maximum size of a recording, uncompressed. The largest one of the project's corpus has 20 MiB.
const maxRecording = 256 << 20

// Service is a recorded Redfish service.
type Service struct {
	bodies map[string]json.RawMessage
	// folded are the paths by their lower case: some BMCs do not tell them apart (HPE).
	folded map[string]string
}

var _ http.RoundTripper = &Service{}

// Open reads a recording.
func Open(file string) (*Service, error) {
	f, err := os.Open(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it is only read
	var content io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		content = unpacked
	}
	read, err := io.ReadAll(io.LimitReader(content, maxRecording+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", file, err)
	case len(read) > maxRecording:
		return nil, fmt.Errorf("%s is larger than %d MiB", file, maxRecording>>20)
	}
	s, err := parse(read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

const (
	rootPath       = "/redfish/v1"
	registriesPath = rootPath + "/Registries"
)

// parse reads the content of a recording.
func parse(content []byte) (*Service, error) {
	s := &Service{folded: map[string]string{}}
	if err := json.Unmarshal(content, &s.bodies); err != nil {
		return nil, fmt.Errorf("it is no recording of a Redfish service, which is a JSON object with a path for each answer: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(s.bodies)) {
		key := fold(path)
		if _, ok := s.folded[key]; !ok {
			s.folded[key] = path
		}
	}
	if s.find(rootPath) == nil {
		return nil, errors.New("it has no service root (/redfish/v1)")
	}
	return s, s.addRegistries()
}

func fold(path string) string { return strings.ToLower(strings.TrimSuffix(path, "/")) }

// find returns the answer for a path; nil without one.
func (s *Service) find(path string) json.RawMessage {
	if body, ok := s.bodies[strings.TrimSuffix(path, "/")]; ok {
		return body
	}
	if recorded, ok := s.folded[fold(path)]; ok {
		return s.bodies[recorded]
	}
	return nil
}

// RoundTrip answers a request.
func (s *Service) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		_ = request.Body.Close() // it is not read
	}
	status, body := http.StatusOK, s.find(request.URL.Path)
	switch {
	case request.Method != http.MethodGet:
		status, body = http.StatusMethodNotAllowed, nil
	case request.URL.RawQuery != "":
		status, body = http.StatusNotImplemented, nil // $expand: the client then reads one by one
	case body == nil:
		status = http.StatusNotFound
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: request,
	}, nil
}

// registry is what the list of registries needs of an attribute registry.
type registry struct {
	ID       string `json:"Id"`
	Language string `json:"Language"`
	Type     string `json:"@odata.type"`
}

// addRegistries adds the collection of registries to a recording that has attribute registries and not their collection: recorders often leave it out.
func (s *Service) addRegistries() error {
	if s.find(registriesPath) != nil {
		return nil
	}
	type object = map[string]any
	locations := map[string][]object{}
	for _, path := range slices.Sorted(maps.Keys(s.bodies)) {
		body := s.bodies[path]
		var r registry
		if !bytes.Contains(body, []byte(`"RegistryEntries"`)) || json.Unmarshal(body, &r) != nil || r.ID == "" || !strings.HasPrefix(r.Type, "#AttributeRegistry.") {
			continue
		}
		locations[r.ID] = append(locations[r.ID], object{"Language": r.Language, "Uri": path})
	}
	var members []object
	for _, id := range slices.Sorted(maps.Keys(locations)) {
		path := registriesPath + "/" + id
		members = append(members, object{"@odata.id": path})
		if err := s.add(path, object{"@odata.id": path, "Id": id, "Registry": id, "Location": locations[id]}); err != nil {
			return err
		}
	}
	if len(members) == 0 {
		return nil
	}
	return s.add(registriesPath, object{"@odata.id": registriesPath, "Members": members, "Members@odata.count": len(members)})
}

func (s *Service) add(path string, body any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	s.bodies[path], s.folded[fold(path)] = content, path
	return nil
}
