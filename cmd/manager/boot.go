package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp6"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// keySecret holds the key that makes the tokens of boots. All boot servers share it.
const keySecret = "capbm-boot-key"

// keyLength is how many bytes a key has at least.
const keyLength = 32

func addBoot(ctx context.Context, mgr ctrl.Manager, o *options) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	key, previous, err := bootKeys(ctx, direct, o)
	if err != nil {
		return err
	}
	if err := boot.IndexLeases(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index leases: %w", err)
	}
	// What a packet is answered from is there before the first packet.
	for _, kind := range []client.Object{&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}, &v1alpha1.BareMetalMachine{}, &clusterv1.Machine{}, &clusterv1.Cluster{}} {
		if _, err := mgr.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	log := mgr.GetLogger().WithName("boot")
	counters, err := dhcp.NewMetrics(metrics.Registry)
	counters6, err6 := dhcp6.NewMetrics(metrics.Registry)
	if err := errors.Join(err, err6); err != nil {
		return err
	}
	booter := boot.New(&boot.Booter{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Settings: o.settings, Key: key, PreviousKey: previous,
		Namespace: o.podNamespace, Networks: o.boot.Networks, Tenants: o.boot.Tenants, Recorder: mgr.GetEventRecorder("capbm-boot"), Log: log,
	})
	turns := server.NewBootSlots(o.boot.Networks, booter)
	if err := metrics.Registry.Register(turns); err != nil {
		return err
	}
	boots := &server.Server{Config: server.FromFile(o.boot), Booter: booter, Log: log, DHCPMetrics: counters, DHCP6Metrics: counters6, BootSlots: turns}
	return errors.Join(mgr.Add(booter), mgr.Add(boots), mgr.AddReadyzCheck("boot", boots.Ready))
}

// bootKeys reads the key, and makes it the first time. Of several that make it at once, all take that of the first. pxe/README.md tells
// how to change it.
func bootKeys(ctx context.Context, c client.Client, o *options) (key, previous []byte, err error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.podNamespace, Name: keySecret}}
	err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		key := make([]byte, keyLength)
		_, _ = rand.Read(key) // never fails
		secret.Data = map[string][]byte{"key": key}
		if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read or make Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	key, previous = secret.Data["key"], secret.Data["previous"]
	if len(key) < keyLength {
		return nil, nil, fmt.Errorf("secret %s/%s: its key \"key\" has less than %d bytes: delete the Secret to have it made anew", secret.Namespace, secret.Name, keyLength)
	}
	if len(previous) > 0 && len(previous) < keyLength {
		return nil, nil, fmt.Errorf("secret %s/%s: its key \"previous\" has less than %d bytes: delete that key", secret.Namespace, secret.Name, keyLength)
	}
	return key, previous, nil
}
