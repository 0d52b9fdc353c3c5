package lifecycle

import "github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"

// driveHostBoot returns the next step of an attempt of a host boot that is not over: an inspection, a requested erasure or a restart with new settings. goal says what it is for.
func driveHostBoot(v View, s Settings, step Step, attempt v1alpha1.BareMetalBootSpec, goal string) Step {
	drive := bootFromNetwork(v, s, attempt, s.ActiveInterval)
	drive.Phase, drive.Reason, drive.Message = step.Phase, step.Reason, goal+". "+drive.Message
	if deadline := v.Deadline(s); drive.Action == "" && (drive.RequeueAt.IsZero() || drive.RequeueAt.After(deadline)) {
		drive.RequeueAt = deadline
	}
	return untilMethodDeadline(v, s, attempt, drive)
}
