package v1alpha1

// Reasons of an image that the boot server cannot use.
const (
	// ReasonImageUnreachable means that the image could not be downloaded.
	ReasonImageUnreachable = "ImageUnreachable"
	// ReasonImageUnauthorized means that the registry refused the credentials.
	ReasonImageUnauthorized = "ImageUnauthorized"
	// ReasonImageNotFound means that there is no image at the URL.
	ReasonImageNotFound = "ImageNotFound"
	// ReasonImageFormatInvalid means that the file is no usable disk image.
	ReasonImageFormatInvalid = "ImageFormatInvalid"
	// ReasonImageTooLarge means that the image is larger than the configuration permits.
	ReasonImageTooLarge = "ImageTooLarge"
	// ReasonImageInterrupted means that the boot server stopped while it prepared the image.
	ReasonImageInterrupted = "ImageInterrupted"
	// ReasonNoSpace means that the volume of the boot server has no space for the image.
	ReasonNoSpace = "NoSpace"
)
