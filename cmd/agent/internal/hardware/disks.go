package hardware

import (
	"context"
	"errors"
	"fmt"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
)

// answer is what a disk says of itself.
type answer struct {
	index    int
	health   wire.Health
	methods  []string
	class    wire.ErasePolicy
	problems []string
}

func (a *answer) problemf(format string, args ...any) {
	a.problems = append(a.problems, fmt.Sprintf(format, args...))
}

// disks adds health and erase methods to disks. Each disk is asked in a goroutine of its own: one that does not answer before the end of ctx is a problem, and
// its goroutine ends when the kernel gives up its command.
func (c *collector) disks(ctx context.Context, disks []wire.InspectedDisk) {
	if c.Port == nil {
		return
	}
	answers := make(chan answer, len(disks))
	waiting := map[int]bool{}
	for i, d := range disks {
		waiting[i] = true
		go func() { answers <- ask(c.Port(d.Name), i, d) }()
	}
	for len(waiting) > 0 {
		select {
		case a := <-answers:
			delete(waiting, a.index)
			d := &disks[a.index]
			d.Health, d.EraseMethods, d.EraseClass = a.health, a.methods, a.class
			for _, p := range a.problems {
				c.problemf("disk %s: %s", d.Name, p)
			}
		case <-ctx.Done():
			for i := range disks {
				if waiting[i] {
					c.problemf("disk %s: it did not answer commands: %v", disks[i].Name, context.Cause(ctx))
				}
			}
			return
		}
	}
}

// ask asks a disk. The methods of one that does not answer are unknown.
func ask(port drive.Port, index int, d wire.InspectedDisk) answer {
	a := answer{index: index}
	asked := drive.Drive{Kind: drive.KindOf(d.Transport), Port: port}
	facts, err := asked.Probe(d.Rotational)
	switch {
	case err != nil:
		a.problemf("%v", err)
	default:
		a.class = erase.Class(facts)
		for _, command := range facts.Commands {
			a.methods = append(a.methods, string(command))
		}
	}
	if facts.SecurityFrozen {
		a.problemf("ATA security is frozen by the firmware: a security erase needs a power cycle of the disk, or another setting of the firmware")
	}
	if facts.Locked {
		a.problemf("ATA security is locked by a password: the disk cannot be read, written or erased without it")
	}
	if a.health, err = asked.Health(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		a.problemf("%v", err)
	}
	return a
}
