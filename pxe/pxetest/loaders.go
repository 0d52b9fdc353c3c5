package pxetest

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
)

// WriteLoaders fills a folder with boot loaders and the list of their checksums. They are emulated, as the firmware is: they are
// fetched and not run. Each holds "loader " and its name.
func WriteLoaders(dir string, names ...string) error {
	list := []byte("# emulated\n")
	var problems []error
	for _, name := range names {
		content := []byte("loader " + name)
		problems = append(problems, os.WriteFile(filepath.Join(dir, name), content, 0o600))
		list = append(list, checksum(content)+"  "+name+"\n"...)
	}
	return errors.Join(append(problems, os.WriteFile(filepath.Join(dir, loader.Manifest), list, 0o600))...)
}
