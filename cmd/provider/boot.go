package provider

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp6"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// BootKeySecret holds the key that makes the tokens of boots. All boot servers share it.
const BootKeySecret = "capbm-boot-key"

// minKeyLength is the minimum length of a key in bytes.
const minKeyLength = 32

func (p *Provider) addBoot(ctx context.Context) error {
	o, key, previous := p.opts, p.opts.Boot.Key, []byte(nil)
	if key == nil {
		direct, err := client.New(p.GetConfig(), client.Options{Scheme: p.GetScheme()})
		if err != nil {
			return err
		}
		if key, previous, err = bootKeys(ctx, direct, o.ProviderNamespace); err != nil {
			return err
		}
	}
	if err := boot.IndexLeases(ctx, p.GetFieldIndexer()); err != nil {
		return fmt.Errorf("index leases: %w", err)
	}
	// These informers are registered here, so that the manager fills their caches before it starts the boot server.
	for _, kind := range []client.Object{&v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}, &v1alpha1.BareMetalMachine{}, &clusterv1.Machine{}, &clusterv1.Cluster{}} {
		if _, err := p.GetCache().GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	log, networks := p.GetLogger().WithName("boot"), o.Boot.Server.Networks
	booter := boot.New(&boot.Booter{
		Client: p.GetClient(), APIReader: p.GetAPIReader(), Settings: o.Settings, Key: key, PreviousKey: previous, Namespace: o.ProviderNamespace,
		Networks: networks, Tenants: o.Tenants, Images: o.Boot.Images, Recorder: p.recorder("capbm-boot"), Log: log, Clock: o.Clock,
	})
	p.BootServer = &server.Server{Config: o.Boot.Server, Booter: booter, Agents: booter, Media: booter, Log: log, BootSlots: server.NewBootSlots(networks, booter)}
	booter.Prefetcher = p.BootServer
	if err := booter.SetupImages(p); err != nil {
		return fmt.Errorf("set up the controller of images: %w", err)
	}
	addresses := &addressWatch{
		networks: networks, local: o.Boot.LocalAddresses, node: o.Boot.NodeName, pod: o.Boot.Pod, recorder: p.recorder("capbm-boot"), log: log,
	}
	if addresses.local == nil {
		addresses.local = server.LocalAddresses
	}
	return errors.Join(p.addBootMetrics(), p.Add(booter), p.Add(p.BootServer), p.Add(addresses),
		p.AddReadyzCheck("boot", p.BootServer.Ready), p.AddReadyzCheck("boot-address", addresses.Ready))
}

func (p *Provider) addBootMetrics() error {
	if p.opts.Registry == nil {
		return nil
	}
	var err, err6 error
	p.BootServer.DHCPMetrics, err = dhcp.NewMetrics(p.opts.Registry)
	p.BootServer.DHCP6Metrics, err6 = dhcp6.NewMetrics(p.opts.Registry)
	err = errors.Join(err, err6, p.opts.Registry.Register(p.BootServer.BootSlots))
	if images, ok := p.opts.Boot.Images.(prometheus.Collector); ok {
		err = errors.Join(err, p.opts.Registry.Register(images))
	}
	return err
}

// bootKeys reads the keys of tokens from a Secret, which it creates if it does not exist. If several boot servers create it at the same time, all
// use the key of the first. docs/guides/multi-tenancy.md describes how to change the key.
func bootKeys(ctx context.Context, c client.Client, namespace string) (key, previous []byte, err error) {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: BootKeySecret}}
	err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		key := make([]byte, minKeyLength)
		_, _ = rand.Read(key) // never fails
		secret.Data = map[string][]byte{"key": key}
		if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read or create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	key, previous = secret.Data["key"], secret.Data["previous"]
	if len(key) < minKeyLength {
		return nil, nil, fmt.Errorf("secret %s/%s: its key \"key\" has less than %d bytes: delete the Secret to have it created again", secret.Namespace, secret.Name, minKeyLength)
	}
	if len(previous) > 0 && len(previous) < minKeyLength {
		return nil, nil, fmt.Errorf("secret %s/%s: its key \"previous\" has less than %d bytes: delete that key", secret.Namespace, secret.Name, minKeyLength)
	}
	return key, previous, nil
}
