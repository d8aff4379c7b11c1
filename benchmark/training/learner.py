"""The learning side of a fold: batches in, one optimiser step at a time, with the method's hooks around it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.jobs import Job
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import build_method
from benchmark.seeding import derived_seed, stream
from benchmark.training.context import Context
from benchmark.training.failure import FoldFailure, raised_by_method
from benchmark.training.graphs import graphed
from benchmark.training.in_force import InForce, coverage_in_force, draws_in_force, training_in_force
from benchmark.training.method_memory import MethodMemory
from benchmark.training.optimisers import build_optimiser
from protocols.audit import Audit, AuditFailure
from protocols.draws import Draws
from protocols.fold import FoldImages, Indices
from protocols.model import EmbeddingModel, normalised
from protocols.sampler import BatchSampler, batch_plan
from results.errors import ResultsError
from results.strict import plain

EVAL_BATCH = 64  # fixed: another size could change the last bits of an embedding


class Learner:
    """Network, method, sampler and optimiser of one job. `losses` holds those since the last validation."""

    def __init__(
        self, job: Job, bench: Bench, entry: MethodEntry, images: FoldImages, model: EmbeddingModel, audit: Audit
    ) -> None:
        protocol, hyperparameters = bench.protocol, dict(job.hyperparameters)
        n_classes = len(images.images_by_class)
        family: Literal["pair", "class"] = "class" if entry.family == "class" else "pair"
        plan = batch_plan(protocol.batch, family, n_classes)
        audit.expect_batches(plan.counts)
        self._images, self._model, self._audit, self._device = images, model, audit, torch.device(bench.device)
        self._sampler = BatchSampler(images.images_by_class, plan, derived_seed(job.seed, "batches"))
        self._augmentation = np.random.default_rng(derived_seed(job.seed, "augmentation"))
        self._method_augmentation = np.random.default_rng(derived_seed(job.seed, "augmentation for the method"))
        self._network: Callable[[torch.Tensor], torch.Tensor] = model
        if bench.cuda_graphs:
            side_px = protocol.transforms.crop_px
            self._network = graphed(
                model, (sum(plan.counts), images.transform.n_channels, side_px, side_px), self._device
            )
        self.method = _build(entry, n_classes, protocol.embedding.dim, hyperparameters, job).to(self._device).train()
        self._optimiser = build_optimiser(protocol.optimiser, model, self.method, entry, hyperparameters)
        self._optimiser.register_step_post_hook(lambda *_: audit.optimiser_stepped())
        self._warmup_steps = protocol.optimiser.proxy_warmup_steps if family == "class" else 0
        self._context = Context(
            n_classes=n_classes,
            embedding_dim=protocol.embedding.dim,
            images_by_class=images.images_by_class,
            embed=self._embed_for_method,
            trainable_parameters=tuple(model.trainable_parameters()),
            generator=stream(job.seed, "method hooks"),
            normalise=partial(normalised, rule=model.normalisation),
            reset_optimiser=self._reset_optimiser,
            class_names=bench.split.folds[job.fold].train,
            super_classes=bench.super_classes(job.fold),
        )
        self._penalty = getattr(self.method, "penalty", None)
        self._after_step = getattr(self.method, "after_step", None)
        self._losses: list[torch.Tensor] = []
        self.n_steps = 0
        self._call("begin", self._context)
        self._memory = MethodMemory(self.method)

    def train(self, n_steps: int) -> None:
        """Learn from the next `n_steps` batches. The losses stay on the device until `mean_loss` asks."""
        # All are drawn first: between steps, which empty the processor's caches, drawing one takes six times as long.
        for chosen, labels, seeds in [self._draw() for _ in range(n_steps)]:
            self._step(chosen, labels, seeds)

    def _draw(self) -> tuple[Indices, Indices, list[int]]:
        """The images of the next batch, their labels and the seeds of their augmentation."""
        chosen = self._sampler.next()
        labels = self._images.labels[chosen]
        self._audit.batch_dealt(labels)
        return chosen, labels, _seeds(self._augmentation, len(chosen))

    def _step(self, chosen: Indices, labels: Indices, seeds: list[int]) -> None:
        """One batch through trunk, method and optimiser."""
        embeddings = self._network(self._train_images(chosen, seeds))
        self._watch(labels)
        with self._methods_code():
            loss = self.method(embeddings, torch.from_numpy(labels).to(self._device, non_blocking=True))
            if self._penalty is not None:
                loss = loss + self._penalty(self._context)
            _refuse_unless_differentiable(loss)
            self._optimiser.zero_grad(set_to_none=True)  # zeros would not do: `benchmark.training.graphs`
            loss.backward()
        if self.n_steps < self._warmup_steps:
            for parameter in self._model.trunk.parameters():
                parameter.grad = None
        self._optimiser.step()
        self._losses.append(loss.detach())
        self.n_steps += 1
        if self._after_step is not None:
            with self._methods_code():
                self._after_step(self.n_steps, self._context)

    def _watch(self, on_host: Indices) -> None:
        """Have the audit told of what the method is given next: by the method itself, so that nothing comes between.

        Only of the next call: a method may call itself. Labels on a device are not read, which would wait for it.
        """

        def tell(method: nn.Module, given: tuple[torch.Tensor, torch.Tensor]) -> None:
            hook.remove()
            embeddings, labels = given
            told = labels.numpy() if labels.device.type == "cpu" else on_host
            self._audit.batch_given(told, len(embeddings))

        hook = self.method.register_forward_pre_hook(tell)

    def mean_loss(self) -> float:
        """The mean loss since the last call.

        Raises:
            FoldFailure: if one of them was not finite; its step is named.
        """
        window = torch.stack(self._losses).cpu()
        first = self.n_steps - len(window) + 1
        broken = (~torch.isfinite(window)).nonzero()
        if len(broken):
            at = int(broken[0])
            raise FoldFailure("non-finite", f"the loss was {float(window[at])} at step {first + at}.")
        self._losses.clear()
        return float(window.mean())

    def finish(self) -> None:
        """Prove that every step had its planned batch, and let the method see the network as training left it."""
        self._audit.training_finished(self.n_steps, self._images.drawn.n_images)
        self._call("finish", self._context)

    def in_force(self) -> InForce:
        """Optimiser and batches as they are."""
        return training_in_force(self._optimiser, self._sampler.counts, self._warmup_steps)

    def seen(self) -> InForce:
        """Which share of the training images and classes the batches so far had, and what was drawn for the images."""
        return coverage_in_force(self._sampler.coverage()) | draws_in_force(self._images.drawn)

    def after_validation(self, map_at_r: float) -> None:
        """Tell the method what the validation found."""
        self._call("after_validation", map_at_r, self._context)

    def state(self) -> dict[str, Any]:
        """All that the next steps depend on, as plain values; after a validation, when no loss waits for `mean_loss`.

        Raises:
            CannotBeKept: if the method has something else in its memory.
        """
        return {
            "n_steps": self.n_steps,
            "network": self._model.state_dict(),
            "method": self._memory.state(),
            "optimiser": self._optimiser.state_dict(),
            "sampler": self._sampler.state_dict(),
            "steps_checked": self._audit.steps_checked(),
            "drawn": asdict(self._images.drawn),
            "augmentation": [random.bit_generator.state for random in (self._augmentation, self._method_augmentation)],
            "method_hooks": self._context.generator.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where the learner of the same job stood that gave `state`."""
        self.n_steps = state["n_steps"]
        self._model.load_state_dict(state["network"])
        self._memory.restore(state["method"])
        self._optimiser.load_state_dict(state["optimiser"])
        self._sampler.load_state_dict(state["sampler"])
        self._audit.resume(state["steps_checked"])
        self._images.drawn = Draws(**state["drawn"])
        self._augmentation.bit_generator.state, self._method_augmentation.bit_generator.state = state["augmentation"]
        self._context.generator.set_state(state["method_hooks"])

    def summary(self) -> dict[str, Any] | None:
        """What the method says of itself at the end, if it has a `summary()`.

        Raises:
            FoldFailure: if that is no dictionary of JSON values; a record could not keep it.
        """
        found = self._call("summary")
        if found is not None and not isinstance(found, dict):
            raise FoldFailure("method-error", f"summary() returned {type(found).__name__}; wanted a dictionary.")
        try:
            summary: dict[str, Any] | None = plain(found, "summary()")
        except ResultsError as error:
            raise FoldFailure("method-error", str(error)) from None
        return summary

    def _call(self, hook: str, *arguments: object) -> Any:
        function = getattr(self.method, hook, None)
        if function is None:
            return None
        with self._methods_code():
            return function(*arguments)

    @contextmanager
    def _methods_code(self) -> Iterator[None]:
        """An error from inside is the method's, unless a loss before it was already not finite."""
        try:
            yield
        except AuditFailure:  # of what the method was given
            raise
        except (Exception, SystemExit) as error:
            if self._losses:
                self.mean_loss()
            raise raised_by_method(error) from error

    def _train_images(self, chosen: Indices, seeds: list[int]) -> torch.Tensor:
        return self._images.train_batch(chosen, seeds).to(self._device, non_blocking=True)

    def _reset_optimiser(self, parameters: Iterable[nn.Parameter]) -> None:
        for parameter in parameters:
            self._optimiser.state.pop(parameter, None)

    def _embed_for_method(self, indices: Indices) -> torch.Tensor:
        was_training = self._model.training
        self._model.eval()
        with torch.no_grad():
            draws = [(some, _seeds(self._method_augmentation, len(some))) for some in in_batches(indices)]
            parts = [self._model(self._train_images(some, seeds)) for some, seeds in draws]
        self._model.train(was_training)
        return torch.cat(parts)


def in_batches(indices: Indices) -> list[Indices]:
    """Consecutive pieces of at most `EVAL_BATCH` indices."""
    return [indices[start : start + EVAL_BATCH] for start in range(0, len(indices), EVAL_BATCH)]


def rows_by_batch(indices: Indices, rows: Callable[[Indices], torch.Tensor]) -> torch.Tensor:
    """(N, D) of (B, D) for some images after the others; pieces that are joined at the end would take twice as much."""
    whole, start = torch.empty(0), 0
    for some in in_batches(indices):
        part = rows(some)
        if start == 0:
            whole = part.new_empty((len(indices), part.shape[1]))
        whole[start : start + len(some)] = part
        start += len(some)
    return whole


def _seeds(generator: np.random.Generator, n_images: int) -> list[int]:
    seeds: list[int] = generator.integers(0, 2**63, size=n_images).tolist()
    return seeds


def _build(entry: MethodEntry, n_classes: int, dim: int, hyperparameters: dict[str, Any], job: Job) -> nn.Module:
    with torch.random.fork_rng(devices=[]):  # proxies and weights are drawn from torch's global generator
        torch.manual_seed(derived_seed(job.seed, "method"))
        try:
            return build_method(entry, n_classes, dim, hyperparameters)
        except BenchmarkError as error:
            raise FoldFailure("method-error", str(error)) from None
        except Exception as error:
            raise raised_by_method(error) from error


def _refuse_unless_differentiable(loss: object) -> None:
    if not isinstance(loss, torch.Tensor) or loss.ndim:
        found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise FoldFailure("method-error", f"forward() returned {found}; a loss is a scalar tensor.")
    if not loss.requires_grad:
        raise FoldFailure("method-error", "the loss depends neither on the embeddings nor on the method's weights.")
