package access

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// mapper names the resource of a kind by the rule that the kinds follow that this program reads: the plural in lower case. So no kind has to be discovered, which would
// cost requests before the first answer. A kind that the API server does not have is an error of the request.
type mapper struct{ *meta.DefaultRESTMapper }

// NewMapper returns the mapper of the client. It knows the kinds that are exceptions to the rule.
func NewMapper() meta.RESTMapper {
	known := meta.NewDefaultRESTMapper(nil)
	known.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	known.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	settings := v1alpha1.GroupVersion.WithResource("baremetalsettings") // the word is a plural
	known.AddSpecific(v1alpha1.GroupVersion.WithKind("BareMetalSettings"), settings, settings, meta.RESTScopeNamespace)
	return mapper{known}
}

// RESTMapping returns the resource of a kind. A kind is in a namespace unless this program knows that it is not.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := m.DefaultRESTMapper.RESTMapping(gk, versions...)
	if err == nil || len(versions) == 0 {
		return mapping, err
	}
	gvk := gk.WithVersion(versions[0])
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return &meta.RESTMapping{Resource: resource, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}, nil
}
