package boot

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"net"
	"net/netip"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// contains is true for an address of the range.
func contains(r pxe.Range, a netip.Addr) bool {
	return a.IsValid() && a.BitLen() == r.First.BitLen() && a.Compare(r.First) >= 0 && a.Compare(r.Last) <= 0
}

func inRanges(ranges []pxe.Range, a netip.Addr) bool {
	for _, r := range ranges {
		if contains(r, a) {
			return true
		}
	}
	return false
}

// size counts the addresses of a range, up to math.MaxUint64.
func size(r pxe.Range) uint64 {
	if !contains(r, r.First) {
		return 0
	}
	first, last := r.First.As16(), r.Last.As16()
	if [8]byte(first[:8]) != [8]byte(last[:8]) {
		return math.MaxUint64
	}
	return saturatingAdd(binary.BigEndian.Uint64(last[8:])-binary.BigEndian.Uint64(first[8:]), 1)
}

// total counts the addresses of all ranges, up to math.MaxUint64.
func total(ranges []pxe.Range) uint64 {
	var n uint64
	for _, r := range ranges {
		n = saturatingAdd(n, size(r))
	}
	return n
}

// saturatingAdd adds up to math.MaxUint64.
func saturatingAdd(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// addressAt returns the address with an index below total.
func addressAt(ranges []pxe.Range, n uint64) netip.Addr {
	for _, r := range ranges {
		if s := size(r); n >= s {
			n -= s
			continue
		}
		b := r.First.As16()
		low := binary.BigEndian.Uint64(b[8:])
		if low > math.MaxUint64-n { // carry
			binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+1)
		}
		binary.BigEndian.PutUint64(b[8:], low+n)
		return netip.AddrFrom16(b).Unmap()
	}
	return netip.Addr{}
}

// firstIndex returns the index of the address that a server is offered first. It follows from the MAC address: two boot servers find the
// same index for the same server, and rarely the same one for two servers.
func firstIndex(mac net.HardwareAddr, of uint64) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write(mac)
	return hash.Sum64() % of
}

// indexAfter returns the index n places after start, and continues with the first after the last.
func indexAfter(start, n, of uint64) uint64 {
	if rest := of - start; n >= rest {
		return n - rest
	}
	return start + n
}
