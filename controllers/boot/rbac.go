package boot

// What a process that runs nothing but the boot server may do (`--components=boot`). It is the ClusterRole and the Role capbm-boot; the
// process that runs everything has them too.
//
// Hosts: who they are, and what was given to whom (spec.boot). RBAC knows no fields: who has this role can write all of a host but
// its status beyond what was seen of a boot.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalhosts/status,verbs=patch
//
// Whose they are, and what those boot. They are read from the cache, which lists and watches: nobody gets one.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=list;watch
//
// The bootstrap data of a machine, at the moment when its server asks for it. Bootstrap providers name the Secret as they like, and
// RBAC selects neither by label nor by type: so a Secret whose name is known can be read, and none can be listed. To narrow it to
// the namespaces of some clusters, take this rule out of the ClusterRole and bind it there by a RoleBinding each.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// In the provider's own namespace: the key of the tokens, which the first boot server makes, and the addresses that were given.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=capbm-system
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;update,namespace=capbm-system
//
// Who reads the metrics.
//
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
