// Command osimage joins partitions to a disk image: a partition table for sectors of 512 or 4096 bytes, and GRUB for a BIOS. It does what sgdisk and
// grub-bios-setup do for a block device: sgdisk writes tables for sectors of 512 bytes only into a file, and grub-bios-setup needs a device.
// hack/osimage.sh runs it.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/osimage/disk"
)

func main() {
	var image disk.Image
	out := flag.String("out", "", "the image to write")
	mib := flag.Int64("size", 0, "its size in MiB")
	flag.Int64Var(&image.SectorSize, "sector", 512, "the sector size, 512 or 4096")
	flag.BoolVar(&image.MBR, "mbr", false, "write an MBR and no GPT")
	flag.StringVar(&image.Boot, "boot", "", "GRUB's boot.img, for a BIOS")
	flag.StringVar(&image.Core, "core", "", "GRUB's core image, for a BIOS")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: osimage [options] NUMBER:TYPE:FILE...; TYPE is bios, esp or linux; partitions in their order on the disk")
		flag.PrintDefaults()
	}
	flag.Parse()
	image.Size = *mib << 20
	if err := run(image, *out, flag.Args()); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "osimage:", err)
		os.Exit(1)
	}
}

func run(image disk.Image, out string, partitions []string) error {
	for _, text := range partitions {
		p, err := disk.ParsePartition(text)
		if err != nil {
			return err
		}
		image.Partitions = append(image.Partitions, p)
	}
	return image.Write(out)
}
