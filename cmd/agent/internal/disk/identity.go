package disk

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
)

// identify reads vendor, model, serial number, firmware and WWN.
func (s sysDisk) identify(d *Disk) {
	d.Vendor, d.Model = s.attr("device/vendor"), s.attr("device/model")
	d.FirmwareVersion, d.SerialNumber = s.attr("device/rev"), s.attr("device/serial")
	if d.FirmwareVersion == "" {
		d.FirmwareVersion = s.attr("device/firmware_rev") // NVMe
	}
	switch {
	case d.Transport == wire.TransportVirtio:
		d.SerialNumber, d.Vendor = s.attr("serial"), "" // the vendor is the number 0x1af4
	case d.Transport == wire.TransportMMC:
		d.Model = s.attr("device/name")
	case strings.Contains(s.dir, "/target"):
		s.identifySCSI(d)
	}
	d.wwid = cmp.Or(s.attr("wwid"), s.attr("device/wwid"))
	for _, name := range []string{"wwid", "device/wwid", "eui", "nguid"} {
		if w := wwn(s.attr(name)); w != "" && d.WWN == "" {
			d.WWN = w
		}
	}
}

// identifySCSI reads the pages of vital product data (SPC-5, 7.7). A disk behind ATA has its own model and firmware in page 0x89 (SAT-4, 12.4.2): the
// model of the standard inquiry is cut after 16 characters.
func (s sysDisk) identifySCSI(d *Disk) {
	if page := s.page("device/vpd_pg80"); page != nil {
		d.SerialNumber = text(page)
	}
	if page := s.page("device/vpd_pg83"); page != nil {
		d.WWN = wwnOfPage(page)
	}
	const identify = 56 // the offset of IDENTIFY DEVICE in the page, without the header
	page := s.page("device/vpd_pg89")
	if len(page) < identify+512 {
		return
	}
	words := page[identify:][:512]
	if serial := ataText(words[20:40]); serial != "" {
		d.SerialNumber = serial
	}
	if model := ataText(words[54:94]); model != "" {
		d.Model = model
	}
	if firmware := ataText(words[46:54]); firmware != "" {
		d.FirmwareVersion = firmware
	}
}

// page returns a page of vital product data without its header, or nil.
func (s sysDisk) page(name string) []byte {
	b, err := os.ReadFile(filepath.Join(s.dir, name)) //nolint:gosec // below the folder of sysfs
	if err != nil || len(b) < 4 {
		return nil
	}
	return b[4:min(len(b), 4+int(binary.BigEndian.Uint16(b[2:])))]
}

// ataText returns a text of IDENTIFY DEVICE, in which the bytes of each word are swapped (ACS-4, 3.4.9).
func ataText(words []byte) string {
	b := bytes.Clone(words)
	for i := 0; i+1 < len(b); i += 2 {
		b[i], b[i+1] = b[i+1], b[i]
	}
	return text(b)
}

// wwn returns a world-wide name as it is compared, or nothing for other identifiers (t10., nvme., uuid.), which are vendor, model and serial number again.
func wwn(id string) string {
	id = diskname.NormalWWN(strings.ReplaceAll(id, " ", ""))
	digits := strings.ReplaceAll(id, "-", "")
	if b, err := hex.DecodeString(digits); err != nil || len(b) != 8 && len(b) != 16 || !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		return ""
	}
	return digits
}

// wwnOfPage returns the NAA identifier, or otherwise the EUI-64 identifier, of the logical unit in page 0x83 (SPC-5, 7.7.6).
func wwnOfPage(page []byte) string {
	const naa, eui = 3, 2
	found := map[byte]string{}
	for len(page) >= 4 && len(page) >= 4+int(page[3]) {
		codeSet, association, kind := page[0]&0xf, page[1]>>4&3, page[1]&0xf
		if id := page[4 : 4+int(page[3])]; codeSet == 1 && association == 0 && found[kind] == "" {
			found[kind] = hex.EncodeToString(id)
		}
		page = page[4+int(page[3]):]
	}
	if found[naa] != "" {
		return found[naa]
	}
	return found[eui]
}
