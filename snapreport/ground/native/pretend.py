"""Puts a CUDA device that does nothing into a PyTorch without one, as long as a forecast runs.

PyTorch asks a backend through C++ objects: a device guard, which lies in a table of libc10, and
CUDA's hooks. Both are tables of virtual functions. Their order is read from the headers that every
PyTorch carries, the tables are copied, and functions of our own (pretend.c) are put in. So nothing
is compiled on the user's machine, and everything can be taken back.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snapreport.ground.errors import RecordingError
from snapreport.ground.native.library import library

_CPU, _CUDA = 0, 1
"""Places in the table of guards: ``c10::DeviceType``."""
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"
_CPU_ALLOCATOR = "_ZN3c1015GetCPUAllocatorEv"
_HOOKS = "_ZN2at6detail12getCUDAHooksEv"

_GUARD = ("c10/core/impl/DeviceGuardImplInterface.h", "DeviceGuardImplInterface")
_BASE_HOOKS = ("ATen/detail/AcceleratorHooksInterface.h", "AcceleratorHooksInterface")
_CUDA_HOOKS = ("ATen/detail/CUDAHooksInterface.h", "CUDAHooksInterface")

_GUARDED = (
    *("type", "exchangeDevice", "getDevice", "setDevice", "uncheckedSetDevice", "getStream"),
    *("getDefaultStream", "getStreamFromGlobalPool", "getNewStream", "exchangeStream"),
    *("getStreamNativeHandle", "destroyEvent", "record", "block", "queryEvent", "deviceCount"),
    *("queryStream", "synchronizeStream", "isStreamCapturing", "synchronizeEvent"),
    *("synchronizeDevice", "recordDataPtrOnStream", "elapsedTime"),
)
_NEEDED = frozenset(["type", "getDevice", "setDevice", "getStream", "exchangeStream", "record"])
_HOOKED = {
    **dict.fromkeys(
        (
            *("hasCUDA", "isBuilt", "isAvailable", "hasCUDART", "hasMAGMA", "hasCuSOLVER"),
            *("hasCuBLASLt", "hasCuDNN", "compiledWithCuDNN"),
            *("supportsDilatedConvolutionWithCuDNN", "supportsDepthwiseConvolutionWithCuDNN"),
            *("supportsBFloat16ConvolutionWithCuDNNv8", "supportsBFloat16RNNWithCuDNN"),
        ),
        "yes",
    ),
    **dict.fromkeys(("cuFFTGetPlanCacheMaxSize", "cuFFTGetPlanCacheSize"), "none"),
    **dict.fromkeys(("cuFFTSetPlanCacheMaxSize", "cuFFTClearPlanCache"), "none"),
    **{
        name: name
        for name in (
            *("hasPrimaryContext", "init", "deviceCount", "getNumGPUs", "getCurrentDevice"),
            *("setCurrentDevice", "exchangeDevice", "maybeExchangeDevice", "deviceSynchronize"),
            *("isPinnedPtr", "batchnormMinEpsilonCuDNN", "versionCUDART", "getDeviceFromPtr"),
        )
    },
    "current_device": "getCurrentDevice",
    **dict.fromkeys(("versionCuDNN", "versionRuntimeCuDNN"), "versionCuDNN"),
    "maybeExchangeDevice": "exchangeDevice",
}

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ATTRIBUTE = re.compile(r"\[\[[^\[\]]{0,200}\]\]")
_ROCM = re.compile(r"^# {0,4}if(?:def| +defined\()[ (]{0,2}USE_ROCM", re.MULTILINE)
"""Where what only builds for AMD have begins; up to the next ``#endif``."""
_VIRTUAL = re.compile(r"\bvirtual\b[^(;{]*?(~?\w+)\s*\(", re.DOTALL)
_CLASS = re.compile(r"\b(?:struct|class)\b([^;{}]{0,200})\{")
_DESTRUCTOR_SLOTS = 2
"""Itanium C++ ABI, 2.5.1: the complete object destructor, then the deleting one."""


def slots_of(text: str, name: str, before: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the virtual functions of a class in the order of its table.

    Args:
        text: of the header that defines it.
        name: of the class.
        before: those of the class that it is derived from.

    Raises:
        RecordingError: the class is not there.
    """
    text = _ATTRIBUTE.sub("", _COMMENT.sub("", text))
    while (amd := _ROCM.search(text)) is not None:
        text = text[: amd.start()] + text[amd.start() :].partition("#endif")[2]
    begin = next((each for each in _CLASS.finditer(text) if name in each[1].split()), None)
    if begin is None:
        raise RecordingError(f"PyTorch's headers have no {name}; this version is not supported.")
    depth, at, body = 1, begin.end(), []
    while depth and at < len(text):
        letter = text[at]
        depth += (letter == "{") - (letter == "}")
        body.append(letter if depth == 1 else " ")
        at += 1
    slots = list(before)
    for each in _VIRTUAL.finditer("".join(body)):
        if each[1].startswith("~"):
            if "~" not in slots:
                slots += ["~"] * _DESTRUCTOR_SLOTS
        elif each[1] not in before:
            slots.append(each[1])
    return tuple(slots)


_IN_STORAGE = (16, 48)
"""Where a storage has its data pointer and its size: behind the table of functions and the counts
of references; and behind the pointer, its context and deleter, and the device. Source:
c10/core/StorageImpl.h, UniqueVoidPtr.h."""
_left_behind: list[Pretended] = []
"""Whose guard is still in PyTorch's table, and must not be freed."""
_FREED = ctypes.CFUNCTYPE(None, ctypes.c_int64)
_PYTHON = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_Fetch", "PyErr_Restore")
"""As pretend.c has them in ``interpreter``."""


class _Table:
    """A copy of an object's table of virtual functions, with some of ours in it."""

    def __init__(self, vtable: int, slots: tuple[str, ...], ours: dict[str, int]) -> None:
        behind = 2  # the offset to the top and the type's information lie before the functions
        size = len(slots) + behind
        original = (ctypes.c_void_p * size).from_address(vtable - 8 * behind)
        self._copy = (ctypes.c_void_p * size)(*original)
        for place, name in enumerate(slots):
            if name in ours:
                self._copy[place + behind] = ours[name]
        self.address = ctypes.addressof(self._copy) + 8 * behind


class Pretended:
    """The device that is not there; one for each process, as PyTorch's tables are."""

    def __init__(self, torch_folder: Path) -> None:
        """Read the headers, and prepare the tables.

        Args:
            torch_folder: of the package torch, which has been imported.

        Raises:
            RecordingError: this system or PyTorch cannot be pretended to.
        """
        if sys.platform == "win32":
            raise RecordingError(
                "A forecast needs Linux or macOS, as PyTorch for Windows lays out its classes"
                " otherwise; on Windows, run it under WSL."
            )
        ours, ending = library().symbols, "dylib" if sys.platform == "darwin" else "so"
        try:
            c10, cpu = (
                ctypes.CDLL(str(torch_folder / "lib" / f"{name}.{ending}"))
                for name in ("libc10", "libtorch_cpu")
            )
            headers = [
                (torch_folder / "include" / file).read_text("utf-8")
                for file, _ in (_GUARD, _BASE_HOOKS, _CUDA_HOOKS)
            ]
            registry = ctypes.addressof(ctypes.c_void_p.in_dll(c10, _REGISTRY))
            hooks = cpu[_HOOKS]
        except (OSError, AttributeError, ValueError) as error:
            raise RecordingError(f"This PyTorch cannot run a forecast: {error}.") from error
        guard_slots = slots_of(headers[0], _GUARD[1])
        hook_slots = slots_of(headers[2], _CUDA_HOOKS[1], slots_of(headers[1], _BASE_HOOKS[1]))
        if not (set(guard_slots) >= _NEEDED and "hasCUDA" in hook_slots):
            raise RecordingError("This PyTorch's device guard is not known; please report it.")
        hooks.restype, hooks.argtypes = ctypes.c_void_p, []

        def address(prefix: str, name: str) -> int:
            return ctypes.cast(ours[f"snapreport_{prefix}_{name}"], ctypes.c_void_p).value or 0

        # There is no pinned memory: what is to be pinned comes from the CPU's allocator.
        allocator = ctypes.cast(c10[_CPU_ALLOCATOR], ctypes.c_void_p).value or 0
        pinned = {"getPinnedMemoryAllocator": allocator}
        self._registry = (ctypes.c_void_p * (_CUDA + 1)).from_address(registry)
        cpu_guard = self._registry[_CPU]
        if not cpu_guard:
            raise RecordingError("This PyTorch's device guards are not where they should be.")
        self._guard_table = _Table(
            ctypes.c_void_p.from_address(cpu_guard).value or 0,
            guard_slots,
            {name: address("guard", name) for name in _GUARDED},
        )
        self._guard = (ctypes.c_void_p * 2)(self._guard_table.address)
        self._hooks = ctypes.c_void_p.from_address(hooks())
        self._hooks_table = _Table(
            self._hooks.value or 0,
            hook_slots,
            {name: address("hooks", function) for name, function in _HOOKED.items()} | pinned,
        )
        self._count = ours["snapreport_pretend_count"]
        self.device = ours["snapreport_pretend_device"]
        """Returns the number of the thread's current device."""
        self.set_device = ours["snapreport_pretend_set_device"]
        self.stream = ours["snapreport_pretend_stream"]
        """Returns the id of a device's current stream in this thread; 0 is the default one."""
        self.stream.restype, self.stream.argtypes = ctypes.c_int64, [ctypes.c_int32]
        self.set_stream = ours["snapreport_pretend_set_stream"]
        self.set_stream.argtypes = [ctypes.c_int32, ctypes.c_int64]
        self._on_free = ours["snapreport_pretend_on_free"]
        self._on_free.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._python = (ctypes.c_void_p * len(_PYTHON))(
            *(ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p) for name in _PYTHON)
        )
        self._tensor = ours["snapreport_pretend_tensor"]
        self._tensor.restype, self._tensor.argtypes = ctypes.c_void_p, [
            *(ctypes.c_int64, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int64),
            *(ctypes.c_int32, ctypes.c_void_p),
        ]  # fmt: skip
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._capsule = capsule
        self._callback: Any = None

    def on_free(self, function: Callable[[int], None] | None) -> None:
        """Call a function with the id of each tensor whose memory is freed."""
        self._callback = None if function is None else _FREED(function)
        callback = ctypes.cast(self._callback, ctypes.c_void_p) if function else None
        self._on_free(callback, self._python)

    def capsule(
        self,
        address: int,
        device: int,
        kind: tuple[int, int],
        id_: int,
        shape: Sequence[int],
        strides: Sequence[int],
    ) -> Any:
        """Return a DLPack capsule of a tensor on the device, whose memory does not exist.

        Args:
            address: what its data pointer will be; 0 if it is empty.
            device: its number.
            kind: DLPack's code and bits of the type of its elements.
            id_: what is passed on when its memory is freed; -1 for nothing.
            shape: its sizes.
            strides: in elements.
        """
        n = len(shape)
        dims = (ctypes.c_int64 * (2 * n))(*shape, *strides)
        made = self._tensor(address, device, *kind, id_, n, dims)
        if not made:
            raise MemoryError
        return self._capsule(made, b"dltensor", None)

    def set_storage(self, storage: Any, address: int, size: int) -> None:
        """Give a storage that was made of a capsule another address and size.

        Args:
            storage: an ``UntypedStorage``.
            address: its new data pointer; 0 without memory.
            size: in bytes.

        Raises:
            RecordingError: this PyTorch lays out its storages in another way.
        """
        data, n_bytes = (ctypes.c_int64.from_address(storage._cdata + at) for at in _IN_STORAGE)
        if data.value != storage.data_ptr() or n_bytes.value != storage.nbytes():
            raise RecordingError("This PyTorch's storages are not known; please report it.")
        data.value, n_bytes.value = address, size

    @contextmanager
    def there(self, devices: int) -> Iterator[None]:
        """Pretend, during the body, that there are some devices."""
        guard, table = self._registry[_CUDA], self._hooks.value
        self._count(devices)
        self._registry[_CUDA] = ctypes.addressof(self._guard)
        self._hooks.value = self._hooks_table.address
        try:
            yield
        finally:
            if guard:
                self._registry[_CUDA] = guard
            else:
                # Where there was none, ours stays: what the program keeps, such as DDP's reducer,
                # asks for one when it is freed, and without one PyTorch ends the process.
                _left_behind.append(self)
            self._hooks.value = table
