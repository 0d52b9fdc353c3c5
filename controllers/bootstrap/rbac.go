package bootstrap

// The permissions of the bootstrap provider. They are the ClusterRole and the Role capbm-bootstrap-manager. It runs with an account of its own, because
// it may create Secrets in all namespaces, which the account of the infrastructure provider may not.
//
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=baremetalconfigs,verbs=list;watch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=baremetalconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// The rendered bootstrap data, and what it is rendered from. Secrets and ConfigMaps are read by name. They are neither listed nor watched. A patch
// restores the owner and the label of bootstrap data, and sets clusterctl's move label on what it is rendered from.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;patch
//
// In the provider's own namespace: the leader election.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;create;update,namespace=capbm-bootstrap-system
// +kubebuilder:rbac:groups="",resources=events,verbs=create,namespace=capbm-bootstrap-system
//
// Authentication and authorization of clients of the metrics endpoint.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
