// Package fat16 renders FAT16 file systems with a few files, for partitions that hand data to an operating system. The same input gives the same bytes. The
// clauses in comments are those of "Microsoft Extensible Firmware Initiative FAT32 File System Specification", version 1.03 (fatgen103).
package fat16

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

const (
	// Size is the default size of a file system, in bytes. The specification calls a file system FAT16 if it has 4085 to 65524 clusters, and advises to stay
	// away from the limits. A cluster has at least one sector, so 4096 byte sectors need more than 16 MiB. With 32 MiB there are about 8180 clusters.
	Size = 32 << 20
	// MaxContent is the maximum of the sizes of all files together, in bytes.
	MaxContent = 8 << 20

	// largestCluster is the size of the clusters of a file system of Size bytes. It is the same for all sector sizes, so that the count of clusters is too.
	largestCluster = 4096
	// minClusters and maxClusters are the limits of FAT16, with a distance of 16 as the specification advises.
	minClusters = 4085 + 16
	maxClusters = 65524 - 16
	// rootEntries is the number of entries in the root directory: the specification advises 512 for FAT16.
	rootEntries  = 512
	entrySize    = 32
	fats         = 2
	mediaFixed   = 0xf8
	endOfChain   = 0xffff
	firstCluster = 2
)

// File is a file. The path has slashes, and names of printable ASCII characters.
type File struct {
	Path    string
	Content []byte
}

// Options describe a file system.
type Options struct {
	// Label is the volume label: at most 11 capital letters, digits, hyphens and underscores.
	Label string
	// Serial is the volume's serial number.
	Serial uint32
	// SectorSize is the size of the disk's logical sectors: 512 or 4096 bytes.
	SectorSize int
	// Size is the size of the file system, in bytes, a multiple of SectorSize. Defaults to Size.
	Size int
}

// Render returns the beginning of a file system, up to the last sector that is not zero. It returns an error for files that do not fit or have
// invalid names, and for invalid options.
func Render(o Options, files []File) ([]byte, error) {
	if o.SectorSize != 512 && o.SectorSize != 4096 {
		return nil, fmt.Errorf("a sector size of %d bytes: only 512 and 4096 can be written", o.SectorSize)
	}
	if err := checkLabel(o.Label); err != nil {
		return nil, err
	}
	root, err := tree(files)
	if err != nil {
		return nil, err
	}
	v, err := newVolume(o)
	if err != nil {
		return nil, err
	}
	if err := v.write(root); err != nil {
		return nil, err
	}
	return v.bytes(o), nil
}

// volume is a file system that is written. All sizes are in bytes.
type volume struct {
	size    int
	sector  int
	cluster int
	fatSize int
	fat     []uint16
	root    []byte
	data    bytes.Buffer
	label   string
}

// newVolume returns an empty volume with the largest clusters for which it has enough of them.
func newVolume(o Options) (*volume, error) {
	v := &volume{size: cmp.Or(o.Size, Size), sector: o.SectorSize, label: o.Label}
	for v.cluster = largestCluster; v.cluster >= v.sector; v.cluster /= 2 {
		// The table has an entry of two bytes for each cluster, and two reserved entries. Its size is rounded up to whole clusters, which is a few entries too
		// many: the specification allows that.
		entries := v.size/v.cluster + firstCluster
		v.fatSize = (2*entries + v.cluster - 1) / v.cluster * v.cluster
		if v.clusters() >= minClusters {
			break
		}
	}
	if v.cluster < v.sector || v.clusters() > maxClusters || v.size%v.sector != 0 {
		return nil, fmt.Errorf("a file system of %d bytes with sectors of %d bytes cannot be FAT16", v.size, v.sector)
	}
	// Entry 0 has the media type, entry 1 says "unmounted cleanly, no errors".
	v.fat = []uint16{0xff00 | mediaFixed, endOfChain}
	return v, nil
}

// dataStart is where cluster 2 begins. One reserved sector has the boot sector: the specification demands one for FAT16.
func (v *volume) dataStart() int { return v.sector + fats*v.fatSize + rootEntries*entrySize }

func (v *volume) clusters() int { return (v.size - v.dataStart()) / v.cluster }

// write writes all directories and files.
func (v *volume) write(root *node) error {
	label := entry{attributes: attributeVolume}
	copy(label.short[:], fmt.Sprintf("%-11s", v.label))
	v.root = label.bytes()
	entries, err := v.children(root, 0)
	if err != nil {
		return err
	}
	v.root = append(v.root, entries...)
	if len(v.root) > rootEntries*entrySize {
		return errors.New("too many files in the root directory")
	}
	return nil
}

// children writes the children of a directory and returns their entries. parent is the first cluster of the directory, or 0 for the root.
func (v *volume) children(dir *node, parent uint16) ([]byte, error) {
	var out []byte
	for i, child := range dir.children {
		e := entry{short: shortName(child.name, i+1), attributes: attributeArchive}
		var err error
		if child.children == nil {
			e.size = uint32(len(child.content)) //nolint:gosec // tree bounds the content by MaxContent
			e.cluster, err = v.allocate(child.content)
		} else {
			e.attributes = attributeDirectory
			e.cluster, err = v.directory(child, parent)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, longName(child.name, e.short)...)
		out = append(out, e.bytes()...)
	}
	return out, nil
}

// directory writes a directory below the root. Its own first cluster is allocated before its children are, because their ".." refers to it. That limits a
// directory to one cluster.
func (v *volume) directory(dir *node, parent uint16) (uint16, error) {
	cluster, err := v.allocate(make([]byte, v.cluster))
	if err != nil {
		return 0, err
	}
	dot, dotDot := entry{cluster: cluster, attributes: attributeDirectory}, entry{cluster: parent, attributes: attributeDirectory}
	copy(dot.short[:], ".          ")
	copy(dotDot.short[:], "..         ")
	entries, err := v.children(dir, cluster)
	if err != nil {
		return 0, err
	}
	entries = append(append(dot.bytes(), dotDot.bytes()...), entries...)
	if len(entries) > v.cluster {
		return 0, fmt.Errorf("too many files in the directory %q", dir.name)
	}
	copy(v.data.Bytes()[int(cluster-firstCluster)*v.cluster:], entries)
	return cluster, nil
}

// allocate appends content in a chain of clusters and returns the first of them. Empty content uses no cluster: its first cluster is 0.
func (v *volume) allocate(content []byte) (uint16, error) {
	if len(content) == 0 {
		return 0, nil
	}
	count := (len(content) + v.cluster - 1) / v.cluster
	if len(v.fat)-firstCluster+count > v.clusters() {
		return 0, fmt.Errorf("the files do not fit into %d bytes", v.size)
	}
	first := len(v.fat)
	for i := range count - 1 {
		v.fat = append(v.fat, uint16(first+i+1)) //nolint:gosec // clusters() is less than 65525
	}
	v.fat = append(v.fat, endOfChain)
	v.data.Write(content)
	v.data.Write(make([]byte, count*v.cluster-len(content)))
	return uint16(first), nil //nolint:gosec // as above
}

// bytes returns the file system without the zeros at its end, in whole sectors.
func (v *volume) bytes(o Options) []byte {
	out := make([]byte, v.dataStart(), v.dataStart()+v.data.Len())
	copy(out, v.bootSector(o))
	for i := range fats {
		table := out[v.sector+i*v.fatSize:]
		for n, next := range v.fat {
			binary.LittleEndian.PutUint16(table[2*n:], next)
		}
	}
	copy(out[v.sector+fats*v.fatSize:], v.root)
	out = append(out, v.data.Bytes()...)
	used := len(bytes.TrimRight(out, "\x00"))
	return out[:(used+v.sector-1)/v.sector*v.sector]
}

// bootSector returns the BIOS parameter block. The names in comments are those of the specification.
func (v *volume) bootSector(o Options) []byte {
	b := make([]byte, 512)
	copy(b, []byte{0xeb, 0x3c, 0x90}) // BS_jmpBoot
	copy(b[3:], "MSWIN4.1")           // BS_OEMName: the specification advises this value for compatibility
	le := binary.LittleEndian
	le.PutUint16(b[11:], uint16(v.sector)) //nolint:gosec // BPB_BytsPerSec: 512 or 4096
	b[13] = byte(v.cluster / v.sector)     //nolint:gosec // BPB_SecPerClus
	le.PutUint16(b[14:], 1)                // BPB_RsvdSecCnt
	b[16] = fats                           // BPB_NumFATs
	le.PutUint16(b[17:], rootEntries)      // BPB_RootEntCnt
	sectors := v.size / v.sector
	if sectors < 1<<16 {
		le.PutUint16(b[19:], uint16(sectors)) //nolint:gosec // BPB_TotSec16
	} else {
		le.PutUint32(b[32:], uint32(sectors)) //nolint:gosec // BPB_TotSec32: the count of clusters bounds it
	}
	b[21] = mediaFixed                               // BPB_Media
	le.PutUint16(b[22:], uint16(v.fatSize/v.sector)) //nolint:gosec // BPB_FATSz16: at most 257
	le.PutUint16(b[24:], 63)                         // BPB_SecPerTrk: geometry of large disks, which nothing reads any more
	le.PutUint16(b[26:], 255)                        // BPB_NumHeads
	b[36] = 0x80                                     // BS_DrvNum
	b[38] = 0x29                                     // BS_BootSig: the next three fields are valid
	le.PutUint32(b[39:], o.Serial)                   // BS_VolID
	copy(b[43:], fmt.Sprintf("%-11s", o.Label))      // BS_VolLab
	copy(b[54:], "FAT16   ")                         // BS_FilSysType
	b[510], b[511] = 0x55, 0xaa
	return b
}

// Epoch is the time of all files: the first day that FAT can express.
var Epoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)
