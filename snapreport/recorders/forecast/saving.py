"""Checkpoints under a forecast: those without values are not kept, and none is read needlessly.

What a program saves without values it may load again, so until the forecast ends there is a file in
its place. A file that was there before is left alone. Checkpoints that the program loads are mapped
into memory, so that only what it looks at is read.
"""

from __future__ import annotations

import functools
import importlib.abc
import io
import os
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import torch

from snapreport.ground.records import dataclass
from snapreport.recorders.forecast.running import tensors_of
from snapreport.recorders.forecast.valueless import NO_VALUES, Valueless

_MARK = b"snapreport forecast, without values "
_HEAD = 4096
"""Where it is, at the latest: safetensors begins with a header of its own."""
Put = Callable[[Any, str, Any], None]
"""Sets an attribute of something until the forecast ends."""


def _is_stand_in(path: str) -> bool:
    with suppress(OSError), Path(path).open("rb") as file:
        return _MARK in file.read(_HEAD)
    return False


def lacks_values(tensor: Any) -> bool:
    """Say whether a tensor has no values: it is on the card, or was copied from it."""
    return (
        tensor.device.type == "cuda"
        or isinstance(tensor, Valueless)
        or getattr(tensor, NO_VALUES, False) is True
    )


@dataclass
class _Kept:
    """What a program has saved, with its tensors apart from it."""

    data: bytes
    tensors: list[Any] = field(default_factory=list)
    """Those with values, and ``_Shape`` of the others."""


@dataclass(frozen=True)
class _Shape:
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    parameter: bool
    requires_grad: bool


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file, 2)
        self.tensors: list[Any] = []
        self._places: dict[int, int] = {}

    def persistent_id(self, obj: Any) -> int | None:
        if not isinstance(obj, torch.Tensor):
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        return self._places[id(obj)]


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, tensors: list[Any]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: Any) -> Any:
        return self._tensors[pid]


class Saving:
    """Takes the place of what writes and reads checkpoints."""

    def __init__(self) -> None:
        """Nothing is saved yet."""
        self._files: dict[str, tuple[int, _Kept | None]] = {}
        """By path: the inode of the file in its place, and what is in it; None for safetensors."""
        self._kept: list[_Kept] = []
        self._mapped: set[str] = set()

    @contextmanager
    def there(self, put: Put) -> Iterator[None]:
        """Take the place, during the body.

        Args:
            put: sets an attribute until the body ends.
        """
        put(torch, "save", self._saving(torch.save))
        put(torch, "load", self._loading(torch.load))
        for name in ("rename", "replace"):
            put(os, name, self._moving(getattr(os, name)))
        put(shutil, "copyfile", self._copying(shutil.copyfile))
        with imported({
            "safetensors": functools.partial(self._in_safetensors, put),
            "safetensors.torch": functools.partial(self._in_safetensors_torch, put),
            "torch.distributed.checkpoint": functools.partial(self._in_distributed, put),
        }):  # fmt: skip
            try:
                yield
            finally:
                for path in tuple(self._files):
                    self._remove(path)

    # PyTorch's own

    def _saving(self, save: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(save)
        def run(obj: Any, f: Any, *args: Any, **kwargs: Any) -> None:
            buffer = io.BytesIO()
            try:
                pickler = _Pickler(buffer)
                pickler.dump(obj)
            except Exception:  # what cannot be pickled ends as it would without a forecast
                save(obj, f, *args, **kwargs)
                return
            if not any(lacks_values(each) for each in pickler.tensors):
                self._unmap(f)
                if _is_path(f):
                    self._files.pop(_real(f), None)
                save(obj, f, *args, **kwargs)
                return
            kept = _Kept(buffer.getvalue(), [_shape_of(each) for each in pickler.tensors])
            if _is_path(f):
                self._place(os.fspath(f), kept)
            else:
                self._kept.append(kept)
                f.write(_MARK + b"%20d" % (len(self._kept) - 1))

        return run

    def _loading(self, load: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(load)
        def run(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            if _is_path(f):
                path = _real(f)
                if (found := self._files.get(path)) is not None and found[1] is not None:
                    return _made_again(found[1], map_location)
                if kwargs.get("mmap") is None and Path(path).is_file() and zipfile.is_zipfile(path):
                    kwargs["mmap"] = True
                    self._mapped.add(path)
            elif hasattr(f, "tell"):
                before = f.tell()
                if f.read(len(_MARK)) == _MARK:
                    return _made_again(self._kept[int(f.read(20))], map_location)
                f.seek(before)
            return load(f, map_location, *args, **kwargs)

        return run

    # Files in the place of others

    def _place(self, path: str, kept: _Kept | None, size: int = 0, head: bytes = _MARK) -> None:
        """Put a file where the program saves, unless there is one; the file takes no disk."""
        real = _real(path)
        if real not in self._files and os.path.lexists(real) and not _is_stand_in(real):
            return  # the program's own, from before
        with Path(real).open("wb") as file:
            file.write(head)
            file.truncate(max(size, len(head)))
            self._files[real] = (os.fstat(file.fileno()).st_ino, kept)

    def _remove(self, path: str) -> None:
        inode, _ = self._files.pop(path)
        with suppress(OSError):
            if os.lstat(path).st_ino == inode and _is_stand_in(path):
                Path(path).unlink()

    def _moving(self, move: Callable[..., None]) -> Callable[..., None]:
        """Return what moves files; one in the place of another replaces no real one."""

        @functools.wraps(move)
        def run(src: Any, dst: Any, **kwargs: Any) -> None:
            if not self._files or not (_is_path(src) and _is_path(dst)):
                move(src, dst, **kwargs)
                return
            old, new = _real(src), _real(dst)
            if old in self._files and new not in self._files and Path(new).is_file():
                self._remove(old)
                return
            move(src, dst, **kwargs)
            self._files.pop(new, None)
            for path in tuple(self._files):
                if path == old or path.startswith(old + os.sep):
                    self._files[new + path[len(old) :]] = self._files.pop(path)

        return run

    def _copying(self, copy: Callable[..., Any]) -> Callable[..., Any]:
        """Return what copies files; one in the place of another replaces no real one."""

        @functools.wraps(copy)
        def run(src: Any, dst: Any, **kwargs: Any) -> Any:
            if _is_path(src) and _is_path(dst) and (found := self._files.get(_real(src))):
                self._place(os.fspath(dst), found[1])
                return dst
            return copy(src, dst, **kwargs)

        return run

    def _unmap(self, file: Any) -> None:
        """Let a file that is mapped into memory stay there, while its name gets a new one."""
        if _is_path(file) and (path := _real(file)) in self._mapped:
            self._mapped.discard(path)
            with suppress(OSError):
                Path(path).unlink()

    # Other libraries

    def _in_safetensors(self, put: Put, module: ModuleType) -> None:
        plain = module.safe_open

        class Opened:
            """Maps a file, and moves to the card what is asked for."""

            def __init__(
                self, filename: Any, framework: str, device: Any = "cpu", **kwargs: Any
            ) -> None:
                self._device = f"cuda:{device}" if isinstance(device, int) else device
                on_card = str(self._device).startswith("cuda")
                self._file = plain(filename, framework, "cpu" if on_card else device, **kwargs)
                self._on_card = on_card

            def __enter__(self) -> Any:
                self._file.__enter__()
                return self

            def __exit__(self, *error: object) -> Any:
                return self._file.__exit__(*error)

            def __getattr__(self, name: str) -> Any:
                return getattr(self._file, name)

            def _moved(self, tensor: Any) -> Any:
                return tensor.to(self._device) if self._on_card else tensor

            def get_tensor(self, name: str) -> Any:
                return self._moved(self._file.get_tensor(name))

            def get_tensors(self) -> dict[str, Any]:
                return {name: self.get_tensor(name) for name in self._file.keys()}  # noqa: SIM118

            def get_slice(self, name: str) -> Any:
                return Slice(self._file.get_slice(name), self._moved)

        class Slice:
            """A part of a file."""

            def __init__(self, part: Any, moved: Callable[[Any], Any]) -> None:
                self._part, self._moved = part, moved

            def __getitem__(self, where: Any) -> Any:
                return self._moved(self._part[where])

            def __getattr__(self, name: str) -> Any:
                return getattr(self._part, name)

        _put_everywhere(put, "safe_open", plain, Opened)

    def _in_safetensors_torch(self, put: Put, module: ModuleType) -> None:
        plain_file, plain = module.save_file, module.save

        @functools.wraps(plain_file)
        def save_file(tensors: Any, filename: Any, metadata: Any = None, **kwargs: Any) -> None:
            if any(lacks_values(each) for each in tensors.values()):
                head, size = _safetensors_head(tensors, metadata, module)
                self._place(os.fspath(filename), None, size, head)
                return
            plain_file(tensors, filename, metadata, **kwargs)

        @functools.wraps(plain)
        def save(tensors: Any, metadata: Any = None, **kwargs: Any) -> Any:
            if any(lacks_values(each) for each in tensors.values()):
                head, size = _safetensors_head(tensors, metadata, module)
                return head.ljust(size, b"\0")
            return plain(tensors, metadata, **kwargs)

        _put_everywhere(put, "save_file", plain_file, save_file)
        put(module, "save", save)

    def _in_distributed(self, put: Put, module: ModuleType) -> None:
        saved: set[str] = set()
        plain_save, plain_async, plain_load = module.save, module.async_save, module.load

        def without_values(state: Any, identity: Any) -> bool:
            lacking = any(lacks_values(each) for each in tensors_of(state))
            if lacking:
                saved.add(str(identity))
            return lacking

        def save(state_dict: Any, *, checkpoint_id: Any = None, **kwargs: Any) -> Any:
            if not without_values(state_dict, checkpoint_id):
                return plain_save(state_dict, checkpoint_id=checkpoint_id, **kwargs)
            return None

        def async_save(state_dict: Any, *, checkpoint_id: Any = None, **kwargs: Any) -> Any:
            if not without_values(state_dict, checkpoint_id):
                return plain_async(state_dict, checkpoint_id=checkpoint_id, **kwargs)
            from concurrent.futures import Future

            done: Future[None] = Future()
            done.set_result(None)
            return done

        def load(state_dict: Any, *, checkpoint_id: Any = None, **kwargs: Any) -> Any:
            if str(checkpoint_id) not in saved:
                plain_load(state_dict, checkpoint_id=checkpoint_id, **kwargs)

        put(module, "save", save)
        put(module, "async_save", async_save)
        put(module, "load", load)


def _is_path(file: Any) -> bool:
    return isinstance(file, str | os.PathLike)


def _real(path: Any) -> str:
    return str(os.path.realpath(os.fspath(path)))


def _shape_of(tensor: Any) -> Any:
    if not lacks_values(tensor):
        return tensor
    return _Shape(
        tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, tensor.device,
        isinstance(tensor, torch.nn.Parameter) or getattr(tensor, "_is_param", False),
        tensor.requires_grad,
    )  # fmt: skip


def _made_again(kept: _Kept, map_location: Any) -> Any:
    """Return what was saved, with new tensors."""
    tensors = [
        _made(each, map_location) if isinstance(each, _Shape) else each for each in kept.tensors
    ]
    return _Unpickler(io.BytesIO(kept.data), tensors).load()


def _made(shape: _Shape, map_location: Any) -> Any:
    device = _mapped(shape.device, map_location)
    made = torch.empty_strided(shape.shape, shape.strides, dtype=shape.dtype, device=device)
    if device.type == "cpu" and not isinstance(made, Valueless):
        made.zero_()
        setattr(made, NO_VALUES, True)
    if shape.parameter:
        return torch.nn.Parameter(made, shape.requires_grad)
    return made.requires_grad_(shape.requires_grad)


def _mapped(device: torch.device, map_location: Any) -> torch.device:
    if map_location is None:
        return device
    if isinstance(map_location, dict):
        return torch.device(map_location.get(str(device), str(device)))
    if callable(map_location):
        moved = map_location(torch.UntypedStorage(0), str(device))
        return device if moved is None else torch.device(moved.device)
    return torch.device(map_location)


def _safetensors_head(tensors: Any, metadata: Any, module: ModuleType) -> tuple[bytes, int]:
    """Return the header of a file, and the size of the file.

    Source: https://github.com/huggingface/safetensors, "Format".
    """
    names = {kind: name for name, kind in module._TYPES.items()}
    found: dict[str, Any] = {"__metadata__": {**(metadata or {}), "snapreport": _MARK.decode()}}
    begin = 0
    for name, tensor in tensors.items():
        end = begin + tensor.numel() * tensor.itemsize
        found[name] = {
            "dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end],
        }  # fmt: skip
        begin = end
    text = orjson.dumps(found)
    text = text.ljust(-(-len(text) // 8) * 8)
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + begin


def _put_everywhere(put: Put, name: str, plain: Any, new: Any) -> None:
    """Replace a function also where a module has imported it by its name."""
    for module in tuple(sys.modules.values()):
        attributes = getattr(module, "__dict__", None) or {}
        for known in tuple(attributes):
            if name in known and attributes[known] is plain:
                put(module, known, new)


class _Finder(importlib.abc.MetaPathFinder):
    """Calls functions once modules are imported."""

    def __init__(self, wanted: dict[str, Callable[[Any], None]]) -> None:
        self.wanted = wanted

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        function = self.wanted.get(fullname)
        if function is None:
            return None
        for finder in sys.meta_path:
            found = None if finder is self else finder.find_spec(fullname, path, target)
            if found is not None and found.loader is not None:
                plain = found.loader.exec_module
                both = functools.partial(_one_by_one, plain, function)
                setattr(found.loader, "exec_module", both)  # noqa: B010  (mypy refuses the other)
                return found
        return None


def _one_by_one(first: Callable[[Any], None], then: Callable[[Any], None], module: Any) -> None:
    first(module)
    then(module)


@contextmanager
def imported(wanted: Mapping[str, Callable[[Any], None]]) -> Iterator[None]:
    """Call a function with each module, now or when the program imports it."""
    finder = _Finder(dict(wanted))
    for name, function in wanted.items():
        if name in sys.modules:
            function(sys.modules[name])
            del finder.wanted[name]
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
