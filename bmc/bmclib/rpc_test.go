package bmclib

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// hook is a webhook that controls a fake server. It checks signatures as documented, independently of the provider.
type hook struct {
	bmctest.Fake

	signed  string // "body", or empty
	chunked bool
	// answer, where set, replaces the answer to a method.
	answer map[string]string
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	stamp := r.Header.Get("X-Bmclib-Timestamp")
	at, err := time.Parse(time.RFC3339, stamp)
	if err != nil || time.Since(at).Abs() > time.Minute {
		http.Error(w, "old", http.StatusUnauthorized)
		return
	}
	mac := hmac.New(sha256.New, []byte(password))
	mac.Write(body)
	if h.signed != "body" {
		mac.Write([]byte(stamp))
	}
	if r.Header.Get("X-Bmclib-Signature-256") != "sha256="+hex.EncodeToString(mac.Sum(nil)) {
		http.Error(w, "wrong signature", http.StatusUnauthorized)
		return
	}
	var request struct {
		ID     int64  `json:"id"`
		Host   string `json:"host"`
		Method string `json:"method"`
		Params struct {
			State      string `json:"state"`
			Device     string `json:"device"`
			Persistent bool   `json:"persistent"`
			EFIBoot    bool   `json:"efiBoot"`
		} `json:"params"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.Host != "rack 1/7" || r.URL.Path != "/hooks/bmc" || r.URL.RawQuery != "a=b" {
		http.Error(w, "nonsense", http.StatusBadRequest)
		return
	}
	if answer, ok := h.answer[request.Method]; ok {
		_, _ = io.WriteString(w, answer)
		return
	}
	result := map[string]any{"id": request.ID, "host": request.Host}
	value, err := h.obey(r.Context(), request.Method, request.Params.State, request.Params.Device, request.Params.Persistent, request.Params.EFIBoot)
	if result["result"] = value; err != nil {
		result["error"] = map[string]any{"code": 500, "message": err.Error()}
	}
	if h.chunked {
		w.(http.Flusher).Flush()
	}
	_ = json.NewEncoder(w).Encode(result)
}

func (h *hook) obey(ctx context.Context, method, state, device string, persistent, efi bool) (any, error) {
	switch method {
	case "ping":
		return "pong", nil
	case "getPowerState":
		state, err := h.PowerState(ctx)
		return map[bmc.PowerState]string{bmc.PowerOn: "on", bmc.PowerOff: "off"}[state], err
	case "setPowerState":
		do := map[string]func(context.Context) error{
			"on": h.PowerOn, "off": h.ForceOff, "soft": h.ShutDown, "cycle": h.Cycle, "reset": h.Reset,
		}[state]
		if do == nil {
			return nil, errors.New("no such state")
		}
		return "ok", do(ctx)
	case "setBootDevice":
		override := bmc.BootOverride{Continuous: persistent, Mode: map[bool]bmc.BootMode{true: bmc.BootUEFI, false: bmc.BootLegacy}[efi]}
		override.Target = map[string]bmc.BootTarget{"none": bmc.BootNone, "pxe": bmc.BootPXE, "disk": bmc.BootDisk, "cdrom": bmc.BootCD}[device]
		if override.Target == "" {
			return nil, errors.New("no such device")
		}
		_, err := h.SetBootOverride(ctx, override, "")
		return "ok", err
	default:
		return nil, errors.New("no such method")
	}
}

const hookPath = "/hooks/bmc?a=b&host=rack+1%2F7"

func (h *hook) endpoint(t *testing.T) bmc.Endpoint {
	t.Helper()
	host, ca := serveTLS(t, h)
	return bmc.Endpoint{URL: parse(t, "rpc+https://"+host+hookPath), Password: password, CA: ca}
}

func TestRPCConforms(t *testing.T) {
	bmctest.Test(t, bmctest.Subject{Open: testDriver().OpenRPC, Endpoint: (&hook{}).endpoint(t), Settle: settle, Must: []bmc.Capability{
		bmc.CanBootCD, bmc.CanBootDisk, bmc.CanBootPXE, bmc.CanCycle, bmc.CanForceOff, bmc.CanPowerOn, bmc.CanReset, bmc.CanShutDown,
	}})
}

func TestRPCVariants(t *testing.T) {
	g := NewWithT(t)
	h := &hook{signed: "body", chunked: true}
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := testDriver().OpenRPC(t.Context(), bmc.Endpoint{
		URL: parse(t, "rpc+http://"+server.Listener.Addr().String()+hookPath+"&signed=body"), Password: password,
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.PowerOn(t.Context())).To(Succeed())
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOn))
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Continuous: true, Mode: bmc.BootUEFI}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(h.BootOverride(t.Context())).To(Equal(bmc.BootOverride{Target: bmc.BootPXE, Continuous: true, Mode: bmc.BootUEFI}))
	g.Expect(c.Close(t.Context())).To(Succeed())
}

// TestRPCAnswers: valid and invalid responses of a webhook. An invalid response is never a power state.
func TestRPCAnswers(t *testing.T) {
	for answer, want := range map[string]bmc.Kind{
		`{"result":"Standby"}`: bmc.Failed,
		`{"result":true}`:      bmc.Failed,
		`{"result":""}`:        bmc.Failed,
		`{}`:                   bmc.Failed,
		``:                     bmc.Failed,
		`[]`:                   bmc.Failed,
		`{"result":"off"} {}`:  bmc.Failed,
		`{"result":"off","error":{"code":0,"message":"lost the BMC"}}`:   bmc.Failed,
		`{"result":"off","error":{"code":-32601,"message":"no method"}}`: bmc.Unsupported,
		`{"result":"off","error":{"code":404,"message":"no such host"}}`: bmc.NotFound,
		`{"result":"off","error":{"code":503,"message":"busy"}}`:         bmc.Unreachable,
		`{"result":"off","error":{"code":401,"message":"wrong"}}`:        bmc.Unauthorized,
		`{"result":"off","error":"text"}`:                                bmc.Failed,
		`{"result":"OFF","error":{}}`:                                    "",
	} {
		t.Run(answer, func(t *testing.T) {
			g := NewWithT(t)
			h := &hook{answer: map[string]string{"getPowerState": answer}}
			c, err := testDriver().OpenRPC(t.Context(), h.endpoint(t))
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = c.Close(context.Background()) }()
			state, err := c.PowerState(t.Context())
			if want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(state).To(Equal(bmc.PowerOff))
				return
			}
			g.Expect(state).To(BeEmpty())
			g.Expect(bmc.KindOf(err)).To(Equal(want), "%v", err)
			g.Expect(c.ForceOff(t.Context())).NotTo(Succeed())
			g.Expect(h.Calls()).To(BeEmpty())
		})
	}
}

func TestRPCFaults(t *testing.T) {
	webServerFaults(t, SchemeRPC, hookPath, func(d *Driver) openFunc { return d.OpenRPC })
	good := (&hook{answer: map[string]string{"ping": `{"error":{"code":404,"message":"who?"}}`}}).endpoint(t)
	t.Run("the webhook does not know the BMC", func(t *testing.T) {
		expectKind(t, testDriver().OpenRPC, good, bmc.NotFound)
	})
	for name, c := range map[string]struct {
		url  string
		want bmc.Kind
	}{
		"no name":    {"rpc+https://127.0.0.1/x", bmc.NotFound},
		"no host":    {"rpc+https:///x?host=a", bmc.NotFound},
		"bad signed": {"rpc+https://127.0.0.1/x?host=a&signed=no", bmc.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			expectKind(t, testDriver().OpenRPC, bmc.Endpoint{URL: parse(t, c.url), Password: password}, c.want)
		})
	}
	t.Run("no password", func(t *testing.T) {
		expectKind(t, testDriver().OpenRPC, bmc.Endpoint{URL: good.URL, CA: good.CA}, bmc.Unauthorized)
	})
}

func FuzzWebhookError(f *testing.F) {
	f.Add(200, `{"result":"on"}`)
	f.Add(200, `{"error":{"code":-32601,"message":"x"}}`)
	f.Add(500, `{"error":null}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		err := webhookError(&answer{status: status, header: http.Header{}, body: []byte(body)})
		if err == nil && (status != http.StatusOK || !json.Valid([]byte(body))) {
			t.Errorf("%d %q is no error", status, body)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("a long error: %v", err)
		}
	})
}
