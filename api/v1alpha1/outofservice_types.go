package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Maintenance describes why a server is out of service.
type Maintenance struct {
	// reason is a text for other users: who works on the server, and why.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// drainedBy says who drained the Node of the machine that has the host, and how. It permits that the provider changes the firmware settings of the server and
	// restarts it, if a BareMetalProfile with the scope HostsInMaintenance selects the host. Without it, a host in maintenance gets no such run. It is gone with the
	// maintenance.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	DrainedBy string `json:"drainedBy,omitempty"`
}

// Quarantine describes what went wrong with a server.
type Quarantine struct {
	// reason is what went wrong, as one word in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason,omitempty"`

	// message describes what went wrong and what to check.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`

	// startTime is the time when the quarantine began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
}
