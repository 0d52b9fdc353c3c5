package pxetest

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
)

// WriteLoaders writes boot loaders and the list of their checksums to a folder. They are emulated: the emulated firmware fetches them
// and does not run them. Each contains "loader " and its name.
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
