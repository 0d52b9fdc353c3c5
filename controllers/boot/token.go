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

// purpose is the use of a token. The holder of a token for one purpose cannot derive the token for another: the report's token is in the files and logs of
// the booted system, where the seed's token must not be.
type purpose string

const (
	forSeed   purpose = "seed"
	forReport purpose = "report"
	forAgent  purpose = "agent"
	forMedia  purpose = "media"
)

// MediaToken returns the token in the path of the boot medium of a boot (pxe.MediaPath), made with the key of the boot servers. The number of the boot is in
// it, so the path of each attempt is unique. It is valid from the record of the attempt until its end.
func MediaToken(key []byte, boot *v1alpha1.BareMetalBoot) string {
	token, _ := makeToken(key, forMedia, boot, boot.Spec.Number)
	return token
}

// tokenKeys make the tokens of boots and check them. All boot servers have the same keys.
type tokenKeys struct {
	current  []byte // signs the tokens
	previous []byte // signed the tokens before current. Its tokens are still valid. Empty for none.
}

// token returns the token for one purpose in one boot. It cannot be made without the key.
func (k tokenKeys) token(p purpose, boot *v1alpha1.BareMetalBoot) string {
	token, _ := makeToken(k.current, p, boot, boot.Spec.Number)
	return token
}

// opens is true for the token of a boot. It does the same work whether or not there is a boot, and takes the same time for every wrong token.
func (k tokenKeys) opens(token string, p purpose, boot *v1alpha1.BareMetalBoot) bool {
	good := 0
	for _, key := range [][]byte{k.current, k.previous} {
		if len(key) == 0 {
			continue // anyone can make the tokens of an empty key
		}
		for _, number := range []int32{boot.Spec.Number, earlierNumber(p, &boot.Spec)} {
			want, exists := makeToken(key, p, boot, number)
			good |= subtle.ConstantTimeCompare([]byte(token), []byte(want)) & exists
		}
	}
	return good == 1
}

// earlierNumber returns the number of the boot whose token may report. That is the boot itself, unless the agent found that the disk of an earlier boot of the claim is
// complete: the system on that disk has the token of the earlier boot.
func earlierNumber(p purpose, boot *v1alpha1.BareMetalBootSpec) int32 {
	if p == forReport && boot.CommittedNumber != 0 && boot.CommitAllowedTime == nil && boot.AgentDoneTime != nil {
		return boot.CommittedNumber
	}
	return boot.Number
}

// makeToken returns the token of the boot of a claim with a number, and exists 1 if the boot can still be served. The claim and the number identify a boot: names are
// used again, and `clusterctl move` changes UIDs. A cluster that was restored from a backup uses a number again, so the time of the boot is in the token too. It is not
// in that of the report, since the token of an earlier boot may be valid: see earlierNumber.
func makeToken(key []byte, p purpose, boot *v1alpha1.BareMetalBoot, number int32) (token string, exists int) {
	spec := &boot.Spec
	if spec.Number > 0 && lifecycle.IsOpen(spec) {
		exists = 1
	}
	fields := []string{string(p), boot.Namespace, boot.Name, spec.ClaimID, strconv.FormatInt(int64(number), 10)}
	if p != forReport {
		fields = append(fields, strconv.FormatInt(spec.StartTime.Unix(), 10))
	}
	return hmacOf(key, fields...), exists
}

// hmacOf returns the HMAC of fields. Each is prefixed with its length, so that no two lists of fields give the same text.
func hmacOf(key []byte, fields ...string) string {
	mac := hmac.New(sha256.New, key)
	for _, field := range append([]string{"capbm boot token"}, fields...) {
		_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, uint64(len(field)))) // never fails
		_, _ = mac.Write([]byte(field))
	}
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
