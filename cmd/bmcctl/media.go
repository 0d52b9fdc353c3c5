package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const aboutMedia = `bmcctl media status URL prints what the virtual drives of a server contain.
bmcctl media insert URL IMAGE inserts an image, and reads it back. IMAGE is an http or https URL that the BMC can reach.
bmcctl media eject URL empties the virtual drives, and waits until they are empty.
An image is not ejected while the server is on, because its operating system may run from the image.

  bmcctl media status redfish://192.0.2.10 --username admin --ca bmc-ca.crt
  bmcctl media insert redfish://192.0.2.10 http://images.example/boot.iso
  bmcctl media eject redfish://192.0.2.10 --force -o json
`

// mediaCommand is one run of bmcctl media.
type mediaCommand struct {
	connection

	force, withURLs bool
	output          string
	// do is status, insert or eject. image is only set for insert.
	do, address, image string
}

// mediaState is the state of the virtual drives.
type mediaState struct {
	Address string         `json:"address"`
	Power   bmc.PowerState `json:"power"`
	Media   []bmc.Media    `json:"media"`
	// Doubt is how the drives differ from ones that contain only the inserted image; empty if they do not.
	Doubt string `json:"doubt"`
}

func media(ctx context.Context, args []string, c console) error {
	m := &mediaCommand{}
	set := pflag.NewFlagSet("media", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	m.flags(set)
	set.BoolVar(&m.force, "force", false, "Insert or eject also if the server is on and a drive contains an image.")
	set.BoolVar(&m.withURLs, "with-urls", false, "Do not mask the paths of URLs, which may contain tokens.")
	set.StringVarP(&m.output, "output", "o", "text", "Output `format`: text or json.")
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s\n%s", aboutMedia, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	}
	if err := m.readArguments(set.Args()); err != nil {
		return err
	}
	t, err := m.target(ctx, m.address, c)
	if err != nil {
		return err
	}
	state, err := m.run(ctx, t)
	if err != nil {
		return t.explain(err)
	}
	return m.print(state, c)
}

func (m *mediaCommand) readArguments(args []string) error {
	wanted := map[string]int{"status": 2, "insert": 3, "eject": 2}
	switch {
	case len(args) == 0 || wanted[args[0]] == 0:
		return usageErrorf("bmcctl media takes a command: write bmcctl media status redfish://192.0.2.10, or use insert or eject")
	case len(args) != wanted[args[0]] && args[0] == "insert":
		return usageErrorf("bmcctl media insert takes the URL of a BMC and the URL of an image, but got %d arguments: "+
			"write bmcctl media insert redfish://192.0.2.10 http://192.0.2.5/boot.iso", len(args)-1)
	case len(args) != wanted[args[0]]:
		return usageErrorf("bmcctl media %s takes one URL, but got %d: write bmcctl media %s redfish://192.0.2.10", args[0], len(args)-1, args[0])
	case m.output != "text" && m.output != "json":
		return usageErrorf("--output: %q is neither text nor json", m.output)
	}
	m.do, m.address = args[0], args[1]
	if m.do == "insert" {
		m.image = args[2]
		return checkImageURL("IMAGE", m.image)
	}
	return nil
}

// checkImageURL is an error unless the text is the URL of an image. The error does not contain it.
func checkImageURL(what, text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usageErrorf("%s must be an http or https URL that the BMC can reach, like http://192.0.2.5/boot.iso", what)
	}
	return nil
}

// run executes the command, and reads the drives.
func (m *mediaCommand) run(ctx context.Context, t *target) (*mediaState, error) {
	// An insertion ejects, inserts and reads back.
	ctx, cancel := context.WithTimeout(ctx, 3*m.timeout)
	defer cancel()
	client, err := t.open(ctx, t.Endpoint)
	if err != nil {
		return nil, err
	}
	state, err := m.runWith(ctx, client)
	closeCtx, cancelClose := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
	defer cancelClose()
	closeErr := client.Close(closeCtx)
	if err != nil {
		return nil, err
	}
	state.Address = t.URL.String()
	return state, closeErr
}

func (m *mediaCommand) runWith(ctx context.Context, client bmc.Client) (*mediaState, error) {
	drives, err := bmc.As[bmc.VirtualMedia](client, "Read the virtual media")
	if err != nil {
		return nil, err
	}
	state := &mediaState{}
	if state.Power, err = client.PowerState(ctx); err != nil {
		return nil, err
	}
	if state.Media, err = drives.Media(ctx); err != nil || m.do == "status" {
		return state, err
	}
	if !m.force && state.Power != bmc.PowerOff && slices.ContainsFunc(state.Media, func(d bmc.Media) bool { return d.Inserted }) {
		return nil, errors.New("the server is not off and may run from the image in its drive: power it off, or use --force")
	}
	if m.do == "insert" {
		err = drives.InsertMedia(ctx, m.image)
	} else {
		err = drives.EjectMedia(ctx)
	}
	if err != nil {
		return nil, err
	}
	if state.Media, err = drives.Media(ctx); err == nil && m.do == "insert" {
		state.Doubt = bmc.MediaDoubt(state.Media, m.image)
	}
	return state, err
}

func (m *mediaCommand) print(state *mediaState, c console) error {
	if !m.withURLs {
		maskImages(state.Media)
	}
	if m.output == "json" {
		encoder := json.NewEncoder(c.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(plain(state, nil))
	}
	table := newTable(c.out)
	table.row("BMC", state.Address)
	table.row("Power", string(state.Power))
	if len(state.Media) == 0 {
		table.row("Virtual media", "no drive")
	}
	for _, d := range state.Media {
		table.row("Virtual media", mediaText(d))
	}
	if state.Doubt != "" {
		table.row("Doubt", state.Doubt)
	}
	return table.flush()
}

// mediaText describes a virtual drive.
func mediaText(d bmc.Media) string {
	text := "empty"
	if d.Inserted {
		text = cmp.Or(d.Image, "an image whose URL the BMC does not report")
	}
	return fmt.Sprintf("%s (%s): %s", d.Name, strings.Join(d.Types, ", "), text)
}

// maskImages masks the paths of the images' URLs.
func maskImages(drives []bmc.Media) {
	for i := range drives {
		drives[i].Image = bmc.MaskURLs(drives[i].Image)
	}
}
