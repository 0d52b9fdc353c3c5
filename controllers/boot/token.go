package boot

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"strconv"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// purpose is what a token is good for. Who has a token for one purpose cannot make that for another: the report's stands in the files
// and logs of the booted system, where the seed's must not be.
type purpose string

// The purposes of tokens.
const (
	forSeed   purpose = "seed"
	forReport purpose = "report"
)

// token is good for one purpose in one boot. Nobody can make it without the key.
func (b *Booter) token(p purpose, boot *v1alpha1.BareMetalBoot) string {
	token, _ := makeToken(b.Key, p, boot)
	return token
}

// opens is true for the token of a boot. It does the same whether or not there is a boot, and takes the same time for every wrong token.
func (b *Booter) opens(token string, p purpose, boot *v1alpha1.BareMetalBoot) bool {
	good := 0
	for _, key := range [][]byte{b.Key, b.PreviousKey} {
		if len(key) == 0 {
			continue // anybody can make what an empty key makes
		}
		want, exists := makeToken(key, p, boot)
		good |= subtle.ConstantTimeCompare([]byte(token), []byte(want)) & exists
	}
	return good == 1
}

// makeToken returns a token, and 1 if there is what it is good for. The claim and the number identify the boot: names are used again, and a
// `clusterctl move` changes UIDs.
func makeToken(key []byte, p purpose, boot *v1alpha1.BareMetalBoot) (token string, exists int) {
	spec := &boot.Spec
	if spec.Number > 0 && lifecycle.IsOpen(spec) {
		exists = 1
	}
	return seal(key, string(p), boot.Namespace, boot.Name, spec.ClaimID, strconv.FormatInt(int64(spec.Number), 10)), exists
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
