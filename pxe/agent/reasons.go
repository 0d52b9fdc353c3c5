package agent

// Failure is why a plan failed.
type Failure struct {
	// Reason is one of wire.AgentFailureReasons.
	Reason string `json:"reason"`
	// Message says what was observed, and what to check.
	Message string `json:"message"`
}
