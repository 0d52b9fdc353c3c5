package bmclib

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

const (
	cim          = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"
	bootSettings = "http://intel.com/wbem/wscim/1/amt-schema/1/AMT_BootSettingData"
	enumeration  = "http://schemas.xmlsoap.org/ws/2004/09/enumeration/"
	transfer     = "http://schemas.xmlsoap.org/ws/2004/09/transfer/"
)

// amtServer is an AMT that controls a fake server. Its responses follow Intel's AMT Implementation and Reference Guide and
// recorded responses: a running server offers 10, 8, 5 and 11, one that is off offers 2; Pull returns one item.
type amtServer struct {
	bmctest.Fake

	// state, if set, is the reported power state. offers, if set, are the offered ones.
	state  string
	offers []int
	// returns is what RequestPowerStateChange returns.
	returns int
	// nonceUses is how often a nonce may be used. Defaults to 5.
	nonceUses int
	// endless enumerations never end.
	endless bool
	// refuses is a fault code that every power command ends with.
	refuses string

	mu       sync.Mutex
	nonce    int
	uses     int
	logins   int // requests with credentials
	failed   int // of these, those with wrong ones
	bootOnce []string
	role     string
	requests []string // actions
}

func (s *amtServer) endpoint(t *testing.T) bmc.Endpoint {
	t.Helper()
	host, ca := serveTLS(t, s)
	return bmc.Endpoint{URL: parse(t, "amt://"+host), Username: username, Password: password, CA: ca}
}

func (s *amtServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Server", "Intel(R) Active Management Technology 16.1.25")
	if !s.authorized(r) {
		s.nonce, s.uses = s.nonce+1, 0
		w.Header().Add("WWW-Authenticate", "Negotiate")
		w.Header().Add("WWW-Authenticate", fmt.Sprintf(
			`Digest realm="Digest:4BB9, \"0000\"", nonce="zicaAAAA%d",stale="false",qop="auth,auth-int"`, s.nonce))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	var message struct {
		Header struct {
			Action      string `xml:"Action"`
			To          string `xml:"To"`
			ResourceURI string `xml:"ResourceURI"`
		} `xml:"Header"`
		Body struct {
			Inner string `xml:",innerxml"`
		} `xml:"Body"`
	}
	if err := xml.Unmarshal(body, &message); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.requests = append(s.requests, message.Header.Action)
	if message.Header.To != "https://"+r.Host+"/wsman" {
		s.fault(w, "wsa:DestinationUnreachable")
		return
	}
	w.Header().Set("Content-Type", "application/soap+xml; charset=UTF-8")
	s.obey(r.Context(), w, message.Header.Action, strings.TrimPrefix(message.Header.ResourceURI, cim), message.Body.Inner)
}

// authorized checks the digest (RFC 2617, 3.2.2), a nonce's count included.
func (s *amtServer) authorized(r *http.Request) bool {
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if scheme != "Digest" {
		return false
	}
	s.logins++
	fields := challengeFields(rest)
	ha1 := hash(username + `:Digest:4BB9, "0000":` + password)
	ha2 := hash("POST:/wsman")
	want := hash(strings.Join([]string{ha1, fields["nonce"], fields["nc"], fields["cnonce"], "auth", ha2}, ":"))
	if fields["response"] != want {
		s.failed++
		return false
	}
	uses := s.nonceUses
	if uses == 0 {
		uses = 5
	}
	s.uses++
	return fields["nonce"] == fmt.Sprintf("zicaAAAA%d", s.nonce) && fields["nc"] == fmt.Sprintf("%08x", s.uses) && s.uses <= uses
}

func (s *amtServer) obey(ctx context.Context, w io.Writer, action, resource, body string) {
	switch {
	case action == enumeration+"Enumerate":
		envelope(w, action, "<e:EnumerateResponse><e:EnumerationContext>1</e:EnumerationContext></e:EnumerateResponse>")
	case action == enumeration+"Pull":
		s.pull(ctx, w, resource, body)
	case action == transfer+"Get" && resource == bootSettings:
		envelope(w, action, `<r:AMT_BootSettingData xmlns:r="`+bootSettings+`"><r:BIOSPause>true</r:BIOSPause>`+
			`<r:BootMediaIndex>1</r:BootMediaIndex><r:ElementName>Intel(r) AMT Boot Configuration Settings</r:ElementName>`+
			`<r:SecureBootControlEnabled>true</r:SecureBootControlEnabled></r:AMT_BootSettingData>`)
	case action == transfer+"Put" && resource == bootSettings && !strings.Contains(body, "SecureBootControlEnabled"):
		envelope(w, action, "")
	case action == cim+"CIM_BootService/SetBootConfigRole":
		s.role = between(body, "Role")
		envelope(w, action, output(resource, "SetBootConfigRole", 0))
	case action == cim+"CIM_BootConfigSetting/ChangeBootOrder":
		s.bootOnce = nil
		if strings.Contains(body, "Intel(r) AMT: Force PXE Boot") {
			s.bootOnce = []string{"PXE"}
		}
		envelope(w, action, output(resource, "ChangeBootOrder", 0))
	case action == cim+"CIM_PowerManagementService/RequestPowerStateChange":
		s.power(ctx, w, action, resource, body)
	default:
		s.fault(w, "wsa:ActionNotSupported")
	}
}

// now is the power state. Who asked and is gone gets no answer: a client that closes its connection may still read what is written just then.
func (s *amtServer) now(ctx context.Context) bmc.PowerState {
	state, err := s.PowerState(ctx)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return state
}

// offered are the power states that may be requested now.
func (s *amtServer) offered(ctx context.Context) []int {
	state := s.now(ctx)
	switch {
	case s.offers != nil:
		return s.offers
	case state == bmc.PowerOn:
		return []int{10, 8, 5, 11}
	default:
		return []int{2}
	}
}

func (s *amtServer) power(ctx context.Context, w io.Writer, action, resource, body string) {
	var wanted int
	_, _ = fmt.Sscan(between(body, "PowerState"), &wanted)
	switch {
	case s.refuses != "":
		s.fault(w, s.refuses)
		return
	case s.returns != 0:
	case !slices.Contains(s.offered(ctx), wanted) || !strings.Contains(body, "ManagedSystem"):
		s.returns = 5 // invalid parameter
		defer func() { s.returns = 0 }()
	default:
		do := map[int]func(context.Context) error{
			2: s.PowerOn, 5: s.Cycle, 8: s.ForceOff, 9: s.Cycle, 10: s.Reset, 12: s.ShutDown,
		}[wanted]
		_ = do(ctx)
	}
	envelope(w, action, output(resource, "RequestPowerStateChange", s.returns))
}

// pull returns one item of an enumeration.
func (s *amtServer) pull(ctx context.Context, w io.Writer, resource, body string) {
	var items []string
	switch resource {
	case "CIM_AssociatedPowerManagementService":
		items = []string{s.service(ctx)}
	case "CIM_ComputerSystem":
		items = []string{reference(resource, "Name", "Intel(r) AMT"), reference(resource, "Name", "ManagedSystem")}
	case "CIM_BootConfigSetting":
		items = []string{reference(resource, "InstanceID", "Intel(r) AMT: Boot Configuration 0")}
	case "CIM_BootSourceSetting":
		items = []string{reference(resource, "InstanceID", "Intel(r) AMT: Force Hard-drive Boot"), reference(resource, "InstanceID", "Intel(r) AMT: Force PXE Boot")}
	}
	var n int
	_, _ = fmt.Sscan(between(body, "EnumerationContext"), &n)
	next := fmt.Sprintf("<e:EnumerationContext>%d</e:EnumerationContext>", n+1)
	if n >= len(items) {
		next = "<e:EndOfSequence/>"
	}
	if s.endless {
		n, next = 1, "<e:EnumerationContext>1</e:EnumerationContext>"
	}
	envelope(w, enumeration+"Pull", "<e:PullResponse>"+next+"<e:Items>"+items[n-1]+"</e:Items></e:PullResponse>")
}

func (s *amtServer) service(ctx context.Context) string {
	told := s.state
	if told == "" {
		state := s.now(ctx)
		told = "<g:PowerState>" + map[bmc.PowerState]string{bmc.PowerOn: "2", bmc.PowerOff: "8"}[state] + "</g:PowerState>"
	}
	var text strings.Builder
	text.WriteString(`<g:CIM_AssociatedPowerManagementService xmlns:g="` + cim + `CIM_AssociatedPowerManagementService">`)
	for _, state := range s.offered(ctx) {
		fmt.Fprintf(&text, "<g:AvailableRequestedPowerStates>%d</g:AvailableRequestedPowerStates>", state)
	}
	return text.String() + told + "<g:RequestedPowerState>2</g:RequestedPowerState></g:CIM_AssociatedPowerManagementService>"
}

func (s *amtServer) fault(w io.Writer, code string) {
	if response, ok := w.(http.ResponseWriter); ok {
		response.WriteHeader(http.StatusBadRequest)
	}
	envelope(w, "http://schemas.xmlsoap.org/ws/2004/08/addressing/fault", "<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>"+code+
		`</s:Value></s:Subcode></s:Code><s:Reason><s:Text xml:lang="en-US">It was refused.</s:Text></s:Reason></s:Fault>`)
}

func envelope(w io.Writer, action, body string) {
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" `+
		`xmlns:b="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:c="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd" `+
		`xmlns:e="http://schemas.xmlsoap.org/ws/2004/09/enumeration"><s:Header><b:Action s:mustUnderstand="true">%sResponse</b:Action>`+
		`<b:MessageID>uuid:00000000-8086-8086-8086-000000000001</b:MessageID></s:Header><s:Body>%s</s:Body></s:Envelope>`, action, body)
}

func reference(resource, selector, value string) string {
	return `<b:EndpointReference><b:Address>http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous</b:Address><b:ReferenceParameters>` +
		`<c:ResourceURI>` + cim + resource + `</c:ResourceURI><c:SelectorSet><c:Selector Name="` + selector + `">` + value +
		`</c:Selector></c:SelectorSet></b:ReferenceParameters></b:EndpointReference>`
}

func output(resource, method string, value int) string {
	return fmt.Sprintf(`<r:%[1]s_OUTPUT xmlns:r="%[2]s"><r:ReturnValue>%[3]d</r:ReturnValue></r:%[1]s_OUTPUT>`, method, cim+resource, value)
}

// between returns the text of the first element of a name, whatever its prefix.
func between(body, name string) string {
	_, rest, _ := strings.Cut(body, ":"+name)
	_, rest, _ = strings.Cut(rest, ">")
	text, _, _ := strings.Cut(rest, "<")
	return strings.TrimSpace(text)
}
