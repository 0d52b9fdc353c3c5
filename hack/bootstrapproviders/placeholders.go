package main

import (
	"encoding/base64"
	"regexp"
	"strings"
)

const placeholder = "UExBQ0VIT0xERVI=" // PLACEHOLDER

var (
	pemBlock = regexp.MustCompile(`(?s)(-----BEGIN [A-Z ]+-----\n)(.*?)(\s*-----END [A-Z ]+-----)`)
	pemLine  = regexp.MustCompile(`(?m)^(\s*)[A-Za-z0-9+/=]+$`)
	// talosSecret is a secret of a Talos machine config.
	talosSecret = regexp.MustCompile(`(?m)^(\s*(?:crt|key|token|secret|id): )[A-Za-z0-9+/=._-]{16,}$`)
	// joinToken is k0s' token: a compressed kubeconfig, in a cloud-config or escaped in a data URL.
	joinToken = regexp.MustCompile(`(content: |data:,)H4sIA[A-Za-z0-9+/=%]{200,}`)
	// nested is an Ignition config in a data URL.
	nested = regexp.MustCompile(`(data:application/json;base64,)([A-Za-z0-9+/=]+)`)
)

// placeholders replaces secrets by placeholders that a reader cannot take for real. The objects from which the goldens are made contain placeholders already:
// what is left are secrets that a manager makes.
func placeholders(text string) string {
	text = pemBlock.ReplaceAllStringFunc(text, func(block string) string {
		parts := pemBlock.FindStringSubmatch(block)
		first, _, _ := strings.Cut(parts[2], "\n")
		return parts[1] + pemLine.ReplaceAllString(first, "${1}"+placeholder) + parts[3]
	})
	if strings.HasPrefix(text, "version: v1alpha1\n") {
		text = talosSecret.ReplaceAllString(text, "${1}"+placeholder)
	}
	text = nested.ReplaceAllStringFunc(text, func(url string) string {
		parts := nested.FindStringSubmatch(url)
		content, err := base64.StdEncoding.DecodeString(parts[2])
		if err != nil {
			return url
		}
		return parts[1] + base64.StdEncoding.EncodeToString([]byte(placeholders(string(content))))
	})
	return joinToken.ReplaceAllString(text, "${1}"+placeholder)
}
