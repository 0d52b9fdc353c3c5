package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

// images returns the images of the boot server: those of the component images if there is a socket, or otherwise its own.
func (o *options) images() (boot.Images, error) {
	if o.boot.Images.Socket != "" {
		return o.imageClient(), nil
	}
	return o.imageService()
}

func (o *options) imageClient() *image.Client {
	return image.NewClient(o.boot.Images.Dir, o.boot.Images.Socket)
}

func (o *options) imageService() (*image.Service, error) {
	service, err := image.New(image.Options{
		Dir: o.boot.Images.Dir, MaxBytes: o.boot.Images.MaxBytes, Outbound: o.boot.Artifacts.Outbound, TokenServices: o.boot.Images.TokenServices, Log: klog.Background().WithName("images"),
	})
	if err != nil {
		return nil, fmt.Errorf("open the folder of images (images.dir of the configuration file): %w", err)
	}
	return service, nil
}

// serveImages runs the component images until ctx ends: it downloads and converts images for the boot server, at a Unix socket, and has no access to the API
// server.
func (o *options) serveImages(ctx context.Context) error {
	socket := o.boot.Images.Socket
	if socket == "" {
		return errors.New("--components=images: set --images-socket, or images.socket of the configuration file")
	}
	service, err := o.imageService()
	if err != nil {
		return err
	}
	defer service.Close()
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier process
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen at --images-socket, or images.socket of the configuration file: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return serveUntil(ctx, listener, service.Handler()) })
	if o.healthAddress != "0" {
		group.Go(func() error {
			health, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.healthAddress)
			if err != nil {
				return fmt.Errorf("--health-addr: %w", err)
			}
			return serveUntil(ctx, health, imageHealth(o.imageClient()))
		})
	}
	klog.Background().Info("Serving images", "socket", socket, "folder", o.boot.Images.Dir)
	return group.Wait()
}

// imageHealth serves /healthz and /readyz: whether the image service answers at its socket.
func imageHealth(client *image.Client) http.Handler {
	check := &healthz.Handler{Checks: map[string]healthz.Checker{"images": func(r *http.Request) error { return client.Health(r.Context()) }}}
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", http.StripPrefix("/healthz", check))
	mux.Handle("GET /readyz", http.StripPrefix("/readyz", check))
	return mux
}

// serveUntil serves a handler until ctx ends.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	web := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
