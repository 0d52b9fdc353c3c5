package emulated

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/osimage/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/fat16"
)

// The EFI system partition of an image has the label espLabel, and a file with the version of Kubernetes.
const (
	espLabel    = "ESP"
	versionFile = "kubernetes-version"
)

// Version returns the version of Kubernetes that the image of a system has. It is false for another image.
func Version(system *pxetest.System) (version string, ok bool) {
	esp := system.Volumes[espLabel]
	if esp == nil {
		return "", false
	}
	content, ok := esp.Files[versionFile]
	return string(content), ok
}

// WriteImage writes the image of a disk, and returns its checksum. It has an EFI system partition and dataBytes of other data, in which nothing runs: an
// emulated server reads only the version of Kubernetes. The same arguments give the same bytes.
func WriteImage(name, version string, dataBytes int64) (checksum string, err error) {
	folder, err := os.MkdirTemp(filepath.Dir(name), "image-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	esp, data := filepath.Join(folder, "esp"), filepath.Join(folder, "data")
	if err := errors.Join(writeESP(esp, version), writeData(data, dataBytes)); err != nil {
		return "", err
	}
	const mib = 1 << 20
	image := disk.Image{
		Size: 3*mib + fat16.Size + (dataBytes+mib-1)/mib*mib, SectorSize: 512,
		Partitions: []disk.Partition{{Number: 1, Type: disk.ESP, File: esp}, {Number: 2, Type: disk.Linux, File: data}},
	}
	// For a BIOS it has boot code: INT 18h, which tells a BIOS that nothing was booted.
	if err := errors.Join(image.Write(name), writeAt(name, []byte{0xcd, 0x18}, 0)); err != nil {
		return "", err
	}
	content, err := os.ReadFile(name) //nolint:gosec // a file of this package
	return "sha256:" + sum(content), err
}

// writeESP writes a file system with the boot loaders at the fallback path (UEFI specification, 3.5.1.1).
func writeESP(name, version string) error {
	loader := []byte("an emulated boot loader")
	head, err := fat16.Render(fat16.Options{Label: espLabel, Serial: 1, SectorSize: 512}, []fat16.File{
		{Path: "EFI/BOOT/BOOTX64.EFI", Content: loader}, {Path: "EFI/BOOT/BOOTAA64.EFI", Content: loader}, {Path: versionFile, Content: []byte(version)},
	})
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(name, head, 0o600), os.Truncate(name, fat16.Size))
}

// writeData writes bytes that no compression and no hole makes fewer.
func writeData(name string, length int64) error {
	content := make([]byte, length)
	_, _ = rand.NewChaCha8([32]byte{}).Read(content) // never fails
	return os.WriteFile(name, content, 0o600)
}

func writeAt(name string, content []byte, offset int64) (err error) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0) //nolint:gosec // a file of this package
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.WriteAt(content, offset)
	return err
}
