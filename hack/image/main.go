// Command image writes the image of the manager as an archive in the layout of the Open Container Initiative (OCI), without a container engine and without
// root. The same input gives the same bytes: the date of everything is --epoch, owners and modes are set here, and names are sorted. hack/image.sh runs it.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// user is the user of the manager: the number that images without a shell usually have for an unprivileged user. The Deployments name it as well, since
// Kubernetes checks only numbers.
const user = 65532

// options are the arguments.
type options struct {
	manager, packages, loaders, license string
	arch, name, version, revision       string
	epoch                               int64
	output, sbom                        string
}

func main() {
	var o options
	flag.StringVar(&o.manager, "manager", "", "The manager's program, linked statically.")
	flag.StringVar(&o.packages, "packages", "", "Folder that packages.sh made.")
	flag.StringVar(&o.loaders, "loaders", "", "Folder that loaders.sh made.")
	flag.StringVar(&o.license, "license", "", "The project's licence.")
	flag.StringVar(&o.arch, "arch", "amd64", "Architecture of the manager and the packages.")
	flag.StringVar(&o.name, "name", "", "Name of the image, with its tag.")
	flag.StringVar(&o.version, "version", "", "Version of the image.")
	flag.StringVar(&o.revision, "revision", "", "Commit that the manager was built from.")
	flag.Int64Var(&o.epoch, "epoch", 0, "The date of everything in the image, in seconds since 1970.")
	flag.StringVar(&o.output, "output", "", "File to write.")
	flag.StringVar(&o.sbom, "sbom", "", "File to write the software bill of materials to.")
	flag.Parse()
	digest, err := build(&o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// build writes the archive and its software bill of materials, and returns the digest of the image's manifest.
func build(o *options) (string, error) {
	packages, err := openPackages(o.packages, o.arch)
	if err != nil {
		return "", err
	}
	system := newTree()
	if err := addSystem(system, packages); err != nil {
		return "", err
	}
	loaders := newTree()
	if err := addLoaders(loaders, o.loaders); err != nil {
		return "", err
	}
	program := newTree()
	if err := addManager(program, o); err != nil {
		return "", err
	}
	date := time.Unix(o.epoch, 0).UTC()
	// Layers that rarely change come first: registries and nodes keep the layers that they have.
	layers := []layer{{"Debian's packages", system}, {"boot loaders", loaders}, {"manager", program}}
	img, err := assemble(o, layers, date)
	if err != nil {
		return "", err
	}
	digest, err := writeArchive(img, o, date)
	if err != nil {
		return "", err
	}
	return digest, writeSBOM(o, digest, packages)
}

// addManager adds the program with the capability to listen on the ports 67, 69 and 547, and no other.
func addManager(t *tree, o *options) error {
	if err := t.copy("manager", o.manager, 0o755); err != nil {
		return err
	}
	t.entries["manager"].capabilities = bindService
	return t.copy("usr/share/doc/capbm/copyright", o.license, 0o644)
}

// addLoaders adds the boot loaders with the list of their checksums, which names the packages.
func addLoaders(t *tree, folder string) error {
	const to = "usr/lib/capbm/loaders/"
	names, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(names) < 2 {
		return fmt.Errorf("%s holds no boot loaders: hack/loaders.sh makes them (%w)", folder, err)
	}
	for _, name := range names {
		if filepath.Base(name)[0] == '.' {
			continue // the stamp of the script
		}
		if err := t.copy(to+filepath.Base(name), name, 0o644); err != nil {
			return err
		}
	}
	_, err = os.Stat(filepath.Join(folder, "SHA256SUMS"))
	return err
}

// addSystem adds the files that the manager needs: certificates, ipmitool with its libraries, users, and folders.
func addSystem(t *tree, p *packages) error {
	for _, folder := range []string{"etc", "usr/bin", "usr/lib", "usr/sbin", "proc", "sys", "dev", "run"} {
		t.dir(folder, 0o755)
	}
	// The manager writes here if the Deployment mounts no volume.
	t.dir("tmp", fs.ModeSticky|0o777)
	t.dir("var/cache/capbm", 0o750)
	t.entries["var/cache/capbm"].owner = user
	for _, link := range []string{"bin", "lib", "sbin"} {
		t.symlink(link, "usr/"+link)
	}
	t.file("etc/passwd", fmt.Appendf(nil, "root:x:0:0:root:/:/usr/sbin/nologin\ncapbm:x:%d:%d:manager:/tmp:/usr/sbin/nologin\n", user, user))
	t.file("etc/group", fmt.Appendf(nil, "root:x:0:\ncapbm:x:%d:\n", user))
	// Names are looked up in /etc/hosts first, as on nodes.
	t.file("etc/nsswitch.conf", []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	if err := p.addProgram(t, "ipmitool", "usr/bin/ipmitool"); err != nil {
		return err
	}
	if err := p.addCertificates(t); err != nil {
		return err
	}
	if err := p.add(t, "base-files", "usr/lib/os-release"); err != nil {
		return err
	}
	t.symlink("etc/os-release", "../usr/lib/os-release")
	return p.describe(t)
}
