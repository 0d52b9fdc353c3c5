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

	"k8s.io/klog/v2"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

// images returns the images of the boot server: those of the component images if there is a socket, or otherwise its own.
func (o *options) images() (boot.Images, error) {
	if o.boot.Images.Socket != "" {
		return image.NewClient(o.boot.Images.Dir, o.boot.Images.Socket), nil
	}
	return o.imageService()
}

func (o *options) imageService() (*image.Service, error) {
	service, err := image.New(image.Options{
		Dir: o.boot.Images.Dir, MaxBytes: o.boot.Images.MaxBytes, Outbound: o.boot.Artifacts.Outbound, Log: klog.Background().WithName("images"),
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
		return errors.New("--components=images: set images.socket of the configuration file")
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
		return fmt.Errorf("listen at images.socket of the configuration file: %w", err)
	}
	klog.Background().Info("Serving images", "socket", socket, "folder", o.boot.Images.Dir)
	web := &http.Server{Handler: service.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = web.Close() })()
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
