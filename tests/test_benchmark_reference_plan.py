"""The reference plan in the docs is what the code plans now, and its counts are those of a sum by hand."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "plan.md"


@pytest.fixture(scope="module")
def reference():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
        import reference_plan
    return reference_plan


@pytest.fixture(scope="module")
def plans(reference):
    return reference.plans()


def test_the_table_in_the_docs_is_what_is_planned(reference, plans) -> None:
    assert f"<!-- table -->\n{reference.table(plans)}<!-- end of table -->\n" in PAGE.read_text(encoding="utf-8")


def test_sixteen_methods_train_240_models_each_on_every_data_set(reference, plans) -> None:
    assert len(set(reference.METHODS)) == 16
    assert [plan["total"]["models"] for plan in plans.values()] == [16 * (50 * 4 + 10 * 4)] * 3


def test_the_hours_of_cub_are_those_of_a_sum_by_hand(plans) -> None:
    # 1,800 steps and 9 validations of 25 train classes; 64 of the 100 have 59 images, those that fold 0 validates 58.
    job_s = 1800 * 0.05 + 9 * (25 * 58) * 0.05 / 32 / 3
    test_s = 5_924 * 0.05 / 32 / 3
    assert plans["cub200"]["total"]["job_hours"] == pytest.approx(16 * (240 * job_s + 40 * test_s) / 3600)
