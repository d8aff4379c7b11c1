"""What a real fold hands a method's hooks, seen by methods of a user's file; and what it does with their penalty."""

from pathlib import Path

import pytest
import torch
from tiny import tiny_bench

from benchmark.methods.registry import method_entry
from benchmark.training.training import FoldTraining

PROBES = """
import torch

class Looks(torch.nn.Module):
    "Looks at everything when a job begins and learns nothing from it."

    def begin(self, context):
        some = context.images_by_class[1][:3]
        self.embedded = [context.embed(some) for _ in range(2)]
        self.normalised = context.normalise(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
        self.trainable = context.trainable_parameters

    def forward(self, embeddings, labels):
        return embeddings.square().mean()

class Shrinks(torch.nn.Module):
    "Its penalty alone has a gradient."

    def forward(self, embeddings, labels):
        return 0 * embeddings.sum()

    def penalty(self, context):
        return sum(weight.square().sum() for weight in context.trainable_parameters)

    def begin(self, context):
        self.at_first = self.penalty(context).item()

    def finish(self, context):
        self.at_last = self.penalty(context).item()
"""
CROPS = ("train_crop=random-resized", "crop_area=[0.3, 1.0]")


def trained(folder: Path, class_name: str, *settings: str) -> FoldTraining:
    """A fold that a probe went through."""
    path = folder / "probes.py"
    path.write_text(PROBES, encoding="utf-8")
    bench = tiny_bench(folder, *settings)
    training = FoldTraining(bench.job(method_entry(f"{path.as_posix()}:{class_name}"), {}, 0, 0), bench)
    training.run()
    return training


@pytest.mark.parametrize("settings", [CROPS, ()], ids=["random crops", "centre crops"])
def test_a_method_embeds_images_as_training_shows_them(tmp_path: Path, settings: tuple[str, ...]) -> None:
    one, two = trained(tmp_path, "Looks", *settings).learner.method.embedded
    assert one.shape == two.shape == (3, 128)
    assert not one.requires_grad
    assert torch.equal(one, two) is (not settings)  # nothing else is drawn: without crops there is one view of an image


@pytest.mark.parametrize(("rule", "short"), [("l2", [0.6, 0.8]), ("lipschitz", [0.3, 0.4])])
def test_a_method_normalises_by_the_rule_of_the_protocol(tmp_path: Path, rule: str, short: list[float]) -> None:
    found = trained(tmp_path, "Looks", f"embedding.normalisation={rule}").learner.method.normalised
    torch.testing.assert_close(found, torch.tensor([[0.6, 0.8], short]))


def test_the_trainable_parameters_are_those_of_trunk_and_embedder(tmp_path: Path) -> None:
    training = trained(tmp_path, "Looks")
    wanted = [*training.model.trunk.parameters(), *training.model.embedder.parameters()]
    assert [id(weight) for weight in training.learner.method.trainable] == [id(weight) for weight in wanted]
    assert len(wanted) > 2  # the trunk has some


def test_a_penalty_is_part_of_every_loss_and_the_network_learns_from_it(tmp_path: Path) -> None:
    settings = ("max_steps=3", "cadence.evaluate_every_steps=1", "weight_decay=0.0")
    training = trained(tmp_path, "Shrinks", *settings)
    method, losses = training.learner.method, [point.loss for point in training.curve]
    assert losses[0] == pytest.approx(method.at_first)
    assert losses[0] > losses[1] > losses[2] > method.at_last > 0
