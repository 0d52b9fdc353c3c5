package v1alpha1

// Conditions of a BareMetalConfig.
const (
	// ReadyCondition is True when the bootstrap data of the Machine is available. Cluster API mirrors it as the Machine's BootstrapConfigReady.
	ReadyCondition = "Ready"
	// DataSecretAvailableCondition is True when the Secret with the bootstrap data exists.
	DataSecretAvailableCondition = "DataSecretAvailable"
)

// Reasons of DataSecretAvailable and Ready.
const (
	// ReasonDataSecretCreated means that the Secret with the bootstrap data exists.
	ReasonDataSecretCreated = "DataSecretCreated"
	// ReasonWaitingForInfrastructure means that the infrastructure of the Cluster is not provisioned yet.
	ReasonWaitingForInfrastructure = "WaitingForClusterInfrastructure"
	// ReasonWaitingForControlPlane means that the control plane of the Cluster is not initialized yet. spec.waitFor can change what the config waits for.
	ReasonWaitingForControlPlane = "WaitingForControlPlaneInitialized"
	// ReasonClusterNotFound means that the Cluster of the Machine does not exist.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonOwnerUnsupported means that the owner of the config is a MachinePool. Only Machines are supported.
	ReasonOwnerUnsupported = "OwnerUnsupported"
	// ReasonUserDataMissing means that the ConfigMap or Secret in spec.userDataFrom, or its key, does not exist.
	ReasonUserDataMissing = "UserDataMissing"
	// ReasonValueMissing means that the ConfigMap or Secret of a value, or its key, does not exist.
	ReasonValueMissing = "ValueMissing"
	// ReasonSecretNotLabeled means that a Secret that the spec refers to does not have the label ValueSecretLabel. The provider does not use it.
	ReasonSecretNotLabeled = "SecretNotLabeled"
	// ReasonTemplateInvalid means that the user data or a command is not a valid template.
	ReasonTemplateInvalid = "TemplateInvalid"
	// ReasonUserDataInvalid means that the rendered user data is empty or not of the format in spec.format, or that commands cannot be added to it.
	ReasonUserDataInvalid = "UserDataInvalid"
	// ReasonDataTooLarge means that the rendered bootstrap data does not fit into a Secret.
	ReasonDataTooLarge = "DataTooLarge"
	// ReasonSecretConflict means that a Secret with the name of the config exists and does not belong to the config. The provider never overwrites it.
	ReasonSecretConflict = "SecretConflict"
	// ReasonRequestFailed means that the API server refused a request of the provider. The message has the error. The request is repeated.
	ReasonRequestFailed = "RequestFailed"
)

// Reasons of events that are not reasons of a condition.
const (
	// EventDataSecretRestored means that the owner or the labels of the Secret with the bootstrap data were restored.
	EventDataSecretRestored = "DataSecretRestored"
	// EventSentinelMissing means that spec.sentinel is UserData and that the bootstrap data does not name the sentinel file.
	EventSentinelMissing = "SentinelMissing"
)

// ValueSecretLabel on a Secret permits BareMetalConfigs to use it for values and user data. The provider uses no other Secret: a user who may write
// BareMetalConfigs may not be allowed to read Secrets, and the rendered bootstrap data would disclose them. The value of the label has no meaning.
const ValueSecretLabel = "baremetalconfig.bootstrap.cluster.x-k8s.io/value-secret"

// ConfigAnnotation on a Secret with bootstrap data has the name of the BareMetalConfig that it was rendered from. Only the provider writes it, so a Secret without it
// is not the provider's, whatever a Machine names. Backups keep it.
const ConfigAnnotation = "baremetalconfig.bootstrap.cluster.x-k8s.io/rendered-from"

// UninitializedTaint is the taint, in the notation of the kubelet's flag --register-with-taints, with which a worker joins its cluster until Cluster
// API has copied the labels of the Machine to the Node (Cluster API's contract, "Taint Nodes at creation").
const UninitializedTaint = "node.cluster.x-k8s.io/uninitialized:NoSchedule"
