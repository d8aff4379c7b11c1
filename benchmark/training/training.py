"""One fold model, from its job to its record: train, validate, stop, restore the best and, in a final run, test.

A pure function of the job: same job, same threads, same kind of machine, same bits, also when it was killed and goes on
from its checkpoint: the setup is done again, then what training had changed is put in its place. Nothing a method does
can end the suite: a fold that cannot go on becomes a record that names its state. The stopping rule is
`protocols.spec.Cadence`.
"""

import copy
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.jobs import Job
from benchmark.memory import peak_memory_bytes
from benchmark.methods.registry import method_entry
from benchmark.provenance import provenance
from benchmark.seeding import derived_seed, global_streams, set_global_streams, stream
from benchmark.training.checkpoint import Checkpoint, State, UnusableCheckpoint, save_best_weights
from benchmark.training.embeddings import save_embeddings
from benchmark.training.failure import FoldFailure, is_out_of_memory, one_line
from benchmark.training.features import FrozenFeatures
from benchmark.training.frozen import LinearModel, pretrained_embeddings
from benchmark.training.in_force import (
    InForce,
    images_in_force,
    network_in_force,
    numerics_in_force,
    validations_in_force,
)
from benchmark.training.learner import Learner, rows_by_batch
from protocols.audit import Audit, AuditFailure
from protocols.errors import ProtocolError
from protocols.fold import FoldImages, Indices
from protocols.metrics import Evaluation, EvaluationAudit
from protocols.model import build_model
from protocols.spec import Cadence
from results.record import Check, FoldRecord, Validation

COLLAPSED_BELOW = 1e-6  # largest spread of any embedding coordinate over the images of one evaluation


def run_fold(job: Job, bench: Bench) -> FoldRecord:
    """Run one job. Only our own slips and interrupts are raised; everything else is a record."""
    with torch.random.fork_rng(devices=[]):
        try:
            return _attempt(FoldTraining(job, bench))
        except UnusableCheckpoint as reason:
            Checkpoint(bench, job).discard(reason)
        return _attempt(FoldTraining(job, bench, resume=False))


def _attempt(training: "FoldTraining") -> FoldRecord:
    # A loss or miner may draw from any of the three global generators.
    seed = derived_seed(training.job.seed, "global generators")
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    return training.record(_failure_of(training))


def _failure_of(training: "FoldTraining") -> FoldFailure | None:
    try:
        training.run()
    except FoldFailure as failure:
        return failure
    except AuditFailure as error:
        return FoldFailure("audit", str(error))
    except (ProtocolError, OSError) as error:  # a data error is a protocol error
        return FoldFailure("data-error", one_line(error))
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        return FoldFailure("out-of-memory", one_line(error))
    return None


class FoldTraining:
    """The state of one job. With `resume` it goes on from its checkpoint, if it has left one."""

    def __init__(self, job: Job, bench: Bench, resume: bool = True) -> None:
        self.job, self.bench, self.protocol, self.resume = job, bench, bench.protocol, resume
        self.checkpoint = Checkpoint(bench, job)
        self.entry = method_entry(job.method)
        self.audit = Audit(bench.protocol)
        self.learner: Learner | None = None
        self.network: nn.Module | None = None  # what images pass through; the audit watches its batch norm
        self.trunk_weights = "none"
        self.seconds: dict[str, float] = {}
        self.curve: list[Validation] = []
        self.best_step: int | None = None
        self.best: Evaluation | None = None
        self.test: Evaluation | None = None
        self.method_state: dict[str, Any] | None = None
        self.in_force: InForce = {}
        self.peak_memory_before, self.test_images_opened_before = 0, 0  # the job went on

    def run(self) -> None:
        """Train as the method's family asks, then open the test images if this is a final run."""
        if self.entry.code != self.job.method_code:
            raise FoldFailure("method-error", f"{self.job.method} changed since this suite began; start it again.")
        with self._phase("setup"):
            self.images = FoldImages(self.bench.index, self.bench.images, self.bench.split, self.job.fold)
            self.in_force |= images_in_force(self.images) | numerics_in_force()
            self.audit.trunk_input(self.images.eval_probe, partial(self.images.train_probe, seed=self.job.seed))
            self.audit.random_crops(self.images.transform.draw)
            self.audit.classes_disjoint(
                self.images.targets,
                train=self.images.train,
                validation=self.images.validation,
                test=self.images.test,
            )
            if self.entry.embeds_with == "network":
                self._build_model()
            elif self.entry.embeds_with == "features":
                self._freeze_trunk()
        if self.entry.is_trained:
            self._train()
        elif self.entry.family == "linear":
            self._fit()
        self._finish()
        if self.learner is not None:
            self.method_state = self.learner.summary()

    def _build_model(self) -> None:
        self.model = build_model(self.protocol, stream(self.job.seed, "network")).to(self.bench.device)
        self.trunk_weights = self.model.trunk.weights_hash
        self.in_force |= network_in_force(self.model)
        self._watch(self.model)
        self.audit.embeddings(self._embed(self.images.train[: self.protocol.batch.size]))

    def _freeze_trunk(self) -> None:
        self.features = FrozenFeatures(self.bench, self.images)
        if self.features.trunk is not None:
            self.trunk_weights = self.features.weights_hash
            self._watch(self.features.trunk)

    def _watch(self, network: nn.Module) -> None:
        self.network = network
        self.audit.watch_batchnorm(network)

    def _fit(self) -> None:
        """Fit a linear metric and validate it once; there are no steps, so there is no curve."""
        with self._phase("features"):
            self.features(self.images.train)
        with self._phase("train"):
            self.linear = LinearModel(self.job, self.bench, self.entry, self.images, self.features)
        self.method_state = self.linear.summary
        self.audit.embeddings(self._embed(self.images.train[: self.protocol.batch.size]))
        with self._phase("validate"):
            self.best = self._evaluate(self.images.validation)

    def _train(self) -> None:
        with self._phase("setup"):
            learner = Learner(self.job, self.bench, self.entry, self.images, self.model, self.audit)
        self.learner = learner
        last = self.protocol.schedule.max_steps
        cadence = self.protocol.schedule.cadence_for(self.bench.index.standard_name)
        self.in_force |= learner.in_force()
        self.model.train()
        if self.resume and (state := self.checkpoint.read()) is not None:
            self._restore(learner, state)
        while not self._is_over(learner, cadence):
            with self._phase("train"):
                learner.train(min(cadence.evaluate_every_steps, last - learner.n_steps))
            with self._phase("validate"):
                self._validate(learner)
            with self._phase("checkpoint"):
                self.checkpoint.write(partial(self._state, learner))
        learner.finish()
        assert self.best_step is not None
        self.in_force |= learner.seen() | validations_in_force(self.curve, self.best_step)
        self.model.load_state_dict(self.best_weights)
        if self.bench.keep_checkpoints and self.bench.checkpoints is not None and self.job.purpose == "final":
            save_best_weights(self.bench.checkpoints, self.job.id, self.best_weights)

    def _is_over(self, learner: Learner, cadence: Cadence) -> bool:
        if self.best_step is None:
            return False
        if learner.n_steps >= self.protocol.schedule.max_steps:
            return True
        if cadence.patience_unit == "steps":
            return learner.n_steps - self.best_step > cadence.patience
        return sum(point.step > self.best_step for point in self.curve) >= cadence.patience

    def _validate(self, learner: Learner) -> None:
        mean_loss = learner.mean_loss()
        found = self._evaluate(self.images.validation)
        map_at_r = found.metrics["map_at_r"]
        self.curve.append(Validation(step=learner.n_steps, map_at_r=map_at_r, loss=mean_loss))
        if self.best is None or map_at_r > self.best.metrics["map_at_r"]:
            self.best, self.best_step = found, learner.n_steps
            self.best_weights = copy.deepcopy(self.model.state_dict())
        learner.after_validation(map_at_r)

    def _state(self, learner: Learner) -> State:
        """All that the rest of the job depends on, after a validation."""
        assert self.best is not None
        return {
            "learner": learner.state(),
            "global_streams": global_streams(self.bench.device),
            "curve": [astuple(point) for point in self.curve],
            "best_step": self.best_step,
            "best": asdict(self.best),
            "best_weights": None if self.best_step == learner.n_steps else self.best_weights,  # None: the present ones
            "seconds": dict(self.seconds),
            "peak_memory_bytes": self._peak_memory_bytes(),
            "test_images_opened": self._test_images_opened(),
        }

    def _restore(self, learner: Learner, state: State) -> None:
        try:
            learner.restore(state["learner"])
            self.curve = [
                Validation(step=step, map_at_r=map_at_r, loss=loss) for step, map_at_r, loss in state["curve"]
            ]
            self.best_step, found = state["best_step"], state["best"]
            self.best = Evaluation(found["metrics"], EvaluationAudit(**found["audit"]))
            self.best_weights = state["best_weights"] or copy.deepcopy(self.model.state_dict())
            for phase, seconds in state["seconds"].items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
            self.peak_memory_before = state["peak_memory_bytes"]
            self.test_images_opened_before = state["test_images_opened"]
            set_global_streams(state["global_streams"], self.bench.device)
        except Exception as error:  # above all a method's: one that grew, or whose set_extra_state() raises
            raise UnusableCheckpoint(f"does not fit ({one_line(error)})") from error

    def _peak_memory_bytes(self) -> int:
        return max(self.peak_memory_before, peak_memory_bytes(self.bench.device))

    def _test_images_opened(self) -> int:
        return self.test_images_opened_before + int(self.images.test_images_opened.sum())

    def _finish(self) -> None:
        if self.network is not None:
            self.audit.batchnorm_unchanged(self.network)
        before, opened = self._test_images_opened(), self.images.test_images_opened
        final = self.job.purpose == "final"
        if final:
            with self._phase("test"):
                self.images.open_test()
                self.test = self._evaluate(self.images.test, save=True)
        within = self.images.test_images_opened - opened
        self.audit.test_images_opened(before=before, within=within, final=final)

    def _evaluate(self, indices: Indices, save: bool = False) -> Evaluation:
        embeddings = self._embed(indices)
        if not bool(torch.isfinite(embeddings).all()):
            raise FoldFailure("non-finite", "the network's embeddings are not finite.")
        spread = float((embeddings.amax(dim=0) - embeddings.amin(dim=0)).max())
        if spread < COLLAPSED_BELOW:
            raise FoldFailure("collapsed", f"all {len(indices)} embeddings are the same.")
        if save:
            save_embeddings(self.bench.place, self.job.id, embeddings.cpu().numpy())
        if self.entry.embeds_with == "features" and self.entry.family == "baseline":
            embeddings = normalize(embeddings[:, : self.protocol.embedding.dim])  # the wide ones are for the ensemble
            self.audit.embeddings(embeddings)
        return self.bench.evaluate(embeddings, indices)

    def _embed(self, indices: Indices) -> torch.Tensor:
        if self.entry.family == "linear":
            return self.linear.embed(indices)
        if self.entry.embeds_with == "features":
            return pretrained_embeddings(self.bench, self.features, indices)
        if self.entry.embeds_with == "pixels":
            return rows_by_batch(indices, lambda some: normalize(self.images.eval_batch(some).flatten(1)))
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            embeddings = rows_by_batch(
                indices, lambda some: self.model(self.images.eval_batch(some).to(self.bench.device))
            )
        self.model.train(was_training)
        return embeddings

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began

    def record(self, failure: FoldFailure | None) -> FoldRecord:
        """What this job found, or how it failed."""
        steps = self.learner.n_steps if self.learner else 0
        failed = failure is not None
        return FoldRecord(
            id=self.job.id,
            identity=self.bench.identity(self.job),
            fold=self.job.fold,
            seed=self.job.seed,
            outcome="failed" if failed else "done",
            reason=failure.reason if failure else None,
            message=str(failure) if failure else None,
            curve=tuple(self.curve),
            best_step=self.best_step,
            n_steps=steps,
            n_images_seen=self.audit.n_images_seen,
            validation=self.best.metrics if self.best and not failed else None,
            test=self.test.metrics if self.test and not failed else None,
            evaluation_audit=asdict(self.test.audit) if self.test and not failed else None,
            audit=tuple(Check(name=item.name, passed=item.passed, detail=item.detail) for item in self.audit.checks),
            seconds=self.seconds,
            peak_memory_bytes=self._peak_memory_bytes(),
            provenance=provenance(self.bench, self.trunk_weights),
            method_state=self.method_state,
            in_force=self.in_force,
        )
