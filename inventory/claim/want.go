package claim

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// WantOf returns what a machine with this spec requires of a host. The caller sets FailureDomain and Reuse, which come from the Machine and its owner. It
// fails for a selector that the API server would have refused.
func WantOf(spec *v1alpha1.BareMetalMachineSpec) (Want, error) {
	want := Want{Selector: labels.Everything(), Hardware: spec.Hardware, Tolerations: spec.Tolerations, CleaningPolicy: spec.CleaningPolicy, Profile: spec.Profile}
	var err error
	if spec.HostSelector != nil {
		if want.Selector, err = SelectorOf(spec.HostSelector); err != nil {
			return Want{}, err
		}
	}
	for i := range spec.Preferences {
		p := &spec.Preferences[i]
		selector, err := SelectorOf(&p.HostSelector)
		if err != nil {
			return Want{}, err
		}
		want.Preferences = append(want.Preferences, Preference{Weight: p.Weight, Selector: selector})
	}
	return want, nil
}

// SelectorOf returns the selector of labels that a selector of hosts means. It fails for one that the API server would have refused.
func SelectorOf(selector *v1alpha1.HostSelector) (labels.Selector, error) {
	converted := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range selector.MatchLabels {
		converted.MatchLabels[key] = string(value)
	}
	for _, e := range selector.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: string(e.Key), Operator: e.Operator}
		for _, value := range e.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		converted.MatchExpressions = append(converted.MatchExpressions, requirement)
	}
	return metav1.LabelSelectorAsSelector(converted)
}
