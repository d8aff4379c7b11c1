"""protocols.products: oneDNN and the BLAS multiply alike, whatever the shapes."""

import pytest
import torch

from protocols import products


def unit(n: int, width: int, seed: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(n, width, generator=torch.Generator().manual_seed(seed)))


@pytest.fixture(params=[True, False], ids=["onednn", "blas"])
def kernels(request, monkeypatch):
    """Both kinds, where this torch has oneDNN."""
    if request.param and not products.ONEDNN:
        pytest.skip("this torch has no oneDNN")
    monkeypatch.setattr(products, "ONEDNN", request.param)


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("n", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("width", [1, 5, 128])
@pytest.mark.parametrize("copied", [False, True])
def test_products_and_offsets_equal_float64(monkeypatch, n, width, copied):
    if copied:
        monkeypatch.setattr(products, "_OWN_BYTES", 0)
        monkeypatch.setattr(products, "_REFERENCES", 8)  # so that there are several parts, and a shorter one,
        monkeypatch.setattr(products, "_REFERENCE_VALUES", 100)  # and references too wide for more than one
    queries, references, offsets = unit(3, width, 0), unit(n, width, 1), torch.randn(n)
    out = torch.full((5, n), 9.0)
    found = products.products(queries, references, offsets, out[:3])
    expected = queries.double() @ references.double().T + offsets
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-6)
    assert (found.data_ptr() == out.data_ptr()) is (copied or not products.ONEDNN)
    assert (out[3:] == 9).all()
