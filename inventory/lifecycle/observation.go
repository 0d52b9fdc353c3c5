package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// describeObservation says when a stage was observed, and from which address and client, as far as known.
func (o Observed) describeObservation(attempt v1alpha1.BareMetalBootSpec, stage v1alpha1.BootStage) string {
	observed := o.Furthest
	if stage == v1alpha1.StageMedia {
		observed = o.Media // firmware may request an address after that
	}
	switch {
	case stage == "":
		return ""
	case observed.Stage != stage && attempt.AgentDoneTime != nil:
		observed = v1alpha1.ObservedStage{Time: *attempt.AgentDoneTime, Address: attempt.DataAddress}
	case observed.Stage != stage && attempt.DataServedTime != nil:
		observed = v1alpha1.ObservedStage{Time: *attempt.DataServedTime, Address: attempt.DataAddress}
	case observed.Stage != stage:
		return ""
	}
	text := " at " + timestamp(observed.Time.Time)
	if by := StageClient(observed); by != "" {
		text += " (" + by + ")"
	}
	return text
}

// StageClient describes who was observed in a stage, as far as it is known: 192.0.2.77, agent v1.0.0, UEFI, Secure Boot Enabled.
func StageClient(s v1alpha1.ObservedStage) string {
	parts := []string{s.Address, s.Client}
	if s.MediumTransfer == v1alpha1.MediumWhole {
		parts = append(parts, "the whole medium")
	}
	if s.QueuePosition > 0 {
		parts = append(parts, fmt.Sprintf("number %d in the boot queue of its network", s.QueuePosition))
	}
	if a := s.Agent; a != nil {
		parts = append(parts, "agent "+cmp.Or(a.Release, "of an unknown release"), string(a.FirmwareMode))
		if a.SecureBoot != "" {
			parts = append(parts, "Secure Boot "+string(a.SecureBoot))
		}
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

func timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
