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

// size counts the addresses of a range. One of IPv6 may have more than can be counted: it has as many as can.
func size(r pxe.Range) uint64 {
	if !contains(r, r.First) {
		return 0
	}
	first, last := r.First.As16(), r.Last.As16()
	if [8]byte(first[:8]) != [8]byte(last[:8]) {
		return math.MaxUint64
	}
	return saturate(binary.BigEndian.Uint64(last[8:])-binary.BigEndian.Uint64(first[8:]), 1)
}

// total counts the addresses of all ranges, in the same way.
func total(ranges []pxe.Range) uint64 {
	var n uint64
	for _, r := range ranges {
		n = saturate(n, size(r))
	}
	return n
}

func saturate(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}

// at returns the address with a number below total.
func at(ranges []pxe.Range, n uint64) netip.Addr {
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

// place returns the number of the address that a server is offered first. It follows from the MAC address, so that two boot
// servers find the same one for the same server, and rarely the same one for two.
func place(mac net.HardwareAddr, of uint64) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write(mac)
	return hash.Sum64() % of
}

// after returns the number that comes n after another, with the first after the last.
func after(start, n, of uint64) uint64 {
	if rest := of - start; n >= rest {
		return n - rest
	}
	return start + n
}
