package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// MediaURL is the URL of the boot media as BMCs of a network reach it.
type MediaURL struct {
	// Network has the BMCs that use the URL. The zero value is every BMC for which no other entry has a network.
	Network netip.Prefix
	// URL is an http or https URL, to which the path of a boot medium is appended.
	URL string
}

// MediaURLs are the URLs of the boot media. Without any, the provider offers no boot media.
type MediaURLs []MediaURL

// ParseMediaURL parses a value of the flag --boot-media-url: [CIDR=]URL.
func ParseMediaURL(text string) (MediaURL, error) {
	var m MediaURL
	if network, rest, ok := strings.Cut(text, "="); ok && !strings.Contains(network, "://") {
		prefix, err := netip.ParsePrefix(network)
		if err != nil {
			return m, fmt.Errorf("%q is not a network in CIDR notation", network)
		}
		m.Network, text = prefix.Masked(), rest
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return m, fmt.Errorf("it is not a URL: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return m, fmt.Errorf("%q is not an http or https URL", u.Redacted())
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return m, fmt.Errorf("%q has credentials, a query or a fragment: some BMCs accept none", u.Redacted())
	}
	m.URL = strings.TrimRight(u.String(), "/")
	return m, nil
}

// For returns the URL for the BMC at an address (spec.bmc.address). The entry with the smallest network that contains the BMC decides, or otherwise the entry
// without a network. Without either the URL is empty. A BMC that is given by name is in no network.
func (m MediaURLs) For(address string) string {
	var host string
	if u, err := url.Parse(address); err == nil {
		host = u.Hostname()
	}
	ip, _ := netip.ParseAddr(host) // the zero value is in no network
	found, bits := "", -2
	for _, entry := range m {
		size := -1 // of an entry without a network
		if entry.Network.IsValid() {
			if !entry.Network.Contains(ip.Unmap()) {
				continue
			}
			size = entry.Network.Bits()
		}
		if size > bits {
			found, bits = entry.URL, size
		}
	}
	return found
}

// offeredMethods returns the boot methods that a BMC with these capabilities offers. It is nil if the capabilities are unknown.
func offeredMethods(capabilities []string) []v1alpha1.BootMethod {
	if len(capabilities) == 0 {
		return nil
	}
	can := func(c bmc.Capability) bool { return slices.Contains(capabilities, string(c)) }
	offered := []v1alpha1.BootMethod{}
	if can(bmc.CanBootPXE) || can(bmc.CanBootHTTP) {
		offered = append(offered, v1alpha1.MethodPXE)
	}
	if can(bmc.CanBootHTTP) {
		offered = append(offered, v1alpha1.MethodUefiHTTP)
	}
	if can(bmc.CanVirtualMedia) && can(bmc.CanBootCD) {
		offered = append(offered, v1alpha1.MethodVirtualMedia)
	}
	return offered
}

// errNoMedia means that the provider offers no boot media to a BMC.
var errNoMedia = errors.New("the provider offers no boot media for this BMC: set its flag --boot-media-url")

// mediumURL returns the URL of the boot medium of a job's boot. It contains a secret.
func (d *bootDevices) mediumURL(ctx context.Context, j job) (string, error) {
	const op = "Determine the URL of the boot medium"
	base := d.mediaURLs.For(j.endpoint.URL.String())
	if base == "" || d.mediaToken == nil {
		return "", &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errNoMedia}
	}
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: j.key.Namespace, Name: j.key.Name}, Spec: j.boot}
	token, err := d.mediaToken(ctx, boot)
	if err != nil {
		return "", fmt.Errorf("%w: read the key of the boot media: %w", errRecheckFailed, err) // the BMC is healthy
	}
	return base + pxe.MediaPath(j.key.String(), token), nil
}

// setMediumURL instructs the firmware to boot from the URL of the boot medium.
func (d *bootDevices) setMediumURL(ctx context.Context, j job, c bmc.Client) error {
	medium, err := d.mediumURL(ctx, j)
	if err != nil {
		return err
	}
	return d.setOverride(ctx, j, c, bmc.BootOverride{Target: bmc.BootHTTP, Mode: bmc.BootUEFI, URI: medium}, j.overrideMethod(c), "")
}

// insertMedium inserts the boot medium into the virtual drive, and instructs the firmware to boot from it once. The server is off: firmware and boot loaders do not
// survive a medium that is ejected under them. The old medium is ejected first, because some BMCs report a stale URL as inserted.
func (d *bootDevices) insertMedium(ctx context.Context, j job, c bmc.Client) error {
	media, err := bmc.As[bmc.VirtualMedia](c, "Insert the boot medium")
	if err != nil {
		return err
	}
	medium, err := d.mediumURL(ctx, j)
	if err != nil {
		return err
	}
	if err := media.EjectMedia(ctx); err != nil {
		return err
	}
	d.observations.updateByJob(j, func(h *hostObservation) {
		h.bmc.MediaInserted = true // the BMC may insert it although it answers with an error
		h.override = &v1alpha1.BootOverrideStatus{Boot: j.boot.Number, BootMethod: v1alpha1.MethodVirtualMedia, Target: v1alpha1.TargetCD}
	})
	if err := media.InsertMedia(ctx, medium); err != nil {
		return err
	}
	drives, err := media.Media(ctx)
	if err != nil {
		return err
	}
	return d.setOverride(ctx, j, c, bmc.BootOverride{Target: bmc.BootCD, Mode: j.mode}, j.overrideMethod(c), bmc.MediaDoubt(drives, medium))
}

// overrideMethod returns the method of the driver with which an override for the boot method of the job worked last, or the first one.
func (j job) overrideMethod(c bmc.Client) bmc.BootMethod {
	methods := c.BootMethods()
	if last := j.lastOverride; last != nil && last.Worked && last.BootMethod == j.method && slices.Contains(methods, bmc.BootMethod(last.Method)) {
		return bmc.BootMethod(last.Method)
	}
	if len(methods) == 0 {
		return ""
	}
	return methods[0]
}

// removeOldMedium ejects the boot medium of an earlier attempt with another method, and removes its URL: PXE includes an override for HTTP boot, which takes the URL from
// DHCP. If the BMC refuses that, the boot continues: the old URL is not served any more, and the override names another device.
func (d *bootDevices) removeOldMedium(ctx context.Context, j job, c bmc.Client) error {
	if j.mediaInserted && j.method != v1alpha1.MethodVirtualMedia {
		if err := d.ejectMedia(ctx, j, c); err != nil && !errors.As(err, new(*finalError)) {
			return err
		}
	}
	if last := j.lastOverride; last != nil && last.BootMethod == v1alpha1.MethodUefiHTTP && j.method != v1alpha1.MethodUefiHTTP {
		if err := j.clearOverrideIfNeeded(ctx, c, bmc.BootMethod(last.Method), true, true); err != nil && !answeredByBMC(err) {
			return err
		}
	}
	return nil
}

// ejectMedia ejects a boot medium that the server needs no more. A refusal is not retried: the release ejects it, or puts the host into quarantine.
func (d *bootDevices) ejectMedia(ctx context.Context, j job, c bmc.Client) error {
	media, err := bmc.As[bmc.VirtualMedia](c, "Eject the boot medium")
	if err == nil {
		err = media.EjectMedia(ctx)
	}
	if err != nil && !answeredByBMC(err) {
		return err
	}
	d.observations.updateByJob(j, func(h *hostObservation) { h.bmc.MediaInserted = false })
	return asFinal(err)
}

// noteMethodRefused ends the attempt of a boot whose method the BMC refuses, if another method is left: the next attempt uses that. Otherwise the refusal is repeated
// as any other problem of the BMC.
func (d *bootDevices) noteMethodRefused(j job, err error) error {
	if err == nil || !answeredByBMC(err) || errors.Is(err, errRecheckFailed) || !j.hasNextMethod {
		return err
	}
	d.observations.updateByJob(j, func(h *hostObservation) {
		h.bmc.MethodRefused = &lifecycle.MethodRefusal{Boot: j.boot.Number, Message: controllers.Clip(err.Error(), controllers.MaxText)}
	})
	return asFinal(err)
}

// mediumPath matches the path of a boot medium, also where a BMC escapes it. Its last part is the token.
var mediumPath = regexp.MustCompile(`(media(?:\\?/|%2[Ff])[^/\\%\s"']+(?:\\?/|%2[Ff])[^/\\%\s"']+(?:\\?/|%2[Ff]))[\w-]+`)

// maskMedia replaces the tokens of boot media in a text. BMCs put the URL that they were given into their errors.
func maskMedia(text string) string { return mediumPath.ReplaceAllString(text, "${1}...") }

// maskError returns an error whose text has no token of a boot medium, and which wraps no error that has one. It returns nil for nil.
func maskError(err error) error {
	var known *bmc.Error
	var final *finalError
	switch {
	case err == nil || maskMedia(err.Error()) == err.Error():
		return err
	case errors.As(err, &final):
		return asFinal(maskError(final.error))
	case errors.As(err, &known):
		masked := *known
		masked.Err = errors.New(maskMedia(fmt.Sprint(known.Err)))
		return &masked
	default:
		return errors.New(maskMedia(err.Error()))
	}
}
