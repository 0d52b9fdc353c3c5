package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const (
	// defaultMediaTimeout is the default of Driver.MediaTimeout.
	defaultMediaTimeout = time.Minute
	// maxCopyWaits is how often Driver.MediaTimeout may pass while the BMC copies the image. Some BMCs read 200 KB/s: a medium takes four minutes then.
	maxCopyWaits = 4
	// maxMediaReads is how often a drive is read within Driver.MediaTimeout.
	maxMediaReads = 60
)

func (d *Driver) mediaTimeout() time.Duration { return cmp.Or(d.MediaTimeout, defaultMediaTimeout) }

// interval is the time between two reads of a drive.
func (m *media) interval() time.Duration { return m.timeout / maxMediaReads }

// slow permits a request twice the time that a drive has: some BMCs fetch the image before they answer.
func (m *media) slow(ctx context.Context) context.Context {
	return context.WithValue(ctx, slowRequest{}, 2*m.timeout)
}

// insertOp names the insertion in errors.
const insertOp = "Insert the image"

// InsertMedia ejects the images in the optical drives, and inserts the image into the first drive that accepts it.
func (m *media) InsertMedia(ctx context.Context, image string) error {
	m.service.masker.hideURL(image)
	drives, err := m.readDrives(ctx)
	if err != nil {
		return err
	}
	m.system.readManager(ctx) // its firmware's version may have an entry in the table
	candidates := m.bootDrives(drives)
	if len(candidates) == 0 {
		return &bmc.Error{Kind: bmc.Unsupported, Op: insertOp, Err: errors.New("the BMC has no virtual optical drive")}
	}
	if i := slices.IndexFunc(candidates, func(drive resource) bool { return isCopied(drive, image) }); i >= 0 {
		// An earlier request still runs. Another one would start its copy again, or be refused.
		if err := m.awaitDrive(ctx, candidates[i], isInserted); !errors.Is(err, errUnchanged) {
			return insertError(image, err)
		}
	}
	// An image that the drive reports is never trusted, also if it is the wanted one: iDRAC 9 reports an image for some time after its ejection
	// (openstack/ironic, story 2008504). An image in another optical drive could boot.
	var previous []string
	for _, drive := range drives {
		if isOptical(drive) {
			previous = append(previous, drive.text("Image"))
			if err := m.eject(ctx, drive); err != nil {
				return err
			}
		}
	}
	var refusal error
	deadline := time.Now().Add(m.timeout)
	for _, drive := range candidates {
		task, err := m.insert(ctx, drive, image, deadline)
		if err == nil {
			return insertError(image, m.awaitImage(ctx, drive, image, task, previous))
		}
		if !refused(err) || needsLicence(err) {
			return insertError(image, err)
		}
		refusal = cmp.Or(refusal, err)
	}
	return insertError(image, refusal)
}

// insert inserts an image into a drive. It repeats the request until the deadline while the BMC answers that it has failed: iDRAC 9 answers so while it
// ejects another image. It returns the path of the BMC's task, or "".
func (m *media) insert(ctx context.Context, drive resource, image string, deadline time.Time) (task string, err error) {
	for {
		task, err := m.tryInsert(ctx, drive, image)
		if !failedForNow(err) || time.Now().After(deadline) || !sleep(ctx, m.interval()) {
			return task, err
		}
	}
}

// failedForNow is true for a response that reports a failure of the BMC, not of the request. A BMC that says how long it is not ready is not asked again.
func failedForNow(err error) bool {
	switch statusOf(err) {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return bmc.RetryAfter(wrap("", err)) == 0
	default:
		return false
	}
}

// tryInsert tries the insert action with the parameters that BMCs require or refuse in addition to the image, and a change of the properties, until the BMC
// accepts one. It returns the path of the BMC's task, or "". The error is the most informative one.
func (m *media) tryInsert(ctx context.Context, drive resource, image string) (task string, err error) {
	var refusal, failure error
	if action := insertAction(drive); action != "" {
		for _, body := range m.insertBodies(image) {
			answer, header, err := m.service.request(m.slow(ctx), http.MethodPost, action, body, nil)
			switch {
			case err == nil:
				return m.service.taskOf(answer, header), nil
			case failedForNow(err):
				m.service.fatal = nil // a failure of the drive is not one of the BMC
				failure = cmp.Or(failure, err)
			case !refused(err) || needsLicence(err):
				return "", err
			default:
				refusal = cmp.Or(refusal, err)
			}
		}
	}
	if failure != nil {
		return "", failure
	}
	err = m.service.patch(m.slow(ctx), drive.link("@odata.id"), map[string]any{"Image": image, "Inserted": true})
	if refused(err) {
		return "", cmp.Or(refusal, err) // a drive with an action refuses the change because of the action
	}
	return "", err
}

// insertBodies are the parameters of the insert action. DSP0268, VirtualMedia.InsertMedia: some services require TransferProtocolType although the URL
// implies it.
func (m *media) insertBodies(image string) []map[string]any {
	scheme, _, _ := strings.Cut(image, ":")
	protocol := strings.ToUpper(scheme)
	bodies := []map[string]any{
		{"Image": image, "Inserted": true, "WriteProtected": true},
		{"Image": image},
		{"Image": image, "TransferProtocolType": protocol},
		{"Image": image, "TransferProtocolType": protocol, "TransferMethod": "Stream", "Inserted": true, "WriteProtected": true},
	}
	if m.system.quirk.imageOnly {
		bodies = bodies[1:]
	}
	return bodies
}

// eject empties a drive that may contain an image, or get one from a copy that still runs, and waits until it is empty.
func (m *media) eject(ctx context.Context, drive resource) error {
	m.service.masker.hideURL(drive.text("Image"))
	if !claimsImage(drive) && !mayBeCopied(drive) {
		return nil
	}
	op := "Eject the image in " + drive.id()
	if err := m.tryEject(ctx, drive); err != nil {
		if now, readErr := m.service.get(ctx, drive.link("@odata.id")); refused(err) && readErr == nil && !isInserted(now) {
			return nil // it was empty: some BMCs keep Image after an eject
		}
		return ejectError(op, err)
	}
	err := m.awaitDrive(ctx, drive, func(now resource) bool { return !isInserted(now) })
	if errors.Is(err, errUnchanged) {
		err = fmt.Errorf("%w: it still contains an image", err)
	}
	return wrap(op, err)
}

// ejectError returns the error of an ejection. It is not Unsupported, which means that there is no drive: this drive contains an image.
func ejectError(op string, err error) error {
	var e *bmc.Error
	if errors.As(wrap(insertOp, err), &e) && e.Kind == bmc.Unsupported {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: e.Err}
	}
	return wrap(op, err)
}

func (m *media) tryEject(ctx context.Context, drive resource) error {
	var refusal error
	if action := drive.link("Actions", "#VirtualMedia.EjectMedia", "target"); action != "" {
		// The body is an empty object, because some BMCs refuse a request without a body.
		_, _, err := m.service.request(m.slow(ctx), http.MethodPost, action, map[string]any{}, nil)
		if err == nil || !refused(err) {
			return err
		}
		refusal = err
	}
	var err error
	for _, body := range []map[string]any{{"Image": nil, "Inserted": false}, {"Image": nil}} {
		if err = m.service.patch(m.slow(ctx), drive.link("@odata.id"), body); err == nil || !refused(err) {
			return err
		}
	}
	return cmp.Or(refusal, err)
}

// errUnchanged means that a BMC accepted a request, and its drive did not change in time.
var errUnchanged = errors.New("the BMC accepted the request, but its drive did not change")

// awaitDrive reads the drive until done is true, because BMCs fetch and eject images in the background. The error is errUnchanged at the end of
// Driver.MediaTimeout.
func (m *media) awaitDrive(ctx context.Context, drive resource, done func(resource) bool) error {
	within, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	for {
		now, err := m.service.get(within, drive.link("@odata.id"))
		if err == nil && done(now) {
			return nil
		}
		if m.service.fatal != nil && within.Err() == nil {
			return m.service.fatal
		}
		if !sleep(within, m.interval()) {
			if ctx.Err() == nil && bmc.KindOf(wrap("", m.service.fatal)) == bmc.Unreachable {
				m.service.fatal = nil // the last read was canceled
			}
			return cmp.Or(ctx.Err(), fmt.Errorf("%w within %s", errUnchanged, m.timeout))
		}
	}
}

// sleep waits. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// needsLicence is true for a response that requests a licence: LicenseKeyRequired (HPE), OemLicenseNotPassed (Supermicro), LIC501 with the text (Dell).
func needsLicence(err error) bool {
	var e *answerError
	return errors.As(err, &e) && slices.ContainsFunc(slices.Concat(e.ids, e.messages), func(text string) bool {
		return strings.Contains(strings.ToLower(text), "licen")
	})
}

// insertError returns the error of an insertion with its remedy.
func insertError(image string, err error) error {
	var e *bmc.Error
	if !errors.As(wrap(insertOp, err), &e) {
		return nil
	}
	add := func(kind bmc.Kind, remedy string) error {
		return &bmc.Error{Kind: kind, Op: insertOp, Err: fmt.Errorf("%w: %s", e.Err, remedy), RetryAfter: e.RetryAfter}
	}
	u, parseErr := url.Parse(image)
	switch {
	case needsLicence(err):
		return add(bmc.Unsupported, "install the licence for virtual media "+
			"(iLO Advanced, iDRAC Enterprise, SFT-DCMS-SINGLE or a similar one), or boot from the network")
	case statusOf(err)/100 != 4 || parseErr != nil:
		return e
	case strings.ContainsAny(image, "?=") || !strings.HasSuffix(u.Path, ".iso"):
		return add(e.Kind, "some BMCs take only URLs that end in .iso and contain neither ? nor =")
	case u.Scheme == "https":
		return add(e.Kind, "some BMCs take no https URLs, or verify a certificate without a way to add its CA: use an http URL in a trusted network")
	default:
		return e
	}
}
