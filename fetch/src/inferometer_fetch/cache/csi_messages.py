"""The gRPC messages of a CSI node plugin: the Container Storage Interface, and its registration.

They are described field by field and built by the protobuf runtime, so that no generated code is
needed. Sources: csi.proto of github.com/container-storage-interface/spec (CSI 1.x), and
pluginregistration/v1/api.proto of k8s.io/kubelet.
"""

from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, wrappers_pb2
from google.protobuf.message import Message

_Field = descriptor_pb2.FieldDescriptorProto
_STRINGS = "map<string, string>"
_LIST = "repeated string"
_TYPES = {"string": _Field.TYPE_STRING, "bool": _Field.TYPE_BOOL, "int64": _Field.TYPE_INT64}

_CSI: dict[str, dict[str, tuple[int, str]]] = {
    "GetPluginInfoRequest": {},
    "GetPluginInfoResponse": {"name": (1, "string"), "vendor_version": (2, "string")},
    "GetPluginCapabilitiesRequest": {},
    "GetPluginCapabilitiesResponse": {},
    "ProbeRequest": {},
    "ProbeResponse": {"ready": (1, ".google.protobuf.BoolValue")},
    "BlockVolume": {},
    "MountVolume": {"fs_type": (1, "string")},
    "VolumeCapability": {"block": (1, ".csi.v1.BlockVolume"), "mount": (2, ".csi.v1.MountVolume")},
    "NodePublishVolumeRequest": {
        "volume_id": (1, "string"),
        "target_path": (4, "string"),
        "volume_capability": (5, ".csi.v1.VolumeCapability"),
        "readonly": (6, "bool"),
        "secrets": (7, _STRINGS),
        "volume_context": (8, _STRINGS),
    },
    "NodePublishVolumeResponse": {},
    "NodeUnpublishVolumeRequest": {"volume_id": (1, "string"), "target_path": (2, "string")},
    "NodeUnpublishVolumeResponse": {},
    "NodeGetCapabilitiesRequest": {},
    "NodeGetCapabilitiesResponse": {},
    "NodeGetInfoRequest": {},
    "NodeGetInfoResponse": {"node_id": (1, "string"), "max_volumes_per_node": (2, "int64")},
}
"""Fields by message: number and type. The rest of CSI's fields are not read."""
_REGISTRATION: dict[str, dict[str, tuple[int, str]]] = {
    "InfoRequest": {},
    "PluginInfo": {
        "type": (1, "string"),
        "name": (2, "string"),
        "endpoint": (3, "string"),
        "supported_versions": (4, _LIST),
    },
    "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
    "RegistrationStatusResponse": {},
}


def _file(
    package: str, messages: dict[str, dict[str, tuple[int, str]]]
) -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    file.dependency.append(wrappers_pb2.DESCRIPTOR.name)
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind)
    return file


def _add_field(message: descriptor_pb2.DescriptorProto, name: str, number: int, kind: str) -> None:
    label = _Field.LABEL_OPTIONAL
    if kind == _STRINGS:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        _add_field(entry, "key", 1, "string")
        _add_field(entry, "value", 2, "string")
        kind, label = f".csi.v1.{message.name}.{entry.name}", _Field.LABEL_REPEATED
    if kind == _LIST:
        kind, label = "string", _Field.LABEL_REPEATED
    field = message.field.add(name=name, number=number, label=label)
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, kind


_pool = descriptor_pool.DescriptorPool()
_pool.AddSerializedFile(wrappers_pb2.DESCRIPTOR.serialized_pb)
_pool.AddSerializedFile(_file("csi.v1", _CSI).SerializeToString())
_pool.AddSerializedFile(_file("pluginregistration", _REGISTRATION).SerializeToString())


def message_class(name: str) -> Any:
    """Return the class of a message: "NodePublishVolumeRequest"."""
    package = "csi.v1" if name in _CSI else "pluginregistration"
    found: type[Message] = message_factory.GetMessageClass(
        _pool.FindMessageTypeByName(f"{package}.{name}")
    )
    return found


Methods: TypeAlias = dict[str, tuple[str, str]]
"""Names of request and response by method."""


def _alike(*methods: str) -> Methods:
    return {each: (f"{each}Request", f"{each}Response") for each in methods}


CSI_SERVICES: dict[str, Methods] = {
    "csi.v1.Identity": _alike("GetPluginInfo", "GetPluginCapabilities", "Probe"),
    "csi.v1.Node": _alike(
        "NodePublishVolume", "NodeUnpublishVolume", "NodeGetCapabilities", "NodeGetInfo"
    ),
}
REGISTRATION_SERVICE: dict[str, Methods] = {
    "pluginregistration.Registration": {
        "GetInfo": ("InfoRequest", "PluginInfo"),
        "NotifyRegistrationStatus": ("RegistrationStatus", "RegistrationStatusResponse"),
    }
}
