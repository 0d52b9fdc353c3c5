package boot

// The permissions of the boot server. They are the ClusterRoles capbm-boot and capbm-boot-data and the Role capbm-boot. The account of a single Pod, which
// runs the controllers too, has the ClusterRole and the Role capbm-boot. The boot server parses packets of an untrusted network: it writes only boots,
// reports of agents, Leases of addresses, events, and once the key of the tokens. Four ValidatingAdmissionPolicies restrict it further. capbm-boot denies changing
// which boot an object is, and failing a boot after the report. capbm-boot-inspections denies changing whose report an object is. capbm-boot-leases denies writing the Leases of leader elections, which are in the same namespace.
// capbm-boot-secrets denies creating a Secret into which Kubernetes would write a token of another account.
//
// Boots: what was served to which address, and their stages.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots/status,verbs=patch
//
// What agents found on servers.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalinspections,verbs=get;create;patch
//
// The hosts, and what they boot. The boot server reads them from the cache, and from the API server before bootstrap data is first served.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts;baremetalmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// In the provider's own namespace: the key of the tokens, which the first boot server creates, and the leased addresses. Another role, which is bound in the
// namespaces of clusters only, permits reading the bootstrap data of machines: config/rbac/boot_data_role.yaml.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=capbm-boot-key,verbs=get,namespace=capbm-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update,namespace=capbm-system
//
// Authentication and authorization of clients of the metrics endpoint.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
