package bmc

import (
	"context"
	"time"
)

// more makes a call of a capability, and tells of it. One that the client does not have is no call.
func more[C, T any](o observed, operation string, do func(C) (T, error)) (T, error) {
	can, err := As[C](o.Client, operation)
	if err != nil {
		var none T
		return none, err
	}
	return call(o, operation, func() (T, error) { return do(can) })
}

// orderMore is more for what returns nothing but an error.
func orderMore[C any](o observed, operation string, do func(C) error) error {
	_, err := more(o, operation, func(can C) (struct{}, error) { return struct{}{}, do(can) })
	return err
}

// Media implements VirtualMedia.
func (o observed) Media(ctx context.Context) ([]Media, error) {
	return more(o, "Media", func(can VirtualMedia) ([]Media, error) { return can.Media(ctx) })
}

// InsertMedia implements VirtualMedia.
func (o observed) InsertMedia(ctx context.Context, image string) error {
	return orderMore(o, "InsertMedia", func(can VirtualMedia) error { return can.InsertMedia(ctx, image) })
}

// EjectMedia implements VirtualMedia.
func (o observed) EjectMedia(ctx context.Context) error {
	return orderMore(o, "EjectMedia", func(can VirtualMedia) error { return can.EjectMedia(ctx) })
}

// SecureBoot implements SecureBooter.
func (o observed) SecureBoot(ctx context.Context) (SecureBoot, error) {
	return more(o, "SecureBoot", func(can SecureBooter) (SecureBoot, error) { return can.SecureBoot(ctx) })
}

// SetSecureBoot implements SecureBooter.
func (o observed) SetSecureBoot(ctx context.Context, enabled bool) error {
	return orderMore(o, "SetSecureBoot", func(can SecureBooter) error { return can.SetSecureBoot(ctx, enabled) })
}

// Sensors implements Monitor.
func (o observed) Sensors(ctx context.Context) ([]Sensor, error) {
	return more(o, "Sensors", func(can Monitor) ([]Sensor, error) { return can.Sensors(ctx) })
}

// Events implements Monitor.
func (o observed) Events(ctx context.Context, most int) ([]Event, error) {
	return more(o, "Events", func(can Monitor) ([]Event, error) { return can.Events(ctx, most) })
}

// Clock implements Monitor.
func (o observed) Clock(ctx context.Context) (time.Time, error) {
	return more(o, "Clock", func(can Monitor) (time.Time, error) { return can.Clock(ctx) })
}
