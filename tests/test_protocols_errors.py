"""A slip of the fingers is answered with the name that was meant, anything else with none."""

import pytest

from protocols.catalogue import MINI_V1
from protocols.derive import settable_fields
from protocols.errors import did_you_mean

METHODS = ("contrastive", "triplet", "ms", "ms-miner", "proxy-nca", "norm-softmax", "arcface", "margin")
FIELDS = [path.rpartition(".")[2] for path in settable_fields(MINI_V1)]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *(("contrastve", "contrastive"), ("contrasitve", "contrastive"), ("tripelt", "triplet")),
        *(("arcfaec", "arcface"), ("proxynca", "proxy-nca"), ("normsoftmax", "norm-softmax"), ("margn", "margin")),
    ],
)
def test_a_slip_is_answered(typed: str, meant: str) -> None:
    assert did_you_mean(typed, METHODS) == f" Did you mean {meant!r}?"


@pytest.mark.parametrize("typed", ["margn", "margin", "scale_factor", "dimension", "temperature", "loss", ""])
def test_a_word_that_is_only_somewhat_like_a_field_is_not(typed: str) -> None:
    assert did_you_mean(typed, FIELDS) == ""
