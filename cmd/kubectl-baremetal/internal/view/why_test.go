package view

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

var now = time.Date(2026, 11, 29, 10, 30, 0, 0, time.UTC)

func server() why.Ref { return why.Ref{Kind: why.KindHost, Namespace: "prod", Name: "server-1"} }

// TestExplanation: an explanation is complete, and its order is that of the questions of a reader.
func TestExplanation(t *testing.T) {
	for name, test := range map[string]struct {
		e    Explanation
		want string
	}{
		"as wanted": {Explanation{Explanation: &why.Explanation{
			Subject: server(), At: server(), State: why.Done, Wanted: "A machine can claim BareMetalHost server-1", Notes: []string{"Warning: a fan is slow"},
		}}, `BareMetalHost prod/server-1 is as wanted: A machine can claim BareMetalHost server-1
  Note: Warning: a fan is slow
`},
		"a wait": {Explanation{Explanation: &why.Explanation{
			Subject: server(), At: server(), State: why.Waits, Wanted: "BareMetalHost server-1 runs BareMetalMachine m", WaitsFor: "the fetch of the boot loader", Reason: "WaitingForLoader",
			Since: now.Add(-30 * time.Second), Usual: time.Minute, Cause: "TFTP is blocked", Command: "kubectl describe baremetalboot server-1 -n prod",
			Seen: &why.Seen{What: "stage DHCP of boot 4, attempt 1", By: "DHCP", Time: now.Add(-30 * time.Second)},
		}}, `BareMetalHost prod/server-1 waits
  Wanted:          BareMetalHost server-1 runs BareMetalMachine m
  Waits for:       the fetch of the boot loader
  Reason:          WaitingForLoader
  Since:           30s ago (2026-11-29 10:29:30 UTC), usually at most 60s
  Last seen:       stage DHCP of boot 4, attempt 1, 30s ago, by DHCP
  Likeliest cause: TFTP is blocked
  Next command:    kubectl describe baremetalboot server-1 -n prod
`},
		"overdue": {Explanation{Explanation: &why.Explanation{
			Subject: server(), At: server(), State: why.Waits, Reason: "Registering", Since: now.Add(-time.Hour), Usual: 5 * time.Minute,
		}}, `BareMetalHost prod/server-1 waits much longer than usual
  Reason:          Registering
  Since:           60m ago (2026-11-29 09:30:00 UTC), usually at most 5m
`},
		"a fault of another object": {Explanation{Machines: 3, Unready: 2, Explanation: &why.Explanation{
			Subject: why.Ref{Kind: why.KindCluster, Namespace: "prod", Name: "c"}, At: server(), State: why.Fault, Reason: "CredentialsRefused", Message: "401\x1b[2J", Do: "Correct the Secret",
		}}, `Cluster prod/c needs action
  Reason:          CredentialsRefused (of BareMetalHost server-1)
  Message:         401?[2J
  Machines:        2 of 3 are not as wanted; this is about the one that needs attention most
  To do:           Correct the Secret
`},
		"no host": {Explanation{Explanation: &why.Explanation{
			Subject: server(), At: server(), State: why.Fault, Unread: []why.Unread{{Kind: why.KindCluster, Name: "c", Cause: why.NotPermitted}},
			NoHost: &why.NoHost{
				Total: 40, Excluded: []claim.Exclusion{{Reason: "claimed", Hosts: 38}, {Reason: "in maintenance", Hosts: 2}},
				Nearest: &claim.Miss{Host: "server-9", Reasons: []string{"in maintenance", "has 32 GiB of memory"}},
			},
		}}, `BareMetalHost prod/server-1 needs action
  Hosts of the namespace: 40
      38  claimed
       2  in maintenance
    nearest: server-9: in maintenance; has 32 GiB of memory
  Not read: Cluster c: not permitted
`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var out bytes.Buffer
			test.e.Write(&out, Style{}, now)
			g.Expect(out.String()).To(Equal(test.want))
			_, err := json.Marshal(test.e.Document(now))
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
}

// TestDocument: other programs get the same facts as a reader.
func TestDocument(t *testing.T) {
	g := NewWithT(t)
	d := Explanation{Explanation: &why.Explanation{Subject: server(), At: server(), State: why.Waits, Since: now.Add(-time.Hour), Usual: time.Minute}}.Document(now)
	g.Expect(d.NeedsAction).To(BeTrue())
	g.Expect(d.At).To(Equal(&Object{Kind: why.KindHost, Namespace: "prod", Name: "server-1"}))
	g.Expect(d.UsualSeconds).To(Equal(int64(60)))
	g.Expect(*d.Since).To(Equal(now.Add(-time.Hour)))
	g.Expect(Explanation{Explanation: &why.Explanation{Subject: server(), State: why.Done}}.Document(now).At).To(BeNil())
}
