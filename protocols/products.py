"""Inner products of queries and references in float32, by the fastest kernels that the processor has.

`torch.mm` calls the BLAS that torch was built with, and that one leaves half of an AMD processor unused; oneDNN, which
torch brings for its convolutions, compiles its kernels for the processor it finds. It makes its results in memory of
its own, so references are taken a few at a time: what is copied is still in cache then.
"""

import torch
from torch import Tensor

ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
_REFERENCES = 4096  # in one product of oneDNN, if
_REFERENCE_VALUES = 2**23  # are not more than so many: it packs them anew, in as much memory


def products_into(out: Tensor, queries: Tensor, references: Tensor, offsets: Tensor) -> None:
    """<query, reference> + the reference's offset, into (B, M); of (B, D), (M, D) and (M,). All are float32."""
    if queries.device.type != "cpu" or not ONEDNN:
        torch.mm(queries, references.T, out=out).add_(offsets)
        return
    n = max(1, min(_REFERENCES, _REFERENCE_VALUES // references.shape[1]))
    parts = zip(torch.split(references, n), torch.split(offsets, n), torch.split(out, n, dim=1), strict=True)
    for some, their_offsets, part in parts:
        part.copy_(torch.ops.mkldnn._linear_pointwise(queries, some, their_offsets, "none", [], ""))
