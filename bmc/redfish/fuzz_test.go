package redfish

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

var seeds = []string{
	`{}`, `null`, `[]`, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}],"Members@odata.nextLink":"/redfish/v1/Systems?page=2"}`,
	`{"PowerState":"On","UUID":7,"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","HttpBootUri":"None"},
	  "MemorySummary":{"TotalSystemMemoryGiB":"64"},"ProcessorSummary":{"Count":1e99},"Storage":{"@odata.id":"/a"},"PCIeDevices":null}`,
	`{"Temperatures":{"ReadingCelsius":"NaN"},"Fans":[{"Reading":1,"ReadingUnits":"Percent"}],"Actions":{"#ComputerSystem.Reset":{"target":"@evil/"}}}`,
	`{"Created":"2026-11-21T00:00:00Z","Severity":"OK","Message":null,"Identifiers":[{"DurableNameFormat":"NAA","DurableName":"naa.5:0"}]}`,
}

// FuzzResource: whatever a BMC answers is picked apart without a panic, and no link leads elsewhere.
func FuzzResource(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, err := decode([]byte(body))
		if err != nil {
			return
		}
		_ = readOverride(r)
		_ = sensorsIn(r)
		_ = eventOf(r)
		_ = wwnOf(r)
		_ = architectureOf(r)
		_ = isServer(r)
		_ = isInserted(r)
		var i bmc.Inventory
		cpus(&i, r, r.list("Members"))
		if i.CPUThreads < 0 || memoryMiB(r) < 0 || r.count("n") < 0 {
			t.Errorf("a negative count: %+v", i)
		}
		for name := range r {
			if to := r.link(name); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//")) {
				t.Errorf("a link that leads to another host: %q", to)
			}
			if mac := macOf(r.text(name)); mac != "" && len(mac) != 17 {
				t.Errorf("%q is no MAC address", mac)
			}
		}
	})
}

// FuzzRetryAfter: a BMC cannot keep us away for longer than ten minutes, or call us back at once.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "-5", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		busy := busyOf(&http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {value}}})
		if busy != nil && (busy.after < time.Second || busy.after > 10*time.Minute) {
			t.Errorf("%q is %s", value, busy.after)
		}
	})
}

// FuzzAnswers: every call copes with a BMC that gives the same answer to everything, and ends.
func FuzzAnswers(f *testing.F) {
	for i, seed := range seeds {
		f.Add(uint8(i), seed)
	}
	answer := make(chan []byte, 1)
	answer <- nil
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1" {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		body := <-answer
		answer <- body
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	f.Cleanup(server.Close)
	driver := &Driver{Permit: bmctest.Loopback}
	f.Fuzz(func(t *testing.T, code uint8, body string) {
		<-answer
		status = []int{200, 200, 200, 400, 401, 404, 412, 500, 501}[int(code)%9]
		answer <- bytes.Clone([]byte(body))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		u, err := url.Parse(strings.Replace(server.URL, "http", SchemeInsecure, 1) + "/redfish/v1/Systems/1")
		if err != nil {
			t.Fatal(err)
		}
		opened, err := driver.Open(ctx, bmc.Endpoint{URL: u})
		if err != nil {
			return
		}
		c := opened.(*conn)
		_, _ = c.PowerState(ctx)
		_, _ = c.Describe(ctx)
		_, _ = c.Inspect(ctx)
		_, _ = c.Sensors(ctx)
		_, _ = c.Events(ctx, 5)
		_, _ = c.Clock(ctx)
		_, _ = c.SecureBoot(ctx)
		_, _ = c.Media(ctx)
		_, _ = c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}, "")
		if ctx.Err() != nil {
			t.Error("it took more than 10 s")
		}
	})
}
