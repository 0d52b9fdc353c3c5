package bmctest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
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

// driveNames are the names of the virtual drives. The last one boots.
func (m *Machine) driveNames() []string {
	switch {
	case m.faults.on(MediaTwoDrives):
		return []string{"2", "1"}
	case m.faults.on(MediaDecoyDrives):
		return append(slices.Clone(decoyDrives), "CD")
	default:
		return []string{"CD"}
	}
}

func (m *Machine) bootDrive() string {
	names := m.driveNames()
	return names[len(names)-1]
}

func (m *Machine) driveList(path string) object {
	var paths []string
	for _, name := range m.driveNames() {
		paths = append(paths, path+"/"+name)
	}
	return collection(paths...)
}

// drive is the resource of a virtual drive.
func (m *Machine) drive(path, name string) object {
	if !slices.Contains(m.driveNames(), name) {
		return nil
	}
	image := m.reportedImage(name)
	o := object{"MediaTypes": []string{"CD", "DVD"}, "Inserted": image != "" && !m.copies(name), "Image": nil}
	if m.faults.on(MediaDVDOnly) {
		o["MediaTypes"] = []string{"DVD"}
	}
	if image != "" {
		o["Image"] = image
	}
	if m.faults.on(MediaNotConnected) {
		delete(o, "Inserted")
		o["ConnectedVia"] = "URI"
		if image == "" {
			o["ConnectedVia"], o["Image"] = "NotConnected", m.previousImage()
		}
	}
	if !m.faults.on(MediaByPatch) && name != "Slot_0" {
		o["Actions"] = object{
			"#VirtualMedia.InsertMedia": object{"target": path + insertAction},
			"#VirtualMedia.EjectMedia":  object{"target": path + ejectAction},
		}
	}
	return o
}

// copies is true while the BMC copies an image into a drive. It counts an occasion of MediaSlowInsert.
func (m *Machine) copies(drive string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if drive != m.copying {
		return false
	}
	if m.media[drive] == "" || !m.faults.take(MediaSlowInsert) {
		m.copying = ""
	}
	return m.copying != ""
}

// insertSlowly starts the task that inserts an image.
func (m *Machine) insertSlowly(drive, image string) {
	unreachable := m.faults.on(MediaUnreachable)
	if !unreachable {
		m.insert(drive, image)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.copying, m.unread = drive, ""; unreachable {
		m.copying, m.unread = "", image
	}
}

// task is the task that inserts an image.
func (m *Machine) task() object {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.copying != "":
		return object{"TaskState": "Running"}
	case m.unread != "":
		return object{"TaskState": "Exception", "Messages": []object{{"Message": "The BMC cannot read " + m.unread}}}
	default:
		return object{"TaskState": "Completed"}
	}
}

func (m *Machine) previousImage() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastImage
}

// reportedImage is the image that the BMC reports.
func (m *Machine) reportedImage(drive string) string {
	image := m.imageIn(drive)
	previous := m.previousImage()
	switch {
	case drive != m.bootDrive() || previous == "":
	case image == "" && m.faults.take(MediaStaysInserted), image != "" && m.faults.take(MediaStaysStale):
		return previous
	}
	if u, err := url.Parse(image); image != "" && err == nil && m.faults.on(MediaRewritesURL) {
		return u.Scheme + "://" + u.Host
	}
	return image
}

// writeMedia handles a change of a virtual drive, with the path below the list of drives.
func (m *Machine) writeMedia(w http.ResponseWriter, method, path string, body object) {
	drive, action, _ := strings.Cut(path, "/")
	image, _ := body["Image"].(string)
	byPatch := m.faults.on(MediaByPatch)
	request := method + " /" + action
	switch {
	case !slices.Contains(m.driveNames(), drive):
		refuse(w, http.StatusNotFound, "ResourceMissingAtURI", "There is no such drive")
	case image == "" && m.faults.take(EjectFails):
		refuse(w, http.StatusInternalServerError, "InternalError", "The virtual drive is locked")
	case request == "POST "+ejectAction && !byPatch, request == "PATCH /" && image == "" && byPatch:
		m.insert(drive, "")
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(drive, "RDOC"):
		refuse(w, http.StatusBadRequest, "PropertyNotWritable", "The drive accepts no image")
	case strings.HasPrefix(drive, "Slot"), request != "POST "+insertAction && !byPatch, request != "PATCH /" && byPatch:
		refuse(w, http.StatusMethodNotAllowed, "OperationNotAllowed", "Not allowed")
	default:
		m.insertChecked(w, drive, image, body)
	}
}

// insertChecked inserts an image unless an active fault, or an image in the drive, prevents that.
func (m *Machine) insertChecked(w http.ResponseWriter, drive, image string, body object) {
	u, err := url.Parse(image)
	_, withInserted := body["Inserted"]
	_, withProtected := body["WriteProtected"]
	_, withProtocol := body["TransferProtocolType"]
	switch {
	case err != nil || !strings.HasPrefix(image, "http") || m.imageIn(drive) != "":
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The drive has an image already, or the URL is not that of an image")
	case m.faults.on(MediaUnlicensed):
		refuse(w, http.StatusForbidden, "LicenseKeyRequired", "A license key is required to use this operation or feature.")
	case m.faults.take(InsertFails):
		refuse(w, http.StatusServiceUnavailable, "InternalError", "The drive is busy with "+image)
	case m.faults.on(MediaImageOnly) && (withInserted || withProtected):
		refuse(w, http.StatusBadRequest, "ActionParameterUnknown", "Inserted and WriteProtected are unknown")
	case m.faults.on(MediaNeedsProtocol) && !withProtocol:
		refuse(w, http.StatusBadRequest, "ActionParameterMissing", "TransferProtocolType is required")
	case m.faults.on(MediaPlainURLs) && (strings.ContainsAny(image, "?=") || !strings.HasSuffix(u.Path, ".iso")):
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The value "+image+" of Image is not valid: cannot read "+u.Path)
	case m.faults.on(MediaNoHTTPS) && u.Scheme == "https":
		refuse(w, http.StatusBadRequest, "ActionParameterValueFormatError", "The protocol is not supported")
	case m.faults.on(MediaSlowInsert):
		m.insertSlowly(drive, image)
		w.Header().Set("Location", insertTask)
		w.WriteHeader(http.StatusAccepted)
	case m.faults.on(MediaUnreachable):
		w.WriteHeader(http.StatusAccepted)
	default:
		m.insert(drive, image)
		w.WriteHeader(http.StatusNoContent)
	}
}

// rememberURI stores the URI of an override.
func (m *Machine) rememberURI(uri string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if uri != "" || !m.faults.on(KeepsBootURI) {
		m.bootURI = uri
	}
}

// keepURI removes or replaces the URI of UEFI HTTP boot.
func (m *Machine) keepURI(w http.ResponseWriter, uri any) {
	text, isText := uri.(string)
	if !isText { // null is refused, as some do
		refuse(w, http.StatusBadRequest, "PropertyValueTypeError", "HttpBootUri must be a text")
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bootURI = text
	w.WriteHeader(http.StatusNoContent)
}

// BootURI returns the URI of UEFI HTTP boot that the Redfish BMC has stored, also without an override.
func (m *Machine) BootURI() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bootURI
}
