package boot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// TestOriginOfBootstrapData: which Secrets a Machine can name as its bootstrap data.
func TestOriginOfBootstrapData(t *testing.T) {
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "m-uid"}, Spec: clusterv1.MachineSpec{
		ClusterName: "c", Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{Kind: "KubeadmConfig", Name: "m"}},
	}}
	controls := func(kind, name string) []metav1.OwnerReference {
		group := map[string]string{"KubeadmConfig": "bootstrap", "KubeadmControlPlane": "controlplane"}[kind]
		return []metav1.OwnerReference{{APIVersion: group + ".cluster.x-k8s.io/v1beta2", Kind: kind, Name: name, UID: "x", Controller: new(true)}}
	}
	for what, c := range map[string]struct {
		secret corev1.Secret
		served bool
	}{
		"a user's":                   {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "data"}}, true},
		"the config's":               {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}, OwnerReferences: controls("KubeadmConfig", "m")}}, true},
		"the config's, named x-ca":   {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x-ca", OwnerReferences: controls("KubeadmConfig", "m")}}, true},
		"the Machine's":              {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{{Kind: "Machine", Name: "m", UID: "m-uid", Controller: new(true)}}}}, true},
		"an owner that controls not": {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{{Kind: "Cluster", Name: "c", UID: "c"}}}}, true},
		"a kubeconfig":               {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-kubeconfig"}}, false},
		"a kubeconfig of the same cluster": {corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}, OwnerReferences: controls("KubeadmControlPlane", "c"),
		}}, false},
		"a CA":                       {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-ca"}}, false},
		"a key of etcd":              {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-etcd"}}, false},
		"a key of service accounts":  {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "c-sa"}}, false},
		"another cluster's":          {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{clusterv1.ClusterNameLabel: "d"}}}, false},
		"another config's":           {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: controls("KubeadmConfig", "n")}}, false},
		"another kind's of one name": {corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: controls("Certificate", "m")}}, false},
	} {
		if err := checkOrigin(machine, &c.secret); (err == nil) != c.served {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestConfigRefOfATenant: a configRef that names the control plane which controls a kubeconfig does not open it.
func TestConfigRefOfATenant(t *testing.T) {
	machine := &clusterv1.Machine{Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{
		ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "cp"},
	}}}
	for _, name := range []string{"c-kubeconfig", "data"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "c"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "controlplane.cluster.x-k8s.io/v1beta2", Kind: "KubeadmControlPlane", Name: "cp", UID: "x", Controller: new(true)}},
		}}
		if checkOrigin(machine, secret) == nil {
			t.Errorf("Secret %s is served", name)
		}
	}
}
