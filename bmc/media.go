package bmc

import (
	"fmt"
	"regexp"
)

// urlWithPath matches a URL in a text: its scheme, its credentials, its host, and its path or query.
var urlWithPath = regexp.MustCompile(`(?i)\b((?:https?|nfs|cifs|smb|ftps?|tftp)://)(?:[^/\s"'<>?#@]*@)?([^/\s"'<>?#@]*)([/?#][^\s"'<>]*)`)

// MaskURLs replaces the path, the query and the credentials of each URL in a text. The URL of an image or of a boot file contains a token, and BMCs
// quote it in their errors.
func MaskURLs(text string) string { return urlWithPath.ReplaceAllString(text, "$1$2/(masked)") }

// MediaDoubt describes how the virtual drives differ from ones that contain only the image at this URL; empty if they do not. BMCs shorten or omit the URL,
// so a doubt is not an error. The text contains no URL.
func MediaDoubt(drives []Media, image string) string {
	inserted, exact := 0, false
	for _, d := range drives {
		if d.Inserted {
			inserted++
			exact = exact || d.Image == image
		}
	}
	switch {
	case inserted == 0:
		return "no virtual drive contains an image"
	case inserted > 1:
		return fmt.Sprintf("%d virtual drives contain images", inserted)
	case !exact:
		return "the BMC reports another URL than that of the image"
	default:
		return ""
	}
}
