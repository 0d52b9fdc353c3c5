package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// packages are the unpacked packages of Debian.
type packages struct {
	folder, libraries, interpreter string
	names                          []string
	list                           map[string]deb
	// used are the packages that a file was taken from.
	used map[string]bool
}

// deb is a package as Debian's archive gave it, with the SHA-256 checksum of its file.
type deb struct{ version, sum string }

// platforms are the folder of an architecture's libraries in Debian, and the path of the dynamic linker in programs.
var platforms = map[string]struct {
	libraries, interpreter string
	machine                elf.Machine
}{
	"amd64": {"usr/lib/x86_64-linux-gnu", "lib64/ld-linux-x86-64.so.2", elf.EM_X86_64},
	"arm64": {"usr/lib/aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1", elf.EM_AARCH64},
}

func openPackages(folder, arch string) (*packages, error) {
	platform, ok := platforms[arch]
	if !ok {
		return nil, fmt.Errorf("there is no image for the architecture %q: use one of %s", arch, slices.Sorted(maps.Keys(platforms)))
	}
	list, err := os.ReadFile(filepath.Join(folder, "PACKAGES")) //nolint:gosec // the caller names it
	if err != nil {
		return nil, fmt.Errorf("hack/image/packages.sh makes the folder: %w", err)
	}
	p := &packages{folder: folder, libraries: platform.libraries, interpreter: platform.interpreter, list: map[string]deb{}, used: map[string]bool{}}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return nil, fmt.Errorf("%s/PACKAGES: %q is no package with version and checksum", folder, line)
		}
		p.names = append(p.names, fields[0])
		p.list[fields[0]] = deb{fields[1], fields[2]}
	}
	slices.Sort(p.names)
	return p, nil
}

// add adds a file of a package. Symbolic links are followed.
func (p *packages) add(t *tree, name, file string) error {
	source, err := p.resolve(name, file)
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	p.used[name] = true
	return t.copy(file, source, info.Mode().Perm())
}

// resolve finds a file of a package. Some folders of documentation are links into another package.
func (p *packages) resolve(name, file string) (string, error) {
	path, err := filepath.EvalSymlinks(filepath.Join(p.folder, name, file))
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return path, err
	}
	// usr/share/doc/A -> B, where B is in the package B.
	dir := filepath.Dir(file)
	to, linkErr := os.Readlink(filepath.Join(p.folder, name, dir))
	if linkErr != nil || strings.Contains(to, "/") {
		return "", err
	}
	return filepath.EvalSymlinks(filepath.Join(p.folder, to, filepath.Dir(dir), to, filepath.Base(file)))
}

// addProgram adds a program with the libraries that it needs, and those that these need.
func (p *packages) addProgram(t *tree, name, file string) error {
	if err := p.add(t, name, file); err != nil {
		return err
	}
	needed, err := libraries(filepath.Join(p.folder, name, file))
	if err != nil {
		return err
	}
	needed = append(needed, filepath.Base(p.interpreter))
	for done := map[string]bool{}; len(needed) > 0; {
		library := needed[0]
		needed = needed[1:]
		if done[library] {
			continue
		}
		done[library] = true
		more, err := p.addLibrary(t, library)
		if err != nil {
			return err
		}
		needed = append(needed, more...)
	}
	// Programs name the dynamic linker by its traditional path.
	if to := filepath.Dir(p.interpreter); t.entries[to] == nil {
		t.symlink(to, "usr/"+to)
	}
	t.symlink("usr/"+p.interpreter, "/"+p.libraries+"/"+filepath.Base(p.interpreter))
	return nil
}

// addLibrary adds a library and returns the libraries that it needs.
func (p *packages) addLibrary(t *tree, library string) ([]string, error) {
	file := p.libraries + "/" + library
	for _, name := range p.names {
		source, err := p.resolve(name, file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := p.add(t, name, file); err != nil {
			return nil, err
		}
		return libraries(source)
	}
	return nil, fmt.Errorf("no package has %s", file)
}

// libraries returns the libraries that a program or a library is linked with.
func libraries(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close() //nolint:errcheck // it was read only
	return f.ImportedLibraries()
}

// addCertificates adds the certificates of the authorities that Debian trusts, in one file as update-ca-certificates writes it.
func (p *packages) addCertificates(t *tree) error {
	const name = "ca-certificates"
	files, err := filepath.Glob(filepath.Join(p.folder, name, "usr/share/ca-certificates/mozilla/*.crt"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("the package %s has no certificates", name)
	}
	var all bytes.Buffer
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // of the package
		if err != nil {
			return err
		}
		all.Write(bytes.TrimSpace(content))
		all.WriteByte('\n')
	}
	p.used[name] = true
	t.file("etc/ssl/certs/ca-certificates.crt", all.Bytes())
	return nil
}

// describe adds the licences and the descriptions of the used packages. Vulnerability scanners read the descriptions: a file for each package, as in images
// without a package manager.
func (p *packages) describe(t *tree) error {
	for _, name := range slices.Sorted(maps.Keys(p.used)) {
		if err := p.add(t, name, "usr/share/doc/"+name+"/copyright"); err != nil {
			return err
		}
		control := filepath.Join(p.folder, name+".control")
		if err := t.copy("var/lib/dpkg/status.d/"+name, control, 0o644); err != nil {
			return err
		}
	}
	return nil
}
