package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// The formats of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

// outputFlag is -o.
type outputFlag struct {
	format  string
	formats []string
}

// add adds the flag to a command. The first format is the default.
func (f *outputFlag) add(cmd *cobra.Command, formats ...string) {
	f.formats = formats
	cmd.Flags().StringVarP(&f.format, "output", "o", formats[0], "Output `format`: "+strings.Join(formats, ", ")+".")
	complete(cmd, "output", formats...)
}

func (f *outputFlag) validate() error {
	if !slices.Contains(f.formats, f.format) {
		return usageErrorf("--output: %q is unknown: use %s", f.format, strings.Join(f.formats, ", "))
	}
	return nil
}

// printDocument prints a document of this program as JSON or YAML.
func (t *tool) printDocument(format string, document any) error {
	var content []byte
	var err error
	switch format {
	case formatJSON:
		content, err = json.MarshalIndent(document, "", "    ")
		content = append(content, '\n')
	case formatYAML:
		content, err = yaml.Marshal(document)
	default:
		err = fmt.Errorf("a document cannot be printed as %q", format)
	}
	if err != nil {
		return err
	}
	_, err = t.out().Write(content)
	return err
}

// printObject prints an object of the API, or a list, as kubectl does.
func (t *tool) printObject(format string, object runtime.Object) error {
	gvk, err := apiutil.GVKForObject(object, access.Scheme())
	if err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	if meta.IsListType(object) {
		items, err := meta.ExtractList(object)
		if err != nil {
			return err
		}
		for _, item := range items {
			item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: strings.TrimSuffix(gvk.Kind, "List")})
		}
		if err := meta.SetList(object, items); err != nil {
			return err
		}
	}
	var printer printers.ResourcePrinter
	switch format {
	case formatJSON:
		printer = &printers.OmitManagedFieldsPrinter{Delegate: &printers.JSONPrinter{}}
	case formatYAML:
		printer = &printers.OmitManagedFieldsPrinter{Delegate: &printers.YAMLPrinter{}}
	default:
		return fmt.Errorf("an object cannot be printed as %q", format)
	}
	return printer.PrintObj(object, t.out())
}

// printName prints the name of an object as kubectl does: RESOURCE.GROUP/NAME.
func (t *tool) printName(kind string, object client.Object) {
	view.Printf(t.out(), "%s\n", resourceName(kind, object.GetName()))
}
