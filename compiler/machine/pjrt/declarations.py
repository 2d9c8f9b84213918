"""The PJRT C API as far as weft has it: the functions in the order of their table, the structures
of their arguments, and weft's own structures behind the API's opaque pointers.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from msgspec import Struct

MAJOR: Final = 0
MINOR: Final = 100
"""The version that the plugin speaks; callers of later ones read no function behind it."""

API: Final = "GetPjrtApi"
ERROR: Final = "weft_pjrt_error"
SET_COPY: Final = "weft_pjrt_set_copy"
"""What the plugin exports: the table, what makes an error, and where Python's copy of strided
elements is noted.
"""

TABLE_OFFSET: Final = 40
"""Of the first function in the table, behind its size, extensions and version."""

_TYPES: Final[dict[str, tuple[Any, str]]] = {
    "p": (ctypes.c_void_p, "ptr"),
    "q": (ctypes.c_int64, "i64"),
    "i": (ctypes.c_int32, "i32"),
    "b": (ctypes.c_uint8, "i8"),
}
"""Letters of types: pointers, integers of 64 and 32 bits, and bytes, for ctypes and LLVM."""

_FUNCTIONS: Final = """
Error_Destroy Error_Message Error_GetCode Plugin_Initialize Plugin_Attributes Event_Destroy
Event_IsReady Event_Error Event_Await Event_OnReady Client_Create Client_Destroy
Client_PlatformName Client_ProcessIndex Client_PlatformVersion Client_Devices
Client_AddressableDevices Client_LookupDevice Client_LookupAddressableDevice
Client_AddressableMemories Client_Compile Client_DefaultDeviceAssignment
Client_BufferFromHostBuffer DeviceDescription_Id DeviceDescription_ProcessIndex
DeviceDescription_Attributes DeviceDescription_Kind DeviceDescription_DebugString
DeviceDescription_ToString Device_GetDescription Device_IsAddressable Device_LocalHardwareId
Device_AddressableMemories Device_DefaultMemory Device_MemoryStats Memory_Id Memory_Kind
Memory_DebugString Memory_ToString Memory_AddressableByDevices Executable_Destroy Executable_Name
Executable_NumReplicas Executable_NumPartitions Executable_NumOutputs
Executable_SizeOfGeneratedCodeInBytes Executable_GetCostAnalysis Executable_OutputMemoryKinds
Executable_OptimizedProgram Executable_Serialize LoadedExecutable_Destroy
LoadedExecutable_GetExecutable LoadedExecutable_AddressableDevices LoadedExecutable_Delete
LoadedExecutable_IsDeleted LoadedExecutable_Execute Executable_DeserializeAndLoad
LoadedExecutable_Fingerprint Buffer_Destroy Buffer_ElementType Buffer_Dimensions
Buffer_UnpaddedDimensions Buffer_DynamicDimensionIndices Buffer_GetMemoryLayout
Buffer_OnDeviceSizeInBytes Buffer_Device Buffer_Memory Buffer_Delete Buffer_IsDeleted
Buffer_CopyToDevice Buffer_ToHostBuffer Buffer_IsOnCpu Buffer_ReadyEvent Buffer_UnsafePointer
Buffer_IncreaseExternalReferenceCount Buffer_DecreaseExternalReferenceCount
Buffer_OpaqueDeviceMemoryDataPointer CopyToDeviceStream_Destroy CopyToDeviceStream_AddChunk
CopyToDeviceStream_TotalBytes CopyToDeviceStream_GranuleSize CopyToDeviceStream_CurrentBytes
TopologyDescription_Create TopologyDescription_Destroy TopologyDescription_PlatformName
TopologyDescription_PlatformVersion TopologyDescription_GetDeviceDescriptions
TopologyDescription_Serialize TopologyDescription_Attributes Compile Executable_OutputElementTypes
Executable_OutputDimensions Buffer_CopyToMemory Client_CreateViewOfDeviceBuffer
Executable_Fingerprint Client_TopologyDescription Executable_GetCompiledMemoryStats Memory_Kind_Id
ExecuteContext_Create ExecuteContext_Destroy Buffer_CopyRawToHost
AsyncHostToDeviceTransferManager_Destroy AsyncHostToDeviceTransferManager_TransferData
Client_CreateBuffersForAsyncHostToDevice AsyncHostToDeviceTransferManager_RetrieveBuffer
AsyncHostToDeviceTransferManager_Device AsyncHostToDeviceTransferManager_BufferCount
AsyncHostToDeviceTransferManager_BufferSize AsyncHostToDeviceTransferManager_SetBufferError
AsyncHostToDeviceTransferManager_AddMetadata Client_DmaMap Client_DmaUnmap
Client_CreateUninitializedBuffer Client_UpdateGlobalProcessInfo TopologyDescription_Deserialize
Client_CreateAliasBuffer Client_FulfillAliasBuffer LoadedExecutable_GetDeviceAssignment
Client_CreateErrorBuffer AsyncHostToDeviceTransferManager_TransferLiteral
Buffer_CopyRawToHostFuture Device_PoisonExecution Device_CreateAsyncTrackingEvent
AsyncTrackingEvent_Destroy Executable_GetCompileOptions Buffer_DonateWithControlDependency
Event_Create Event_Set Device_GetAttributes Client_Load
LoadedExecutable_AddressableDeviceLogicalIds Buffer_Bitcast Error_ForEachPayload
TopologyDescription_Fingerprint Executable_ParameterMemoryKinds Device_ClearMemoryStats
TopologyDescription_MakeCanonicalShapeForMemorySpace TopologyDescription_GetMemorySpaceKindIds
"""

FUNCTIONS: Final = tuple(_FUNCTIONS.split())
"""In the order of the table `PJRT_Api`."""

_ARGUMENTS: Final = """
Error_Destroy error:p
Error_Message error:p message:p message_size:q
Error_GetCode error:p code:i
Plugin_Attributes attributes:p num_attributes:q
Event_IsReady event:p is_ready:b
Event_OnReady event:p callback:p user_arg:p
Client_Create options:p num_options:q get:p get_arg:p put:p put_arg:p client:p
Client_PlatformName client:p platform_name:p platform_name_size:q
Client_ProcessIndex client:p process_index:i
Client_PlatformVersion client:p platform_version:p platform_version_size:q
Client_Devices client:p devices:p num_devices:q
Client_AddressableDevices client:p devices:p num_devices:q
Client_LookupDevice client:p id:i device:p
Client_LookupAddressableDevice client:p id:i device:p
Client_AddressableMemories client:p memories:p num_memories:q
Client_Compile client:p program:p options:p options_size:q executable:p
Client_DefaultDeviceAssignment client:p num_replicas:i num_partitions:i size:q assignment:p
Client_BufferFromHostBuffer client:p data:p type:i dims:p num_dims:q strides:p num_strides:q \
semantics:i device:p memory:p layout:p done:p buffer:p
Client_CreateViewOfDeviceBuffer client:p data:p dims:p num_dims:q type:i layout:p device:p \
on_delete:p on_delete_arg:p stream:q buffer:p memory:p
Client_TopologyDescription client:p topology:p
DeviceDescription_Id device:p id:i
DeviceDescription_ProcessIndex device:p process_index:i
DeviceDescription_Attributes device:p num_attributes:q attributes:p
DeviceDescription_Kind device:p device_kind:p device_kind_size:q
DeviceDescription_DebugString device:p debug_string:p debug_string_size:q
DeviceDescription_ToString device:p debug_string:p debug_string_size:q
Device_GetDescription device:p description:p
Device_GetAttributes device:p attributes:p num_attributes:q holder:p deleter:p
Device_IsAddressable device:p is_addressable:b
Device_LocalHardwareId device:p id:i
Device_AddressableMemories device:p memories:p num_memories:q
Device_DefaultMemory device:p memory:p
Memory_Id memory:p id:i
Memory_Kind memory:p memory_kind:p memory_kind_size:q
Memory_Kind_Id memory:p id:i
Memory_DebugString memory:p debug_string:p debug_string_size:q
Memory_ToString memory:p debug_string:p debug_string_size:q
Memory_AddressableByDevices memory:p devices:p num_devices:q
Executable_Destroy executable:p
Executable_Name executable:p name:p name_size:q
Executable_NumReplicas executable:p one:q
Executable_NumPartitions executable:p one:q
Executable_NumOutputs executable:p num_outputs:q
Executable_SizeOfGeneratedCodeInBytes executable:p code_size:q
Executable_GetCostAnalysis executable:p num_properties:q properties:p
Executable_OutputMemoryKinds executable:p num_outputs:q output_kinds:p output_kind_sizes:p
Executable_ParameterMemoryKinds executable:p num_inputs:q input_kinds:p input_kind_sizes:p
Executable_OptimizedProgram executable:p program:p
Executable_Serialize executable:p bytes:p bytes_size:q holder:p deleter:p
Executable_DeserializeAndLoad client:p bytes:p bytes_size:q executable:p options:p options_size:q
Executable_OutputElementTypes executable:p output_types:p num_outputs:q
Executable_OutputDimensions executable:p num_outputs:q output_dims:p output_ranks:p
Executable_Fingerprint executable:p fingerprint:p fingerprint_size:q
LoadedExecutable_Fingerprint executable:p fingerprint:p fingerprint_size:q
LoadedExecutable_Destroy executable:p
LoadedExecutable_Delete executable:p
LoadedExecutable_GetExecutable executable:p itself:p
LoadedExecutable_AddressableDevices executable:p devices:p num_devices:q
LoadedExecutable_AddressableDeviceLogicalIds executable:p logical_ids:p num_devices:q
LoadedExecutable_GetDeviceAssignment executable:p bytes:p bytes_size:q holder:p deleter:p
LoadedExecutable_IsDeleted executable:p is_deleted:b
LoadedExecutable_Execute executable:p options:p argument_lists:p num_devices:q num_args:q \
output_lists:p events:p device:p
Buffer_Destroy buffer:p
Buffer_ElementType buffer:p type:i
Buffer_Dimensions buffer:p dims:p num_dims:q
Buffer_UnpaddedDimensions buffer:p dims:p num_dims:q
Buffer_DynamicDimensionIndices buffer:p nothing:p num_nothing:q
Buffer_GetMemoryLayout buffer:p layout_size:q layout_extensions:p tiled_size:q tiled_extensions:p \
minor_to_major:p rank:q tiles:p tile_sizes:p num_tiles:q layout_type:i
Buffer_OnDeviceSizeInBytes buffer:p size:q
Buffer_Device buffer:p device:p
Buffer_Memory buffer:p memory:p
Buffer_Delete buffer:p
Buffer_IsDeleted buffer:p is_deleted:b
Buffer_CopyToDevice buffer:p device:p copy:p
Buffer_CopyToMemory buffer:p memory:p copy:p
Buffer_ToHostBuffer buffer:p layout:p data:p size:q event:p
Buffer_CopyRawToHost buffer:p data:p offset:q size:q event:p
Buffer_IsOnCpu buffer:p is_on_cpu:b
Buffer_ReadyEvent buffer:p event:p
Buffer_UnsafePointer buffer:p data:p
Buffer_OpaqueDeviceMemoryDataPointer buffer:p data:p
Buffer_IncreaseExternalReferenceCount buffer:p
Buffer_DecreaseExternalReferenceCount buffer:p
TopologyDescription_PlatformName topology:p platform_name:p platform_name_size:q
TopologyDescription_PlatformVersion topology:p platform_version:p platform_version_size:q
TopologyDescription_GetDeviceDescriptions topology:p devices:p num_devices:q
TopologyDescription_Attributes topology:p attributes:p num_attributes:q
ExecuteContext_Create context:p
"""
"""The arguments of functions, behind the size of their structure and a chain of extensions. Those
that read a member of an object have the member's name.
"""

_OBJECTS: Final = """
Error code:i message:p message_size:q
Client platform_name:p platform_name_size:q process_index:i platform_version:p \
platform_version_size:q devices:p num_devices:q memories:p num_memories:q topology:p \
device:p attributes:p num_attributes:q
Device id:i process_index:i num_attributes:q attributes:p device_kind:p device_kind_size:q \
debug_string:p debug_string_size:q description:p is_addressable:b memories:p num_memories:q memory:p
Memory id:i memory_kind:p memory_kind_size:q debug_string:p debug_string_size:q devices:p \
num_devices:q
Executable references:q is_deleted:b name:p name_size:q one:q num_inputs:q num_outputs:q \
code_size:q num_properties:q properties:p output_kinds:p output_kind_sizes:p input_kinds:p \
input_kind_sizes:p output_types:p output_dims:p output_ranks:p output_sizes:p donors:p \
fingerprint:p fingerprint_size:q itself:p devices:p num_devices:q logical_ids:p device:p memory:p \
context:p run:p workspace_size:q workspace:p fail:p
Buffer is_deleted:b is_on_cpu:b type:i external:q data:p size:q num_dims:q dims:p nothing:p \
num_nothing:q device:p memory:p on_delete:p on_delete_arg:p
Program struct_size:q extensions:p code:p code_size:q format:p format_size:q
NamedValue struct_size:q extensions:p name:p name_size:q type:i value:p value_size:q
ExecuteOptions struct_size:q extensions:p send:p receive:p num_send:q num_receive:q launch:i \
kept:p num_kept:q
HostLayout struct_size:q extensions:p tiled_size:q tiled_extensions:p minor_to_major:p rank:q \
tiles:p tile_sizes:p num_tiles:q layout_type:i
"""
"""What pointers of the API point to: structures of weft's own, and in the last lines the API's."""


class Layout(Struct, frozen=True):
    """A structure as ctypes has it, and the LLVM types of its members."""

    structure: Any
    types: dict[str, str]

    @property
    def size(self) -> int:
        """The bytes of the whole."""
        return ctypes.sizeof(self.structure)

    def offset(self, member: str) -> int:
        """The bytes before a member."""
        return getattr(self.structure, member).offset


def _layouts(text: str, *header: tuple[str, Any]) -> dict[str, Layout]:
    found: dict[str, Layout] = {}
    for line in text.strip().splitlines():
        name, *members = line.split()
        pairs = [member.split(":") for member in members]
        fields = [*header, *((member, _TYPES[letter][0]) for member, letter in pairs)]
        structure = type(name, (ctypes.Structure,), {"_fields_": fields})
        found[name] = Layout(structure, {member: _TYPES[letter][1] for member, letter in pairs})
    return found


ARGUMENTS: Final = _layouts(
    _ARGUMENTS, ("struct_size", ctypes.c_size_t), ("extensions", ctypes.c_void_p)
)
"""The structures of arguments, by function."""

OBJECTS: Final = _layouts(_OBJECTS)
"""The structures behind pointers, by name."""

_READERS: Final = """
Client Client PlatformName ProcessIndex PlatformVersion Devices AddressableDevices \
AddressableMemories TopologyDescription LookupDevice LookupAddressableDevice
Client TopologyDescription PlatformName PlatformVersion GetDeviceDescriptions Attributes
Device DeviceDescription Id ProcessIndex Attributes Kind DebugString ToString
Device Device GetDescription IsAddressable LocalHardwareId AddressableMemories DefaultMemory
Memory Memory Id Kind Kind_Id DebugString ToString AddressableByDevices
Executable Executable Name NumReplicas NumPartitions NumOutputs SizeOfGeneratedCodeInBytes \
GetCostAnalysis OutputMemoryKinds ParameterMemoryKinds OutputElementTypes OutputDimensions \
Fingerprint
Executable LoadedExecutable Fingerprint AddressableDevices AddressableDeviceLogicalIds IsDeleted
Buffer Buffer ElementType Dimensions UnpaddedDimensions DynamicDimensionIndices \
OnDeviceSizeInBytes Device Memory IsDeleted IsOnCpu UnsafePointer OpaqueDeviceMemoryDataPointer
"""


def _readers() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in _READERS.strip().splitlines():
        owner, prefix, *names = line.split()
        found |= {f"{prefix}_{name}": owner for name in names}
    return found


READERS: Final = _readers()
"""The functions that read members of the object that they are given, and whose they are."""
