package hardware

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
)

// commandTimeout is how long the kernel waits for the answer to a command.
const commandTimeout = 10 * time.Second

// DeviceCommands sends commands to the disks of this server, through their device nodes in /dev, which it opens for reading.
type DeviceCommands struct{}

// NVMeAdmin implements Disks.
func (DeviceCommands) NVMeAdmin(name string, opcode byte, namespace, cdw10 uint32, data []byte) error {
	return drive.KernelPort(name).Admin(&drive.AdminCommand{Opcode: opcode, Namespace: namespace, CDW10: cdw10, Data: data, Timeout: commandTimeout})
}

// SCSI implements Disks.
func (DeviceCommands) SCSI(name string, cdb, data []byte) (int, error) {
	command := &drive.SCSICommand{CDB: cdb, Data: data, Timeout: commandTimeout}
	if err := drive.KernelPort(name).SCSI(command); err != nil {
		return 0, err
	}
	return command.Received, nil
}
