package pxetest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16/fat16test"
)

// Disk is a disk with sectors of 512 bytes and a GPT.
type Disk struct {
	io.ReaderAt

	Size int64
}

// diskSector is the size of a sector of a Disk.
const diskSector = 512

// ErrNotBootable is the error of a boot from a disk that firmware does not boot.
var ErrNotBootable = errors.New("the disk is not bootable")

// Bootable judges as firmware does.
func (d Disk) Bootable() bool { return Bootable(d, d.Size, diskSector) }

// Boot boots the operating system on the disk, which has an address and repeats its requests for persist. Its bootstrap data is that of the first data source
// that cloud-init finds on a disk: NoCloud, or the configuration drive. A system without a data source has no bootstrap data.
func (d Disk) Boot(address netip.Addr, persist time.Duration) (*System, error) {
	if !d.Bootable() {
		return nil, ErrNotBootable
	}
	volumes, err := d.volumes()
	if err != nil {
		return nil, err
	}
	s := &System{Address: address, client: clientFrom(address, persist), Volumes: volumes}
	if v := volumes["CIDATA"]; v != nil {
		return s, s.readNoCloud(v.Files)
	}
	if v := volumes["CONFIG-2"]; v != nil {
		return s, s.readConfigDrive(v.Files)
	}
	return s, nil
}

// volumes returns the FAT16 file systems in the partitions of the GPT, by their labels.
func (d Disk) volumes() (map[string]*fat16test.Volume, error) {
	lba := int64(1)
	if !ValidGPT(d, d.Size, diskSector, lba) {
		lba = d.Size/diskSector - 1 // firmware restores the primary from it
	}
	header := sectorAt(d, d.Size, diskSector, lba)
	if header == nil || !ValidGPT(d, d.Size, diskSector, lba) {
		return nil, errors.New("the disk has no valid GPT")
	}
	le := binary.LittleEndian
	entry := int64(le.Uint32(header[84:]))
	table := make([]byte, int64(le.Uint32(header[80:]))*entry)
	if _, err := d.ReadAt(table, int64(le.Uint64(header[72:]))*diskSector); err != nil { //nolint:gosec // ValidGPT bounds it
		return nil, err
	}
	volumes := map[string]*fat16test.Volume{}
	for ; int64(len(table)) >= entry && entry >= 48; table = table[entry:] {
		first, last := int64(le.Uint64(table[32:])), int64(le.Uint64(table[40:])) //nolint:gosec // checked below
		if first <= 0 || last < first || last >= d.Size/diskSector {
			continue // an entry that is not used
		}
		boot := sectorAt(d, d.Size, diskSector, first)
		if boot == nil || !bytes.Equal(boot[54:59], []byte("FAT16")) {
			continue
		}
		content := make([]byte, (last-first+1)*diskSector)
		if _, err := d.ReadAt(content, first*diskSector); err != nil {
			return nil, err
		}
		v, err := fat16test.Read(content)
		if err != nil {
			return nil, fmt.Errorf("the partition at sector %d: %w", first, err)
		}
		volumes[v.Label] = v
	}
	return volumes, nil
}

// readNoCloud does what cloud-init's NoCloud source does with a partition.
func (s *System) readNoCloud(files map[string][]byte) error {
	if files["meta-data"] == nil || files["user-data"] == nil {
		return errors.New("the partition has no meta-data or no user-data: cloud-init does not accept it")
	}
	s.UserData, s.VendorData, s.NetworkConfig = files["user-data"], files["vendor-data"], files["network-config"]
	return s.setMetaData(files["meta-data"])
}

// readConfigDrive does what cloud-init's source of the configuration drive does with a partition, or Ignition.
func (s *System) readConfigDrive(files map[string][]byte) error {
	const folder = "openstack/latest/"
	if files[folder+"meta_data.json"] == nil || files[folder+"user_data"] == nil {
		return errors.New("the configuration drive has no meta_data.json or no user_data")
	}
	if err := s.setMetaData(files[folder+"meta_data.json"]); err != nil {
		return err
	}
	s.NetworkConfig = files[folder+"network_data.json"]
	vendor := files[folder+"vendor_data.json"]
	if vendor == nil {
		s.Ignition = files[folder+"user_data"]
		return nil
	}
	var data struct {
		CloudInit string `json:"cloud-init"`
	}
	if err := json.Unmarshal(vendor, &data); err != nil {
		return fmt.Errorf("vendor_data.json: %w", err)
	}
	s.UserData, s.VendorData = files[folder+"user_data"], []byte(data.CloudInit)
	return nil
}
