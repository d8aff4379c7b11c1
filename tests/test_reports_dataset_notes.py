"""What is known against a data set stands below the table of its results."""

from dataclasses import replace

import pytest
from small_tables import FULL

from protocols.datasets.standard import STANDARD
from reports.notes import DATASET_NOTES


@pytest.mark.parametrize(("name", "is_told"), [("cub200", True), ("sop", False), ("my birds", False)])
def test_the_overlap_of_cub_with_imagenet_is_told_below_its_table_and_no_other(name: str, is_told: bool) -> None:
    footer = " ".join(replace(FULL, dataset_name=name).footer())
    assert ("some of its images are in ImageNet" in footer) == is_told


def test_every_data_set_with_a_caution_has_its_note_in_the_reports() -> None:
    assert set(DATASET_NOTES) == {name for name, published in STANDARD.items() if published.caution}
