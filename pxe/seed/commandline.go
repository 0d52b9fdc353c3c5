package seed

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"strings"
)

// CommandLine returns the kernel arguments with the location of the seed, at a URL without a slash at its end, and with the network over which the operating
// system fetches it. A nil network leaves that to the image.
func CommandLine(format Format, network *Network, url string) (string, error) {
	var words []string
	switch format.orDefault() {
	case CloudConfig:
		if network != nil {
			word, err := networkArgument(network)
			if err != nil {
				return "", err
			}
			words = append(words, word)
		}
		// dsmode=net: before version 23.2 cloud-init took "nocloud" for a seed that needs no network. Its other name there, nocloud-net,
		// is deprecated in newer versions. Delete dsmode=net when no supported distribution has cloud-init before 23.2.
		words = append(words, "ds=nocloud;dsmode=net;s="+url+"/")
	case Ignition:
		if network != nil {
			word, err := CommandLineNetwork(network)
			if err != nil {
				return "", err
			}
			words = append(words, word)
		}
		// Fedora CoreOS and its derivatives run Ignition for the first two, Flatcar for the third. Each ignores the arguments of the other.
		words = append(words, "ignition.firstboot", "ignition.platform.id=metal", "flatcar.first_boot=1", "ignition.config.url="+url+"/"+IgnitionFile)
	default:
		return "", format.unknown()
	}
	return strings.Join(words, " "), nil
}

// networkArgument returns the network-config for cloud-init. It is on the command line as well as in the seed. From the command line every version applies it
// before it looks for the seed, while versions before 24.3 fetch none from the seed. The network-config on the command line overrides that of the initramfs; the
// one in the seed does not.
func networkArgument(network *Network) (string, error) {
	content, err := json.Marshal(network.netplan())
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	pack, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return "", err
	}
	if _, err := pack.Write(content); err != nil {
		return "", err
	}
	if err := pack.Close(); err != nil {
		return "", err
	}
	return "network-config=" + base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}
