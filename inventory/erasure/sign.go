package erasure

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// The types of PEM blocks: PKCS #8 (RFC 5958) and SubjectPublicKeyInfo (RFC 5280), as OpenSSL writes them.
const (
	privateKeyBlock = "PRIVATE KEY"
	publicKeyBlock  = "PUBLIC KEY"
)

// The errors of Verify.
var (
	// ErrUnknownKey means that the record was signed with another key.
	ErrUnknownKey = errors.New("it was signed with another key")
	// ErrSignature means that the signature does not belong to the record: a field was changed after it was signed, or the record was never signed.
	ErrSignature = errors.New("the signature does not match the record: a field was changed after it was signed, or the signature was forged")
)

// Sign sets the signature of a record. It signs what Canonical returns.
func Sign(spec *v1alpha1.BareMetalErasureSpec, key ed25519.PrivateKey) error {
	if len(key) != ed25519.PrivateKeySize {
		return errors.New("the key is not a private key of Ed25519")
	}
	public, _ := key.Public().(ed25519.PublicKey) // always
	message, err := Canonical(spec)
	if err != nil {
		return err
	}
	spec.Signature = v1alpha1.ErasureSignature{
		KeyID: KeyID(public), Algorithm: v1alpha1.AlgorithmEd25519, Value: base64.StdEncoding.EncodeToString(ed25519.Sign(key, message)),
	}
	return nil
}

// Verify checks the signature of a record with a public key. It returns ErrUnknownKey, ErrSignature, or an error about what cannot be read. It does not check
// whether the report proves an erasure: Check does.
func Verify(spec *v1alpha1.BareMetalErasureSpec, key ed25519.PublicKey) error {
	signature := spec.Signature
	switch {
	case len(key) != ed25519.PublicKeySize:
		return errors.New("the key is not a public key of Ed25519")
	case signature.Algorithm != v1alpha1.AlgorithmEd25519:
		return fmt.Errorf("the algorithm of the signature is %q, and only %s is known", signature.Algorithm, v1alpha1.AlgorithmEd25519)
	case signature.KeyID != KeyID(key):
		return fmt.Errorf("%w: %q, and not %q", ErrUnknownKey, signature.KeyID, KeyID(key))
	}
	// Strict, so that a signature has only one text.
	value, err := base64.StdEncoding.Strict().DecodeString(signature.Value)
	if err != nil || len(value) != ed25519.SignatureSize || base64.StdEncoding.EncodeToString(value) != signature.Value {
		return fmt.Errorf("%w: its value is not %d bytes in base64", ErrSignature, ed25519.SignatureSize)
	}
	message, err := Canonical(spec)
	if err != nil {
		return err
	}
	if !ed25519.Verify(key, message, value) {
		return ErrSignature
	}
	return nil
}

// KeyID returns the ID of a public key: the SHA-256 of its SubjectPublicKeyInfo in DER, in hexadecimal.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(publicDER(key))
	return hex.EncodeToString(sum[:])
}

func publicDER(key ed25519.PublicKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err) // only for keys of other types
	}
	return der
}

// EncodePublicKey returns a public key in PEM.
func EncodePublicKey(key ed25519.PublicKey) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: publicKeyBlock, Bytes: publicDER(key)})
}

// EncodePrivateKey returns a private key in PEM.
func EncodePrivateKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyBlock, Bytes: der}), nil
}

// ParsePrivateKey reads a private key of Ed25519 in PEM. Its errors contain nothing of the key.
func ParsePrivateKey(content []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != privateKeyBlock {
		return nil, fmt.Errorf("it has no PEM block %q", privateKeyBlock)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("it is not a private key in the form PKCS #8")
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a key of the type %T, and not of Ed25519", parsed)
	}
	return key, nil
}

// ParsePublicKeys reads public keys of Ed25519 from PEM blocks, and returns them by their IDs. It needs at least one, and refuses every other block: a private key
// does not belong into the file of an auditor.
func ParsePublicKeys(content []byte) (map[string]ed25519.PublicKey, error) {
	keys := map[string]ed25519.PublicKey{}
	for {
		var block *pem.Block
		block, content = pem.Decode(content)
		if block == nil {
			break
		}
		if block.Type != publicKeyBlock {
			return nil, fmt.Errorf("it has a PEM block %q, and only %q is accepted", block.Type, publicKeyBlock)
		}
		parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("it has a public key that cannot be read: %w", err)
		}
		key, ok := parsed.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("it has a public key of the type %T, and not of Ed25519", parsed)
		}
		keys[KeyID(key)] = key
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("it has no PEM block %q", publicKeyBlock)
	}
	return keys, nil
}
