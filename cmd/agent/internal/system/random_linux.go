package system

import (
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// jitterSamples is how often the clock is read for the seed: a few milliseconds. Between two readings is a part of a hash, whose duration varies by some
// nanoseconds. A twentieth of a bit in each is enough for a key of 256 bits many times over.
const jitterSamples = 1 << 16

// SeedRandom initialises the random numbers of a kernel that has no entropy yet: a server whose processor has no RDRAND and that has no UEFI random number
// generator. Without it getrandom(2) blocks, seen for minutes in an idle machine, and with it DHCP, which needs a transaction ID. The seed is the token of the
// boot, which is random and different in each boot, with the variations of the clock. The clock is what an attacker who has read the token does not know, and
// the key of the agent depends on it. That key is made later, when the interrupts of the devices have added to the kernel's random numbers. It returns true if
// a seed was needed.
func SeedRandom(token string) (bool, error) {
	_, err := unix.Getrandom(make([]byte, 1), unix.GRND_NONBLOCK)
	if !errors.Is(err, unix.EAGAIN) {
		return false, nil
	}
	hash := sha512.New()
	hash.Write([]byte(token))
	for range jitterSamples {
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
	}
	// struct rand_pool_info of linux/random.h, with 512 bits of which 256 are counted, which initialises the generator.
	var pool struct {
		count, size int32
		seed        [sha512.Size]byte
	}
	pool.count, pool.size = 256, sha512.Size
	copy(pool.seed[:], hash.Sum(nil))
	device, err := os.OpenFile("/dev/random", os.O_WRONLY, 0)
	if err != nil {
		return true, fmt.Errorf("seed the random numbers: %w", err)
	}
	defer func() { _ = device.Close() }()
	if _, _, code := unix.Syscall(unix.SYS_IOCTL, device.Fd(), unix.RNDADDENTROPY, uintptr(unsafe.Pointer(&pool))); code != 0 { //nolint:gosec // the ioctl takes a pointer
		return true, fmt.Errorf("seed the random numbers: %w", code)
	}
	return true, nil
}
