package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=create,namespace=capbm-system

// keySecret holds the key that makes the tokens of boots. All boot servers share it.
const keySecret = "capbm-boot-key"

func addBoot(ctx context.Context, mgr ctrl.Manager, o *options) error {
	direct, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		return err
	}
	key, err := bootKey(ctx, direct, o)
	if err != nil {
		return err
	}
	log := mgr.GetLogger().WithName("boot")
	b := boot.Booter{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Settings: o.settings, Key: key, Log: log}
	if o.server.DHCP.Mode == dhcp.Authoritative {
		b.Leases = &boot.Leases{First: o.rangeFirst, Last: o.rangeLast}
	}
	booter := boot.New(b)
	return errors.Join(mgr.Add(booter), mgr.Add(&server.Server{Config: o.server, Booter: booter, Log: log}))
}

// bootKey reads the key, and makes it the first time. Of several that make it at once, all take that of the first.
func bootKey(ctx context.Context, c client.Client, o *options) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: secretMeta(o, keySecret)}
	err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	if apierrors.IsNotFound(err) {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		secret.Data = map[string][]byte{"key": key}
		if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = c.Get(ctx, client.ObjectKeyFromObject(secret), secret)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read or make Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	if len(secret.Data["key"]) < 32 {
		return nil, fmt.Errorf("secret %s/%s: its key \"key\" has less than 32 bytes: delete the Secret to have it made anew", secret.Namespace, secret.Name)
	}
	return secret.Data["key"], nil
}
