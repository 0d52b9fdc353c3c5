package boot

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// purpose is what a token is good for. Who has a token for one purpose cannot make that for another: the report's stands in the files
// and logs of the booted system, where the seed's must not be.
type purpose string

// The purposes of tokens.
const (
	forSeed   purpose = "seed"
	forReport purpose = "report"
)

// token is good for one purpose in one boot attempt of one host for one machine. Nobody can make it without the key.
func (b *Booter) token(p purpose, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer) string {
	token, _ := makeToken(b.Key, p, host, consumer)
	return token
}

// opens is true for the token of the host's current boot attempt. It does the same whether or not there is a host, an attempt or a
// machine, and takes the same time for every wrong token.
func (b *Booter) opens(token string, p purpose, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer) bool {
	good := 0
	for _, key := range [][]byte{b.Key, b.PreviousKey} {
		if len(key) == 0 {
			continue // anybody can make what an empty key makes
		}
		want, exists := makeToken(key, p, host, consumer)
		good |= subtle.ConstantTimeCompare([]byte(token), []byte(want)) & exists
	}
	return good == 1
}

// makeToken returns a token, and 1 if there is what it is good for. Names and UIDs stand in it, for neither alone is the claim: names
// are used again, and whoever has a host is known by name. A clusterctl move changes UIDs, but waits while a host boots.
func makeToken(key []byte, p purpose, host *v1alpha1.BareMetalHost, consumer *controllers.Consumer) (token string, exists int) {
	var attempt v1alpha1.BootAttempt
	var consumerName, machineUID string
	if host.Spec.Boot != nil && host.Spec.ConsumerRef != nil && consumer != nil && consumer.BareMetalMachine != nil {
		exists = 1
		attempt, consumerName, machineUID = *host.Spec.Boot, host.Spec.ConsumerRef.Name, string(consumer.BareMetalMachine.UID)
	}
	return seal(key, string(p), host.Namespace, host.Name, string(host.UID), consumerName, machineUID,
		strconv.FormatInt(int64(attempt.Attempt), 10), strconv.FormatInt(attempt.StartedAt.Unix(), 10)), exists
}

// seal is the HMAC of fields. Each stands there with its length, so that no two lists of fields are the same text.
func seal(key []byte, fields ...string) string {
	mac := hmac.New(sha256.New, key)
	for _, field := range append([]string{"capbm boot token"}, fields...) {
		_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field)))) // never fails
		_, _ = mac.Write([]byte(field))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
