"""Inner products of queries and references in float32, by the fastest kernels that the processor has.

`torch.mm` calls the BLAS that torch was built with, and that one leaves half of an AMD processor unused; oneDNN, which
torch brings for its convolutions, compiles its kernels for the processor it finds.

It makes its results in memory of its own. Where that is much, the system would give it anew each time, page by page;
then references are taken a few at a time, so that what is copied is still in cache.
"""

import torch
from torch import Tensor

ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
_REFERENCES = 4096  # in one product of oneDNN, if results are copied, and if
_REFERENCE_VALUES = 2**23  # are not more than so many: it packs them anew, in as much memory
_OWN_BYTES = 2**24  # of results that are not copied: of pieces twice as large, glibc keeps none by default


def products(queries: Tensor, references: Tensor, offsets: Tensor, buffer: Tensor) -> Tensor:
    """<query, reference> + the reference's offset, (B, M); of (B, D), (M, D) and (M,). All are float32.

    They lie in `buffer`, (B, M), where that is faster than in memory of their own.
    """
    if queries.device.type != "cpu" or not ONEDNN:
        return torch.mm(queries, references.T, out=buffer).add_(offsets)
    if buffer.nbytes < _OWN_BYTES and references.numel() <= _REFERENCE_VALUES:
        return _by_onednn(queries, references, offsets)
    n = max(1, min(_REFERENCES, _REFERENCE_VALUES // references.shape[1]))
    parts = zip(torch.split(references, n), torch.split(offsets, n), torch.split(buffer, n, dim=1), strict=True)
    for some, their_offsets, part in parts:
        part.copy_(_by_onednn(queries, some, their_offsets))
    return buffer


def _by_onednn(queries: Tensor, references: Tensor, offsets: Tensor) -> Tensor:
    found: Tensor = torch.ops.mkldnn._linear_pointwise(queries, references, offsets, "none", [], "")
    return found
