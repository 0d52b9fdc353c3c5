"""Runs cloud-init's own code on what we serve, and prints as JSON what it made of it.

seed CMDLINE                reads a seed as the datasource does in the network stage of a boot with that kernel command line
partition FOLDER             reads a partition whose files are in FOLDER/files and whose label is in FOLDER/label, as the datasources of local disks do
script CONFIG                prints the script that cloud-init makes of the commands in runcmd of a cloud-config
convert FOLDER              renders the network-config files *.yaml of a folder with every renderer, into folders beside them
"""
import contextlib
import copy
import glob
import io
import json
import os
import sys
import tempfile

from cloudinit import helpers, settings, user_data, util
from cloudinit.cmd.main import main as cloud_init
from cloudinit.distros import debian
from cloudinit.net import cmdline
from cloudinit.net import netplan, network_state
from cloudinit.sources import DataSourceConfigDrive, DataSourceNoCloud


def parts(paths, raw):
    return [
        {"type": part.get_content_type(), "filename": part.get_filename(), "content": part.get_payload(decode=True).decode()}
        for part in user_data.UserDataProcessor(paths).process(raw).walk()
        if part.get_content_maintype() != "multipart"
    ]


def seed(line):
    os.environ["DEBUG_PROC_CMDLINE"] = line
    # What a machine says of itself is not asked: it is not the one that boots.
    DataSourceNoCloud.dmi.read_dmi_data = lambda key: None
    util.find_devs_with = lambda criteria: []
    with tempfile.TemporaryDirectory() as folder:
        paths = helpers.Paths({"cloud_dir": folder, "run_dir": folder})
        source = DataSourceNoCloud.DataSourceNoCloudNet(settings.CFG_BUILTIN, None, paths)
        local = DataSourceNoCloud.DataSourceNoCloud(settings.CFG_BUILTIN, None, paths)
        found_locally = local.get_data()
        if not source.get_data():
            sys.exit("the datasource finds no seed")
        vendor = parts(paths, source.get_vendordata_raw())
        user = parts(paths, source.get_userdata_raw())
    print(json.dumps({
        "local": found_locally,
        "dsmode": source.dsmode,
        "instance": source.get_instance_id(),
        "hostname": source.get_hostname()[0] if isinstance(source.get_hostname(), tuple) else str(source.get_hostname()),
        "metadata": source.metadata,
        "userdata": util.encode_text(source.get_userdata_raw()).decode(errors="replace"),
        "vendor": vendor,
        "user": user,
        "network": cmdline.read_kernel_cmdline_config(),
    }))


def convert(folder):
    failures = {}
    paths = copy.deepcopy(debian.Distro.renderer_configs)
    for path in sorted(glob.glob(folder + "/*.yaml")):
        for kind in ["netplan", "network-manager", "eni", "networkd"]:
            out = path[: -len(".yaml")] + "." + kind
            said = io.StringIO()
            # The tool is made to run once in a process: it shortens the paths that it renders to.
            debian.Distro.renderer_configs = copy.deepcopy(paths)
            try:
                with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                    sys.argv = ["cloud-init", "devel", "net-convert", "-p", path, "-k", "yaml", "-d", out, "-D", "debian", "-O", kind]
                    code = cloud_init()
            except (Exception, SystemExit) as problem:  # whatever it is, the caller is told
                code = repr(problem)
            if code:
                failures[out] = str(code) + ": " + said.getvalue()
    print(json.dumps(failures))


def partition(folder):
    with open(folder + "/label") as file:
        label = file.read()
    os.environ["DEBUG_PROC_CMDLINE"] = "root=LABEL=root"
    DataSourceNoCloud.dmi.read_dmi_data = lambda key: None
    # Neither devices nor mounts of this machine are used.
    util.find_devs_with = lambda criteria="", path=None, **_: ["/dev/vda9"] if criteria in ("TYPE=vfat", "LABEL=" + label) else []
    util.mount_cb = lambda device, callback, data=None, **_: callback(folder + "/files", data) if data else callback(folder + "/files")
    for module in (DataSourceConfigDrive, DataSourceNoCloud):
        for kind in (name for name in dir(module) if name in ("DataSourceConfigDrive", "DataSourceNoCloud")):
            with tempfile.TemporaryDirectory() as cloud:
                paths = helpers.Paths({"cloud_dir": cloud, "run_dir": cloud})
                config = {"datasource_list": ["NoCloud", "ConfigDrive"], **settings.CFG_BUILTIN}
                source = getattr(module, kind)(config, debian.Distro("debian", config, paths), paths)
                if not source.get_data():
                    continue
                vendor = parts(paths, source.get_vendordata_raw())
                user = parts(paths, source.get_userdata_raw())
            network = source.network_config
            print(json.dumps({
                "kind": kind,
                "dsmode": source.dsmode,
                "instance": source.get_instance_id(),
                "hostname": source.get_hostname()[0] if isinstance(source.get_hostname(), tuple) else str(source.get_hostname()),
                "metadata": source.metadata,
                "userdata": util.encode_text(source.get_userdata_raw()).decode(errors="replace"),
                "vendor": vendor,
                "user": user,
                "network": network,
                "netplan": util.load_yaml(netplan.Renderer()._render_content(network_state.parse_net_config_data(network))) if network else None,
            }))
            return
    sys.exit("no datasource reads the partition")


def script(path):
    with open(path) as config:
        print(json.dumps(util.shellify(util.load_yaml(config.read())["runcmd"])))


{"seed": seed, "convert": convert, "partition": partition, "script": script}[sys.argv[1]](sys.argv[2])
