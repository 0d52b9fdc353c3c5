package controllers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// errorPolicy maps an error of the BMC layer to a condition reason, a remedy and retry delays. The delay doubles from firstDelay up to maxDelay.
type errorPolicy struct {
	reason               string
	remedy               string
	firstDelay, maxDelay time.Duration
}

// errorPolicies is the only place where errors of the BMC layer become conditions and retries. A longer back-off of the pool, as after a refused
// login, takes precedence.
var errorPolicies = map[bmc.Kind]errorPolicy{
	bmc.Unauthorized:   {v1alpha1.ReasonCredentialsRefused, "Correct username and password in the Secret of spec.bmc.credentialsSecretName", time.Minute, 15 * time.Minute},
	bmc.Unreachable:    {v1alpha1.ReasonBMCUnreachable, "Check spec.bmc.address, the BMC's network and its power", 5 * time.Second, 2 * time.Minute},
	bmc.BadCertificate: {v1alpha1.ReasonCertificateInvalid, "Name the Secret with the certificate's CA in spec.bmc.caSecretName", 10 * time.Second, 5 * time.Minute},
	bmc.NotFound:       {v1alpha1.ReasonSystemNotFound, "Name the system in the path of spec.bmc.address", 10 * time.Second, 5 * time.Minute},
	bmc.Unsupported:    {v1alpha1.ReasonBMCUnsupported, "The BMC does not support the operation", time.Minute, 15 * time.Minute},
	bmc.Busy:           {v1alpha1.ReasonBMCError, "The operation is retried", 2 * time.Second, time.Minute},
	bmc.Failed:         {v1alpha1.ReasonBMCError, "The operation is retried", 10 * time.Second, 5 * time.Minute},
}

// Result maps an error of the API server to the result of a reconcile. NotFound ends it: the object is gone. A conflict requeues: the cache is about
// to show what another writer wrote. WriteCache.Outdated keeps the next reconcile from deciding for the version that conflicted.
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

// BMCProblem returns the condition and the retry time for an error of the BMC layer, after the given number of failures in a row.
func BMCProblem(err error, failures int, now time.Time) lifecycle.BMCProblem {
	policy := errorPolicies[bmc.KindOf(err)]
	wait := policy.maxDelay
	if failures < 16 {
		wait = min(policy.firstDelay<<(failures-1), policy.maxDelay)
	}
	// The jitter keeps BMCs that failed together, as behind a switch that restarts, from being retried together.
	wait += time.Duration(rand.Int64N(int64(wait) / 5)) //nolint:gosec // the jitter needs no cryptographic randomness
	retry := now.Add(max(wait, bmc.RetryAfter(err)))
	message := Clip(err.Error(), MaxMessage/2)
	if !bmc.WrongCertificate(err) { // a CA is no remedy then, and the error names the right one
		message += ". " + policy.remedy // message was clipped before, so the remedy is never cut off
	}
	clock := retry.UTC().Truncate(time.Minute).Add(time.Minute).Format("15:04 MST")
	switch {
	case errors.Is(err, bmc.ErrLoginDeferred):
		message += fmt.Sprintf(". The next login is tried after %s, and none before it with credentials that were not accepted earlier: also not with changed ones, or on request", clock)
	case bmc.KindOf(err) == bmc.Unauthorized:
		message += fmt.Sprintf(". Changed credentials are tried at once. The next attempt is after %s, so that the BMC does not lock the account; "+
			"annotate the host with %s to retry now", clock, v1alpha1.RetryBMCAnnotation)
	}
	return lifecycle.BMCProblem{Reason: policy.reason, Message: message, RetryAt: retry}
}
