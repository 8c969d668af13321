"""Where the memory of parameters, gradients, buffers and optimizer states lies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_MOST = 1_000_000


def find_storages(modules: Any, optimizers: Any) -> list[dict[str, Any]]:
    """Return the storages of modules and optimizers, each address once.

    Args:
        modules: a module, several, or a mapping from names to modules; None for none.
        optimizers: an optimizer, several, or a mapping from names to optimizers; None for none.

    Returns:
        dicts with ``device`` (``cuda:0``, ``cpu:0``), ``address``, ``size`` in bytes, ``kind``
        (``parameter``, ``gradient``, ``buffer`` or ``optimizer state``) and ``name``. What has
        no storage of its own (meta or fake tensors) is left out.
    """
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for kind, name, tensor in _tensors(modules, optimizers):
        for part in _local(tensor):
            row = _storage(part)
            if row is not None and len(found) < _MOST:
                # The first name stays: a parameter before the state that shares its storage.
                found.setdefault(
                    (row["device"], row["address"]), {**row, "kind": kind, "name": name}
                )
    return list(found.values())


def _tensors(modules: Any, optimizers: Any) -> Iterator[tuple[str, str, Any]]:
    names: dict[int, str] = {}
    chosen = list(_named(modules))
    for prefix, module in chosen:
        for name, parameter in module.named_parameters():
            names.setdefault(id(parameter), prefix + name)
            yield "parameter", prefix + name, parameter
    for prefix, module in chosen:
        for name, parameter in module.named_parameters():
            yield "gradient", prefix + name, parameter.grad
        for name, buffer in module.named_buffers():
            yield "buffer", prefix + name, buffer
    for prefix, optimizer in _named(optimizers):
        for group in optimizer.param_groups:
            for place, parameter in enumerate(group["params"]):
                name = names.get(id(parameter), f"{prefix}{place}")
                yield "parameter", name, parameter
                yield "gradient", name, parameter.grad
        for parameter, state in list(optimizer.state.items()):
            name = names.get(id(parameter), f"{prefix}{type(optimizer).__name__}")
            yield from (("optimizer state", f"{name}.{key}", each) for key, each in _items(state))


def _items(state: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(state, Mapping):
        yield from ((str(key), value) for key, value in state.items())


def _named(given: Any) -> Iterator[tuple[str, Any]]:
    """Yield objects with a prefix for their names, which is empty for a single one."""
    if given is None:
        return
    if isinstance(given, Mapping):
        yield from ((f"{name}.", value) for name, value in given.items())
    elif isinstance(given, Iterable) and not hasattr(given, "named_parameters"):
        several = list(given)
        for i, value in enumerate(several):
            yield (f"{i}." if len(several) > 1 else ""), value
    else:
        yield "", given


def _local(tensor: Any) -> Iterator[Any]:
    """Yield the plain tensors that a tensor stands for: shards and subclasses wrap others."""
    if tensor is None or not hasattr(tensor, "untyped_storage"):
        return
    shard = getattr(tensor, "_local_tensor", None)
    if shard is not None:
        yield from _local(shard)
    elif hasattr(tensor, "__tensor_flatten__"):
        for name in tensor.__tensor_flatten__()[0]:
            yield from _local(getattr(tensor, name))
    else:
        yield tensor


def _storage(tensor: Any) -> dict[str, Any] | None:
    try:
        storage = tensor.untyped_storage()
        device, address, size = tensor.device, storage.data_ptr(), storage.nbytes()
    except (AttributeError, NotImplementedError, RuntimeError):
        return None  # sparse, fake, or without memory
    if not address or not size:
        return None
    return {"device": f"{device.type}:{device.index or 0}", "address": address, "size": size}
