"""What a method remembers between two steps: its `state_dict`, and what its modules hold beside it.

Many losses count steps or keep embeddings in plain attributes, which no `state_dict` has. So attributes that are plain
values (tensors, numbers, strings, and lists, tuples, sets and dictionaries of them) are kept too, as are buffers that
are not persistent. Any other attribute may be there as long as it stays what it was when the job began; where one
changes (a generator, a queue, a module in a list), the memory cannot be kept, and says so. What a method has outside
its modules, in a global or a closure, is not seen here.
"""

import pickle
from collections import OrderedDict
from collections.abc import Iterator, Set
from hashlib import sha256
from io import BytesIO
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from benchmark.training.context import Context
from benchmark.training.failure import one_line

Memory = dict[str, Any]

_VALUES = (type(None), bool, int, float, str, bytes, torch.Size, torch.dtype, torch.device)
_CODE = (FunctionType, MethodType, BuiltinFunctionType, type, Context)  # what a context holds is the job's to keep
_OF_EVERY_MODULE = frozenset(vars(nn.Module()))


class CannotBeKept(Exception):
    """Which part of a method's memory is no plain value."""


class MethodMemory:
    """The memory of one method; to be made when the method has begun its job."""

    def __init__(self, method: nn.Module) -> None:
        self._method = method
        self._at_first = {
            (path, name): _fingerprint(value) for path, name, value in self._attributes() if not _is_plain(value)
        }

    def state(self) -> Memory:
        """All of it, as plain values; the tensors are the method's own, not copies.

        Raises:
            CannotBeKept: if something in it is neither plain nor what it was at first.
        """
        try:
            state_dict = self._method.state_dict()
        except Exception as error:  # it may be the method's own
            raise CannotBeKept(f"its state_dict ({one_line(error)})") from error
        if not _is_plain(state_dict):
            raise CannotBeKept("its state_dict")
        weights = {_address(value) for value in state_dict.values() if type(value) is torch.Tensor} - {0}
        kept: dict[str, dict[str, Any]] = {}
        for path, name, value in self._attributes():
            if _is_plain(value, apart_from=weights):
                kept.setdefault(path, {})[name] = value
            elif (at_first := self._at_first.get((path, name))) is None or at_first != _fingerprint(value):
                raise CannotBeKept(f"its attribute {path}{'.' * bool(path)}{name} ({type(value).__name__})")
        return {"state_dict": state_dict, "attributes": kept}

    def restore(self, memory: Memory) -> None:
        """Give a method that has just begun the memory that another had."""
        self._method.load_state_dict(memory["state_dict"])
        modules, kept = dict(self._method.named_modules()), memory["attributes"]
        for path, name, value in list(self._attributes()):
            if _is_plain(value) and name not in kept.get(path, {}):
                delattr(modules[path], name)
        for path, values in kept.items():
            for name, value in values.items():
                setattr(modules[path], name, value)

    def _attributes(self) -> Iterator[tuple[str, str, Any]]:
        """The path of each module, and the names and values of what it holds that no `state_dict` has."""
        for path, module in self._method.named_modules():
            for name, value in vars(module).items():
                if name not in _OF_EVERY_MODULE:
                    yield path, name, value
            for name in module._non_persistent_buffers_set:
                yield path, name, module._buffers[name]


def _is_plain(value: Any, apart_from: Set[int] = frozenset()) -> bool:
    """Whether a file loaded with `weights_only` may hold it, and no tensor of it lies at an address of `apart_from`."""
    if type(value) is torch.Tensor:
        return _address(value) not in apart_from
    if type(value) in (dict, OrderedDict):
        value = [part for pair in value.items() for part in pair]
    if type(value) not in (list, tuple, set):
        return type(value) in _VALUES
    try:
        return all(_is_plain(part, apart_from) for part in value)
    except RecursionError:  # it holds itself
        return False


def _address(tensor: torch.Tensor) -> int:
    """Of the memory that it lies in, 0 for an empty one: views of one tensor share it, and would not when restored."""
    return tensor.untyped_storage().data_ptr()


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> int | None:
        return id(obj) if isinstance(obj, _CODE) else None


def _fingerprint(value: object) -> bytes | None:
    """The same bytes for the same value of any kind; None where it cannot be told."""
    written = BytesIO()
    try:
        _Pickler(written).dump(value)
    except Exception:  # whatever the classes of others raise when they are pickled
        return None
    return sha256(written.getvalue()).digest()
