package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BootAttempt is one try to boot a server over the network for the machine that has it.
type BootAttempt struct {
	// attempt counts the attempts for this machine, from 1.
	// +required
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// startedAt is when the attempt began. Its deadline counts from here.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`

	// poweredOffAt is when the server was seen powered off in this attempt. Before it the server is powered off, after it
	// powered on: so a provider that restarts in between does not power-cycle a server that is booting.
	// +optional
	PoweredOffAt *metav1.Time `json:"poweredOffAt,omitempty"`

	// scriptAddress is the IP address that the boot script, and with it the attempt's token, was given to. No other gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ScriptAddress string `json:"scriptAddress,omitempty"`

	// seedAddress is the IP address that the bootstrap data was given to. No other gets it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SeedAddress string `json:"seedAddress,omitempty"`

	// seededAt is when the bootstrap data was first given out. From then on the attempt is not repeated: running, say,
	// `kubeadm init` a second time would fork a cluster.
	// +optional
	SeededAt *metav1.Time `json:"seededAt,omitempty"`

	// reportedAt is when the server's operating system reported in. It ends the attempt.
	// +optional
	ReportedAt *metav1.Time `json:"reportedAt,omitempty"`

	// reportAddress is the IP address that the operating system reported in from: that of the running server. It is another than
	// seedAddress where the operating system gave itself a static address in between.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ReportAddress string `json:"reportAddress,omitempty"`

	// failure says why the attempt was given up. It ends the attempt.
	// +optional
	Failure *BootFailure `json:"failure,omitempty"`
}

// BootFailure says why a boot attempt was given up.
type BootFailure struct {
	// reason is a word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message tells a person what was seen and what to look at.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}
