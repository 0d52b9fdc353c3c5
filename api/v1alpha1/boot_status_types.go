package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// BareMetalBootStatus is the progress of the boot. The provider writes it. A lost status is observed again, or costs at most one boot attempt.
type BareMetalBootStatus struct {
	// stage is the last stage that was observed:
	//
	// - Started: the boot started. The server is powered off, instructed to boot
	//   from the network, and powered on.
	// - Media: the BMC, or the firmware, requested the boot medium.
	// - DHCP: the firmware requested an address or a boot file.
	// - Loader: the firmware fetched the boot loader.
	// - Waiting: the boot loader requested the boot script, and waits because too
	//   many servers of its network are booting.
	// - Script: the boot loader fetched the boot script.
	// - Kernel: the boot loader fetched the kernel.
	// - Agent: the agent runs and got its plan. status.agent has its progress.
	// - Data: the operating system, or the agent, fetched the bootstrap data.
	// - Committed: the agent was allowed to make the disk bootable.
	// - AgentDone: the agent completed its plan. After an image was written, the
	//   server boots from its disk.
	// - ReportedIn: the operating system reported that it is running.
	// - Node: the server's Node exists in the workload cluster.
	// - BootstrapSucceeded: the operating system reported that it applied its
	//   bootstrap data.
	// - BootstrapFailed: the operating system reported that it could not apply its
	//   bootstrap data.
	// - Restarted: firmware requested a network boot, although the machine runs
	//   from memory and has its bootstrap data. The server restarted, or another
	//   client on its network used its MAC address.
	// - NodeLost: after the stage Restarted the Node of the machine was not Ready
	//   and did not become Ready. So the server restarted.
	// +optional
	Stage BootStage `json:"stage,omitempty"`

	// progress is a short summary: what the boot waits for, that it has completed, or why it failed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Progress string `json:"progress,omitempty"`

	// stages are the observed stages with the time when each was first observed. A stage with the number of another boot belongs to an earlier boot.
	// +optional
	// +listType=map
	// +listMapKey=stage
	// +kubebuilder:validation:MaxItems=32
	Stages []ObservedStage `json:"stages,omitempty"`

	// agent is the progress of the agent.
	// +optional
	Agent *AgentProgress `json:"agent,omitempty"`

	// image is the state of the machine's image at the boot server.
	// +optional
	Image *ImageStatus `json:"image,omitempty"`

	// node is the Node of the workload cluster that runs on the server, even if it does not match the machine.
	// +optional
	Node *ObservedNode `json:"node,omitempty"`

	// problem is the last problem that prevented the boot server from serving the boot. It is outdated if a later stage was
	// observed, or if its number is lower than spec.number.
	// +optional
	Problem *BootProblem `json:"problem,omitempty"`
}

// BootProblem is a problem that prevents the boot server from serving a boot.
type BootProblem struct {
	BootFailure `json:",inline"`
	// number is the number of the boot that was not served.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// time is the time when the problem was recorded.
	// +required
	Time metav1.Time `json:"time,omitzero"`
}

// ObservedStage is a stage of a boot that was observed.
type ObservedStage struct {
	// stage is the name of the stage. `kubectl explain baremetalboot.status.stage` describes the stages.
	// +required
	Stage BootStage `json:"stage,omitempty"`
	// number is the number of the boot in which the stage was observed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// time is the time when the stage was first observed. For the stages Restarted and Waiting it is the time of the last observation.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// address is the IP address of the client, if it had one. For the stage DHCP it is the address that the server was given.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Address string `json:"address,omitempty"`
	// client is how the client identified itself: the firmware and its architecture, the user agent, or the kubelet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Client string `json:"client,omitempty"`
	// mediumTransfer is how the client received the boot medium. Only the stage Media has it.
	// +optional
	MediumTransfer MediumTransfer `json:"mediumTransfer,omitempty"`
	// queuePosition is the position in the queue of servers that wait for a boot slot. Only the stage Waiting has it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	QueuePosition int32 `json:"queuePosition,omitempty"`
	// agent is how the agent introduced itself. Only the stage Agent has it.
	// +optional
	// +structType=atomic
	Agent *ObservedAgent `json:"agent,omitempty"`
	// addresses are the addresses of the Node, which the provider keeps up to date. Only the stage Node has addresses.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`
}

// MediumTransfer is how a client received a boot medium.
// +kubebuilder:validation:Enum=Parts;Whole
type MediumTransfer string

const (
	// MediumParts means that the client reads the parts that it needs, so that each further request shows what the server does.
	MediumParts MediumTransfer = "Parts"
	// MediumWhole means that the client received the whole medium in one answer. What boots from the copy causes no further request.
	MediumWhole MediumTransfer = "Whole"
)

// ObservedAgent is how an agent introduced itself. The boot server cannot check it.
type ObservedAgent struct {
	// release is the release of the agent.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Release string `json:"release,omitempty"`
	// firmwareMode is how the server was booted: UEFI or BIOS.
	// +optional
	FirmwareMode wire.FirmwareMode `json:"firmwareMode,omitempty"`
	// secureBoot is Enabled or Disabled. It is absent for a BIOS, and if it is unknown.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
}
