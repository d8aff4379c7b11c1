"""What is known against a data set, and that it is not all there, stands below the table of its results."""

from dataclasses import replace

import pytest
from published_runs import on_a_part, runs
from small_tables import FULL
from test_reports_tables import one_table

from protocols.datasets.standard import STANDARD
from reports.notes import DATASET_NOTES
from reports.published_sizes import SIZES, other_images


@pytest.mark.parametrize(
    ("name", "standard_name", "is_told"),
    [
        ("cub200", "cub200", True),
        ("birds", "cub200", True),  # under a name of somebody's own
        ("cub200", "", False),  # a folder that is called so
        ("sop", "sop", False),
    ],
)
def test_the_overlap_of_cub_with_imagenet_is_told_of_cub_whatever_its_name(
    name: str, standard_name: str, is_told: bool
) -> None:
    footer = " ".join(replace(FULL, dataset_name=name, standard_name=standard_name).footer())
    assert ("some of its images are in ImageNet" in footer) == is_told


def test_the_cut_of_sop_that_the_reality_check_took_is_told_of_sop_alone() -> None:
    def told(standard_name: str) -> bool:
        return "halves, 11,317 each" in " ".join(replace(FULL, standard_name=standard_name).footer())

    assert [told(name) for name in ("sop", "cub200", "")] == [True, False, False]


def test_a_part_of_a_published_data_set_is_told_with_both_sizes_and_all_of_it_is_not() -> None:
    whole, part = one_table(runs("contrastive", 0.26)), one_table(on_a_part(runs("contrastive", 0.26)))
    assert not [line for line in whole.footer() if "Not the published" in line]
    assert [line for line in part.footer() if "Not the published" in line] == [
        "Not the published data set: 12 classes and 48 images; CUB-200-2011 has 200 classes and 11,788 images; no "
        "published figure is of it."
    ]
    assert other_images(replace(whole, n_images=11_787)).startswith("200 classes and 11,787 images; ")
    assert other_images(replace(part, standard_name="")) == ""


def test_the_sizes_in_the_reports_are_those_of_the_table_of_data_sets() -> None:
    published = {name: (one.title, one.counts["classes"], one.counts["images"]) for name, one in STANDARD.items()}
    assert published == SIZES


def test_every_data_set_with_a_caution_has_its_note_in_the_reports() -> None:
    assert set(DATASET_NOTES) == {name for name, published in STANDARD.items() if published.caution}
