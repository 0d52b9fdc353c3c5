package bmctest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The paths of actions below a virtual drive.
const (
	insertAction = "/Actions/VirtualMedia.InsertMedia"
	ejectAction  = "/Actions/VirtualMedia.EjectMedia"
)

// insertTask is the monitor of the task that inserts an image.
const insertTask = "/redfish/v1/TaskService/TaskMonitors/insert"

// decoyDrives are the optical drives that accept no image, as on XCC (RDOC), Cisco (internal drives) and OpenBMC (slots of the web console).
var decoyDrives = []string{"RDOC1", "RDOC2", "Slot_0", "Slot_1"}

// virtualMedia are the virtual drives of an emulated server.
type virtualMedia struct {
	*core

	media     map[string]string // the images in the virtual drives
	lastImage string            // the previous one of the drive that boots
	copying   string            // the virtual drive into which a BMC with MediaSlowInsert copies an image
	unread    string            // the image that such a BMC could not read
}

// Image returns the URL of the image in the virtual drive that boots; empty if no image is inserted.
func (v *virtualMedia) Image() string { return v.imageIn(v.bootDrive()) }

func (v *virtualMedia) imageIn(drive string) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.media[drive]
}

// insert inserts an image into a virtual drive, or ejects the image if it is empty.
func (v *virtualMedia) insert(drive, image string) {
	boots := v.bootDrive()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.commands = append(v.commands, Command{Name: "Media=" + image, At: time.Now()})
	if drive == boots && v.media[drive] != "" {
		v.lastImage = v.media[drive]
	}
	v.media[drive] = image
	if drive == v.copying {
		v.copying = "" // an eject ends the copy, and its task
	}
}

// driveNames are the names of the virtual drives. The last one boots.
func (v *virtualMedia) driveNames() []string {
	switch {
	case v.faults.on(MediaTwoDrives):
		return []string{"2", "1"}
	case v.faults.on(MediaDecoyDrives):
		return append(slices.Clone(decoyDrives), "CD")
	default:
		return []string{"CD"}
	}
}

func (v *virtualMedia) bootDrive() string {
	names := v.driveNames()
	return names[len(names)-1]
}

func (v *virtualMedia) driveList(path string) object {
	var paths []string
	for _, name := range v.driveNames() {
		paths = append(paths, path+"/"+name)
	}
	return collection(paths...)
}

// drive is the resource of a virtual drive.
func (v *virtualMedia) drive(path, name string) object {
	if !slices.Contains(v.driveNames(), name) {
		return nil
	}
	image := v.reportedImage(name)
	o := object{"MediaTypes": []string{"CD", "DVD"}, "Inserted": image != "" && !v.copies(name), "Image": nil}
	if v.faults.on(MediaDVDOnly) {
		o["MediaTypes"] = []string{"DVD"}
	}
	if image != "" {
		o["Image"] = image
	}
	if v.faults.on(MediaNotConnected) {
		delete(o, "Inserted")
		o["ConnectedVia"] = "URI"
		if image == "" {
			o["ConnectedVia"], o["Image"] = "NotConnected", v.previousImage()
		}
	}
	if !v.faults.on(MediaByPatch) && name != "Slot_0" {
		o["Actions"] = object{
			"#VirtualMedia.InsertMedia": object{"target": path + insertAction},
			"#VirtualMedia.EjectMedia":  object{"target": path + ejectAction},
		}
	}
	return o
}

// copies is true while the BMC copies an image into a drive. It counts an occasion of MediaSlowInsert.
func (v *virtualMedia) copies(drive string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if drive != v.copying {
		return false
	}
	if v.media[drive] == "" || !v.faults.take(MediaSlowInsert) {
		v.copying = ""
	}
	return v.copying != ""
}

// insertSlowly starts the task that inserts an image.
func (v *virtualMedia) insertSlowly(drive, image string) {
	unreachable := v.faults.on(MediaUnreachable)
	if !unreachable {
		v.insert(drive, image)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.copying, v.unread = drive, ""; unreachable {
		v.copying, v.unread = "", image
	}
}

// task is the task that inserts an image.
func (v *virtualMedia) task() object {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.copying != "":
		return object{"TaskState": "Running"}
	case v.unread != "":
		return object{"TaskState": "Exception", "Messages": []object{{"Message": "The BMC cannot read " + v.unread}}}
	default:
		return object{"TaskState": "Completed"}
	}
}

func (v *virtualMedia) previousImage() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.lastImage
}

// reportedImage is the image that the BMC reports.
func (v *virtualMedia) reportedImage(drive string) string {
	image := v.imageIn(drive)
	previous := v.previousImage()
	switch {
	case drive != v.bootDrive() || previous == "":
	case image == "" && v.faults.take(MediaStaysInserted), image != "" && v.faults.take(MediaStaysStale):
		return previous
	}
	if u, err := url.Parse(image); image != "" && err == nil && v.faults.on(MediaRewritesURL) {
		return u.Scheme + "://" + u.Host
	}
	return image
}

// writeMedia handles a change of a virtual drive, with the path below the list of drives.
func (v *virtualMedia) writeMedia(w http.ResponseWriter, method, path string, body object) {
	drive, action, _ := strings.Cut(path, "/")
	image, _ := body["Image"].(string)
	byPatch := v.faults.on(MediaByPatch)
	request := method + " /" + action
	switch {
	case !slices.Contains(v.driveNames(), drive):
		refuse(w, http.StatusNotFound, "ResourceMissingAtURI", "There is no such drive")
	case image == "" && v.faults.take(EjectFails):
		refuse(w, http.StatusInternalServerError, "InternalError", "The virtual drive is locked")
	case request == "POST "+ejectAction && !byPatch, request == "PATCH /" && image == "" && byPatch:
		v.insert(drive, "")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(drive, "RDOC"):
		refuse(w, http.StatusBadRequest, "PropertyNotWritable", "The drive accepts no image")
	case strings.HasPrefix(drive, "Slot"), request != "POST "+insertAction && !byPatch, request != "PATCH /" && byPatch:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "Not allowed")
	default:
		v.insertChecked(w, drive, image, body)
	}
}

// insertChecked inserts an image unless an active fault, or an image in the drive, prevents that.
func (v *virtualMedia) insertChecked(w http.ResponseWriter, drive, image string, body object) {
	u, err := url.Parse(image)
	_, withInserted := body["Inserted"]
	_, withProtected := body["WriteProtected"]
	_, withProtocol := body["TransferProtocolType"]
	switch {
	case err != nil || !strings.HasPrefix(image, "http") || v.imageIn(drive) != "":
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The drive has an image already, or the URL is not that of an image")
	case v.faults.on(MediaUnlicensed):
		refuse(w, http.StatusForbidden, "LicenseKeyRequired", "A license key is required to use this operation or feature.")
	case v.faults.take(InsertFails):
		refuse(w, http.StatusServiceUnavailable, "InternalError", "The drive is busy with "+image)
	case v.faults.on(MediaImageOnly) && (withInserted || withProtected):
		refuse(w, http.StatusBadRequest, "ActionParameterUnknown", "Inserted and WriteProtected are unknown")
	case v.faults.on(MediaNeedsProtocol) && !withProtocol:
		refuse(w, http.StatusBadRequest, "ActionParameterMissing", "TransferProtocolType is required")
	case v.faults.on(MediaPlainURLs) && (strings.ContainsAny(image, "?=") || !strings.HasSuffix(u.Path, ".iso")):
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The value "+image+" of Image is not valid: cannot read "+u.Path)
	case v.faults.on(MediaNoHTTPS) && u.Scheme == "https":
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The protocol is not supported")
	case v.faults.on(MediaSlowInsert):
		v.insertSlowly(drive, image)
		w.Header().Set("Location", insertTask)
		w.WriteHeader(http.StatusAccepted)
	case v.faults.on(MediaUnreachable):
		w.WriteHeader(http.StatusAccepted)
	default:
		v.insert(drive, image)
		w.WriteHeader(http.StatusNoContent)
	}
}

// rememberURI stores the URI of an override.
func (b *bootOverride) rememberURI(uri string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if uri != "" || !b.faults.on(KeepsBootURI) {
		b.bootURI = uri
	}
}

// keepURI removes or replaces the URI of UEFI HTTP boot.
func (b *bootOverride) keepURI(w http.ResponseWriter, uri any) {
	text, isText := uri.(string)
	if !isText { // null is refused, as some do
		refuse(w, http.StatusBadRequest, "PropertyValueTypeError", "HttpBootUri must be a text")
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bootURI = text
	w.WriteHeader(http.StatusNoContent)
}

// BootURI returns the URI of UEFI HTTP boot that the Redfish BMC has stored, also without an override.
func (b *bootOverride) BootURI() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bootURI
}
