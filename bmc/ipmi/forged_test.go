package ipmi_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// These tests simulate a BMC that does not know the password, and an attacker between the driver and the BMC. The attacker's packets differ in
// content from the BMC's: the test could not detect that the driver accepts a packet with the same content.

// payloadAt is the offset of the payload of a packet (IPMI 2.0, table 13-8).
const payloadAt = 16

// kindOf is the payload type of a packet (IPMI 2.0, table 13-16).
func kindOf(packet []byte) byte { return packet[5] & 0x3f }

// TestImpostor: a BMC that does not know the password is rejected in RAKP message 2 and in message 4. The proof of message 2 is compared
// before the driver sends its own proof, which would allow guessing the password.
func TestImpostor(t *testing.T) {
	for name, c := range map[string]struct {
		message byte // whose proof is wrong
		kind    bmc.Kind
		said    string
	}{
		"RAKP message 2": {rakp1 + 1, bmc.Unauthorized, "the password is wrong"},
		"RAKP message 4": {rakp3 + 1, bmc.Failed, "the BMC's second proof is wrong"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var (
				mu     sync.Mutex
				proofs [][]byte // of RAKP message 3, behind its tag, status and session ID
			)
			_, endpoint := newMachine(t, options(), hearing(func(packet []byte) {
				mu.Lock()
				defer mu.Unlock()
				if kindOf(packet) == rakp3 {
					proofs = append(proofs, slices.Clone(packet[payloadAt+8:]))
				}
			}), saying(func(packet []byte) [][]byte {
				if kindOf(packet) == c.message && packet[payloadAt+1] == 0 { // a message without an error ends with the proof
					packet[len(packet)-1] ^= 1
				}
				return [][]byte{packet}
			}))
			_, err := calm.Open(t.Context(), endpoint)
			g.Expect(err).To(MatchError(ContainSubstring(c.said)))
			g.Expect(bmc.KindOf(err)).To(Equal(c.kind))
			if c.message == rakp1+1 {
				g.Eventually(func() [][]byte {
					mu.Lock()
					defer mu.Unlock()
					return proofs
				}, time.Minute).Should(ConsistOf(HaveEach(byte(0))), "an impostor gets no proof of the password")
			}
		})
	}
}

// stranger sends its own packets before the BMC's responses.
type stranger struct {
	mu    sync.Mutex
	forge func(answer []byte) []byte // nil while it is inactive
}

func (s *stranger) out(packet []byte) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forge == nil || kindOf(packet) != 0 {
		return [][]byte{packet}
	}
	return [][]byte{s.forge(slices.Clone(packet)), packet}
}

// sends makes the stranger send the result of forge for each response.
func (s *stranger) sends(forge func(answer []byte) []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forge = forge
}

// TestForgedAnswer: a response with a wrong authentication code is dropped. AES-CBC does not prevent forgery: changing a bit of the
// initialization vector changes the same bit of the first block.
func TestForgedAnswer(t *testing.T) {
	g := NewWithT(t)
	between := &stranger{}
	machine, endpoint := newMachine(t, options(), saying(between.out))
	client := openBy(t, calm, endpoint)
	const powerAt = 7 // of a Get Chassis Status response: behind the header of the message, the command and the completion code
	between.sends(func(answer []byte) []byte {
		answer[payloadAt+powerAt] ^= 1 // whether the power is on
		return answer
	})
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff), "the stranger says that it is on")
	machine.SetPower(true)
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn), "the stranger says that it is off")
}

// TestReplayedAnswer: a replayed response is dropped, even if its request has the sequence number of the
// current request: there are 64 sequence numbers (IPMI 2.0, 13.8).
func TestReplayedAnswer(t *testing.T) {
	g := NewWithT(t)
	between := &stranger{}
	machine, endpoint := newMachine(t, options(), saying(between.out))
	client := openBy(t, calm, endpoint)
	var old []byte
	between.sends(func(answer []byte) []byte {
		old = answer
		return nil
	})
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	between.sends(nil)
	machine.SetPower(true)
	const sequenceNumbers = 64
	for range sequenceNumbers - 1 {
		g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn))
	}
	between.sends(func([]byte) []byte { return old })
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn), "the stranger repeats that it is off")
}

// TestLateAnswer: a response to an earlier request is dropped. It is not a replay: BMCs answer each repeat of a request.
func TestLateAnswer(t *testing.T) {
	g := NewWithT(t)
	var (
		mu      sync.Mutex
		answers [][]byte // of the first request
		armed   bool
	)
	machine, endpoint := newMachine(t, options(), saying(func(packet []byte) [][]byte {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case armed && len(answers) > 1:
			late := answers[1]
			answers = nil
			return [][]byte{late, packet}
		case armed || answers == nil || kindOf(packet) != 0:
			return [][]byte{packet}
		}
		answers = append(answers, slices.Clone(packet))
		if len(answers) < 2 {
			return nil // the driver repeats the request
		}
		return [][]byte{answers[0]}
	}))
	client := open(t, endpoint)
	mu.Lock()
	answers = [][]byte{}
	mu.Unlock()
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	mu.Lock()
	armed = true
	mu.Unlock()
	machine.SetPower(true)
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn), "the late answer says that it is off")
}
