package controllers

import (
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// errorPolicy is what an error of the BMC layer means to people, and how long to wait before the next try: first at least, then
// ever longer, most at most.
type errorPolicy struct {
	reason      string
	remedy      string
	first, most time.Duration
}

// errorPolicies is the one place where the BMC layer's errors become conditions and retries. Where the pool leaves a BMC alone for
// longer, as after a refused login, that holds.
var errorPolicies = map[bmc.Kind]errorPolicy{
	bmc.Unauthorized:   {v1alpha1.ReasonCredentialsRefused, "Correct username and password in the Secret of spec.bmc.credentialsSecretName", time.Minute, 15 * time.Minute},
	bmc.Unreachable:    {v1alpha1.ReasonBMCUnreachable, "Check spec.bmc.address, the BMC's network and its power", 5 * time.Second, 2 * time.Minute},
	bmc.BadCertificate: {v1alpha1.ReasonCertificateInvalid, "Name the Secret with the certificate's CA in spec.bmc.caSecretName", 10 * time.Second, 5 * time.Minute},
	bmc.NotFound:       {v1alpha1.ReasonSystemNotFound, "Name the system in the path of spec.bmc.address", 10 * time.Second, 5 * time.Minute},
	bmc.Unsupported:    {v1alpha1.ReasonBMCUnsupported, "This BMC cannot do it", time.Minute, 15 * time.Minute},
	bmc.Busy:           {v1alpha1.ReasonBMCError, "It is tried again", 2 * time.Second, time.Minute},
	bmc.Failed:         {v1alpha1.ReasonBMCError, "It is tried again", 10 * time.Second, 5 * time.Minute},
}

// Result ends a reconcile with an error of the API server. An object that is gone needs nothing more; a conflict means that
// someone else wrote to the object, and what he wrote is on its way here.
func Result(err error) (ctrl.Result, error) {
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: 100 * time.Millisecond}, nil
	default:
		return ctrl.Result{}, err
	}
}

// BMCProblem tells what an error of the BMC layer means after so many failures in a row.
func BMCProblem(err error, failures int, now time.Time) lifecycle.BMCProblem {
	o := errorPolicies[bmc.KindOf(err)]
	wait := o.most
	if failures < 16 {
		wait = min(o.first<<(failures-1), o.most)
	}
	// Spread, so that BMCs that failed together, as behind a switch that restarts, are not asked together.
	wait += time.Duration(rand.Int64N(int64(wait) / 5)) //nolint:gosec // it guards nothing
	retry := now.Add(max(wait, bmc.RetryAfter(err)))
	message := Clip(err.Error(), MaxMessage/2)
	if !bmc.WrongCertificate(err) { // no CA makes that right, and the error says what does
		message += ". " + o.remedy // which is to be read, however much the BMC says
	}
	if bmc.KindOf(err) == bmc.Unauthorized {
		message += fmt.Sprintf(": they are tried at once when they change. The next try is after %s, so that the account is not locked; "+
			"annotate the host with %s to have it now", retry.UTC().Truncate(time.Minute).Add(time.Minute).Format("15:04 MST"), v1alpha1.RetryBMCAnnotation)
	}
	return lifecycle.BMCProblem{Reason: o.reason, Message: message, RetryAt: retry}
}
