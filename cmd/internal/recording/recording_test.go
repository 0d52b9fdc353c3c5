package recording

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

const recorded = `{"/redfish/v1": {"Systems": {"@odata.id": "/redfish/v1/Systems"}}, "/redfish/v1/systems/1/bios": {"Id": "bios"},
  "/r/en/x": {"@odata.type": "#AttributeRegistry.v1_2_1.AttributeRegistry", "Id": "X.v1", "Language": "en", "RegistryEntries": {"Attributes": []}},
  "/r/ja/x": {"@odata.type": "#AttributeRegistry.v1_2_1.AttributeRegistry", "Id": "X.v1", "Language": "ja", "RegistryEntries": {"Attributes": []}},
  "/r/m": {"@odata.type": "#MessageRegistry.v1.MessageRegistry", "Id": "M", "RegistryEntries": {}}}`

// ask returns the status and the body of an answer.
func ask(t *testing.T, s *Service, method, path string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://recording"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// TestService: a recording answers GET only, without regard to the case of a path and to a slash at its end, and lists its registries.
func TestService(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	plain, packed := filepath.Join(folder, "a.json"), filepath.Join(folder, "a.json.gz")
	g.Expect(os.WriteFile(plain, []byte(recorded), 0o600)).To(Succeed())
	var content bytes.Buffer
	zip := gzip.NewWriter(&content)
	_, err := zip.Write([]byte(recorded))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(zip.Close()).To(Succeed())
	g.Expect(os.WriteFile(packed, content.Bytes(), 0o600)).To(Succeed())
	for _, file := range []string{plain, packed} {
		s, err := Open(file)
		g.Expect(err).NotTo(HaveOccurred())
		for path, want := range map[string]int{
			"/redfish/v1/": 200, "/redfish/v1/Systems/1/Bios": 200, "/redfish/v1/systems/1/bios/": 200, "/redfish/v1/Systems": 404, "/redfish/v1?$expand=.": 501,
		} {
			status, _ := ask(t, s, http.MethodGet, path)
			g.Expect(status).To(Equal(want), path)
		}
		status, _ := ask(t, s, http.MethodPatch, "/redfish/v1/systems/1/bios")
		g.Expect(status).To(Equal(405))
		_, list := ask(t, s, http.MethodGet, "/redfish/v1/Registries")
		g.Expect(list).To(MatchJSON(`{"@odata.id": "/redfish/v1/Registries", "Members": [{"@odata.id": "/redfish/v1/Registries/X.v1"}], "Members@odata.count": 1}`))
		_, file := ask(t, s, http.MethodGet, "/redfish/v1/Registries/X.v1")
		g.Expect(file).To(ContainSubstring(`"Location":[{"Language":"en","Uri":"/r/en/x"},{"Language":"ja","Uri":"/r/ja/x"}]`))
	}
}

func TestOpenFails(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	for name, content := range map[string]string{"list.json": `[]`, "empty.json": `{}`, "text.json.gz": `{}`} {
		file := filepath.Join(folder, name)
		g.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
		_, err := Open(file)
		g.Expect(err).To(MatchError(ContainSubstring(file)), name)
	}
	_, err := Open(filepath.Join(folder, "none"))
	g.Expect(err).To(HaveOccurred())
}
