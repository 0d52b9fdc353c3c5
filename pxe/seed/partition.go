package seed

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
)

// The volume labels by which operating systems find their data. cloud-init and Ignition accept them in capital letters, which is what FAT has.
const (
	noCloudLabel     = "CIDATA"
	configDriveLabel = "CONFIG-2"
)

// DataPartition is the content of a partition with bootstrap data.
type DataPartition struct {
	// Head is the beginning of the partition, in whole sectors. The rest of it is zeros.
	Head []byte
	// Size is the size of the partition, in bytes.
	Size int64
}

// Partition renders the partition with the bootstrap data for a data source, for a disk with logical sectors of 512 or 4096 bytes and a boot server with the
// URL base. The files have the content of File: reports go to the same URLs, and the network is the same. It returns an error for a data source that the
// format of the bootstrap data does not have, for data of more than fat16.MaxContent bytes, and for a network that the data source cannot express.
func Partition(d Data, source wire.DataSource, base string, sectorSize int) (DataPartition, error) {
	label, files, err := partitionFiles(d, source, base)
	if err != nil {
		return DataPartition{}, err
	}
	// The serial number needs no secrecy. It changes with the instance, so that a system that knows volumes by it does not confuse two instances.
	digest := sha256.Sum256([]byte(d.InstanceID))
	head, err := fat16.Render(fat16.Options{Label: label, Serial: binary.BigEndian.Uint32(digest[:]), SectorSize: sectorSize}, files)
	if err != nil {
		return DataPartition{}, fmt.Errorf("data partition for %s: %w", source, err)
	}
	return DataPartition{Head: head, Size: fat16.Size}, nil
}

func partitionFiles(d Data, source wire.DataSource, base string) (label string, files []fat16.File, err error) {
	format := d.Format.orDefault()
	switch {
	case source == wire.DataSourceNoCloud && format == CloudConfig:
		files, err = render(d, base, []rendering{
			{MetaData, metaData}, {UserData, userData}, {VendorData, vendorData}, {NetworkConfig, networkConfig},
		})
		return noCloudLabel, files, err
	case source == wire.DataSourceConfigDrive && format == CloudConfig:
		files, err = render(d, base, []rendering{
			{configDriveMetaData, configDriveMeta}, {configDriveUserData, userData}, {configDriveVendorData, configDriveVendor}, {configDriveNetworkData, networkDataOf},
		})
		return configDriveLabel, files, err
	case source == wire.DataSourceConfigDrive && format == Ignition:
		// The config has the files of the network, and the units that report. Ignition reads nothing but user_data; Afterburn reads the metadata.
		files, err = render(d, base, []rendering{{configDriveMetaData, configDriveMeta}, {configDriveUserData, ignition}})
		return configDriveLabel, files, err
	case source == wire.DataSourceNoCloud && format == Ignition:
		return "", nil, fmt.Errorf("bootstrap data of the format %s cannot be written for the data source %s: Ignition reads a disk only as "+
			"the data source %s. Set dataSource to %s and use an image that is built for OpenStack", Ignition, source, wire.DataSourceConfigDrive, wire.DataSourceConfigDrive)
	case source != wire.DataSourceNoCloud && source != wire.DataSourceConfigDrive:
		return "", nil, fmt.Errorf("the data source %.20q has no partition: %s and %s have", string(source), wire.DataSourceNoCloud, wire.DataSourceConfigDrive)
	default:
		return "", nil, d.Format.unknown()
	}
}

// rendering is a file of a partition and the function that renders it.
type rendering struct {
	path   string
	render func(d Data, base string) ([]byte, error)
}

// render renders files. One that is empty is left out, except the user data: without it cloud-init does not accept the partition.
func render(d Data, base string, renderings []rendering) ([]fat16.File, error) {
	var files []fat16.File
	for _, r := range renderings {
		content, err := r.render(d, base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		if len(content) > 0 || r.path == UserData || r.path == configDriveUserData {
			files = append(files, fat16.File{Path: r.path, Content: content})
		}
	}
	return files, nil
}

func networkDataOf(d Data, _ string) ([]byte, error) {
	if d.Network == nil {
		return nil, nil
	}
	return networkDataFile(d.Network)
}
