package boot

// What the boot server may do. These are the ClusterRoles capbm-boot and capbm-boot-data and the Role capbm-boot; the account of a single Pod, which runs
// the controllers too, has the ClusterRole and the Role capbm-boot. The boot server parses packets of an untrusted network: it writes nothing but boots,
// Leases of addresses, events, and the key of the tokens once. The ValidatingAdmissionPolicy capbm-boot keeps it from changing which boot that is, and from
// failing one after the report; capbm-boot-leases keeps it from writing the Leases of leader elections, which are in the same namespace, and
// capbm-boot-secrets from creating a Secret into which Kubernetes would write a token of another account.
//
// Boots: what was served to whom, and how far they are.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalboots/status,verbs=patch
//
// Whose servers they are, and what those boot. They are read from the cache, and from the API server before bootstrap data is first served.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts;baremetalmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// In the provider's own namespace: the key of the tokens, which the first boot server makes, and the addresses that were leased. The bootstrap data of
// machines is read by another role, which is bound in the namespaces of clusters only: config/rbac/boot_data_role.yaml.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=capbm-boot-key,verbs=get,namespace=capbm-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update,namespace=capbm-system
//
// Who reads the metrics.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
