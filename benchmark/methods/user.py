"""Methods that this package does not ship: a class in a user's file, a loss of pytorch-metric-learning, a plug-in.

`classes.py` says what a class must be. A user's file is compiled from the very bytes that its fingerprint is taken of,
never from a cached compilation; modules that it imports are not part of the fingerprint.
"""

import sys
from dataclasses import replace
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

import pytorch_metric_learning
import torch
from pytorch_metric_learning import losses
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods.classes import PROBE_DIM, class_entry, is_module_class
from benchmark.methods.entry import MethodEntry
from benchmark.training.failure import one_line
from protocols.errors import did_you_mean

GROUP = "mlrc.methods"  # entry-point group of plug-ins: each names a MethodEntry or a class


def file_entry(path: str, class_name: str) -> MethodEntry:
    """The method `path:class_name`; its code is the fingerprint of the file.

    Raises:
        BenchmarkError: if the file, the class or what the class says of itself cannot serve.
    """
    module, code = _run_file(Path(path))
    name = f"{Path(path).as_posix()}:{class_name}"
    found = getattr(module, class_name, None)
    if found is None:
        offered = [key for key, value in vars(module).items() if is_module_class(value)]
        asked = f"no class named {class_name!r}" if class_name else "no class is named"
        raise BenchmarkError(
            f"{path}: {asked}.{did_you_mean(class_name, offered)} "
            f"Write {path}:ClassName; the file has {', '.join(offered) or 'no subclass of torch.nn.Module'}."
        )
    return class_entry(name, found, code=code, source=path)


def pml_names() -> list[str]:
    """The classes of `pytorch_metric_learning.losses`."""
    return [name for name, value in vars(losses).items() if is_module_class(value)]


def pml_entry(class_name: str) -> MethodEntry:
    """A loss of pytorch-metric-learning with its own defaults, its own distance and its own normalisation.

    Raises:
        BenchmarkError: if there is no such loss, or it needs more than embeddings, labels, class count and width.
    """
    if class_name not in pml_names():
        hint = did_you_mean(f"pml:{class_name}", [f"pml:{name}" for name in pml_names()])
        raise BenchmarkError(
            f"pytorch_metric_learning.losses has no class {class_name!r}.{hint} pml:ContrastiveLoss is one; mlrc "
            "methods lists the losses that ship with this package."
        )
    version = pytorch_metric_learning.__version__
    entry = class_entry(
        f"pml:{class_name}",
        getattr(losses, class_name),
        code=version,
        source=f"pytorch-metric-learning {version}",
        fill_optional=False,  # MarginLoss with a class count would be another loss
        formula=f"pytorch_metric_learning.losses.{class_name} with its defaults",
    )
    _try_once(entry)
    return entry


def installed_names() -> list[str]:
    """The names of installed plug-ins."""
    return sorted(entry_points(group=GROUP).names)


def installed_entry(name: str) -> MethodEntry | None:
    """The plug-in of this name, or None; its code is the version of the distribution that brings it.

    Raises:
        BenchmarkError: if it cannot be imported or is neither a MethodEntry nor a class that can serve.
    """
    for point in entry_points(group=GROUP, name=name):
        found = _load(point)
        code = point.dist.version if point.dist else ""
        if isinstance(found, MethodEntry):
            return replace(found, name=name, code=code)
        return class_entry(name, found, code=code, source=point.value)
    return None


def _try_once(entry: MethodEntry) -> None:
    """One loss of eight embeddings of four classes with its gradient, or a refusal."""
    embeddings = normalize(torch.randn(8, PROBE_DIM, generator=torch.Generator().manual_seed(0))).requires_grad_()
    with torch.random.fork_rng(devices=[]):
        try:
            entry.build(n_classes=4, embedding_dim=PROBE_DIM)(embeddings, torch.arange(8) % 4).backward()
        except Exception as error:
            raise BenchmarkError(
                f"{entry.name} cannot be used by its name alone: {one_line(error.__cause__ or error)}. Wrap it in a "
                "class of your own that gives it what it needs, and name that as path/to/file.py:ClassName."
            ) from error


def _run_file(path: Path) -> tuple[ModuleType, str]:
    """The module of a file, run once for one content, and the first 12 hex digits of the file's SHA-256."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise BenchmarkError(
            f"{path}: cannot be read ({error.strerror}). A method of your own is named path/to/file.py:ClassName."
        ) from error
    code = sha256(text).hexdigest()[:12]
    name = f"mlrc_method_{code}"
    if name not in sys.modules:
        module = ModuleType(name)
        module.__file__ = str(path)
        sys.modules[name] = module  # before it runs: dataclasses and pickle look their module up
        try:
            exec(compile(text, str(path), "exec"), vars(module))
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, KeyboardInterrupt):
                raise
            lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
            line = lines[-1] if lines else getattr(error, "lineno", None)
            raise BenchmarkError(f"{path}, line {line}: {one_line(error)}. Mend the file and start again.") from error
    return sys.modules[name], code


def _load(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        raise BenchmarkError(
            f"{point.name}: its plug-in {point.value} cannot be imported: {one_line(error)}. "
            "Install it again, or leave the method out."
        ) from error
