package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// secureBootFile is the variable SecureBoot of the vendor EFI_GLOBAL_VARIABLE (UEFI 2.10, 3.3). efivarfs puts four bytes of attributes before the value.
const secureBootFile = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

// firmware returns how the server booted. Both are empty if they are unknown, and Secure Boot for a BIOS.
func (c *collector) firmware() (mode wire.FirmwareMode, secureBoot wire.SecureBoot) {
	if _, err := os.Stat(c.path("sys/firmware/efi")); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.problemf("firmware: %v", err)
			return "", ""
		}
		return wire.FirmwareBIOS, ""
	}
	content, err := c.read(maxAttribute, secureBootFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.problemf("Secure Boot: the firmware has no variable SecureBoot, or efivarfs is not mounted")
	case err != nil:
		c.problemf("Secure Boot: %v", err)
	default:
		secureBoot = ParseSecureBoot(content)
		if secureBoot == "" {
			c.problemf("Secure Boot: the variable SecureBoot has %d bytes, or an unknown value", len(content))
		}
	}
	return wire.FirmwareUEFI, secureBoot
}

// ParseSecureBoot parses the file of the variable SecureBoot. It is empty for a value that the specification does not have.
func ParseSecureBoot(content []byte) wire.SecureBoot {
	switch {
	case len(content) != 5 || content[4] > 1:
		return ""
	case content[4] == 1:
		return wire.SecureBootEnabled
	default:
		return wire.SecureBootDisabled
	}
}

// SecureBoot returns whether Secure Boot is enabled. It is empty for a server that was booted by a BIOS, and if it is unknown.
func (s *Source) SecureBoot() wire.SecureBoot {
	content, err := os.ReadFile(filepath.Join(s.Root, secureBootFile))
	if err != nil {
		return "" // the inventory of an inspection says why
	}
	return ParseSecureBoot(content)
}

// tpm returns the version of the first TPM. It is empty without one, and if it is unknown.
func (c *collector) tpm() string {
	const folder = "sys/class/tpm"
	names := c.entries(numbered("tpm"), folder)
	if len(names) == 0 {
		return ""
	}
	switch major := c.attribute(folder, names[0], "tpm_version_major"); major {
	case "1":
		return "1.2"
	case "2":
		return "2.0"
	default:
		c.problemf("TPM: %s has the unknown version %q", names[0], major)
		return ""
	}
}
