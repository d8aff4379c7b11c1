"""One fold model, from its job to its record: train, validate, stop, restore the best and, in a final run, test.

A pure function of the job: same job, same threads, same kind of machine, same bits. Nothing a method does can end the
suite: a fold that cannot go on becomes a record that names its state. The stopping rule is `protocols.spec.Cadence`.
"""

import copy
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.embeddings import save_embeddings
from benchmark.failure import FoldFailure, is_out_of_memory, one_line
from benchmark.jobs import Job
from benchmark.learner import Learner, in_batches
from benchmark.memory import peak_memory_bytes
from benchmark.methods.registry import method_entry
from benchmark.provenance import provenance
from benchmark.seeding import derived_seed, stream
from protocols.audit import Audit, AuditFailure
from protocols.errors import ProtocolError
from protocols.fold import FoldImages, Indices
from protocols.metrics import Evaluation
from protocols.model import build_model
from results.record import Check, FoldRecord, Validation

COLLAPSED_BELOW = 1e-6  # largest spread of any embedding coordinate over the images of one evaluation


def run_fold(job: Job, bench: Bench) -> FoldRecord:
    """Run one job. Only our own slips and interrupts are raised; everything else is a record."""
    with torch.random.fork_rng(devices=[]):
        # A loss or miner may draw from any of the three global generators.
        seed = derived_seed(job.seed, "global generators")
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        training = FoldTraining(job, bench)
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
    """The state of one job."""

    def __init__(self, job: Job, bench: Bench) -> None:
        self.job, self.bench, self.protocol = job, bench, bench.protocol
        self.entry = method_entry(job.method)
        self.audit = Audit(bench.protocol)
        self.learner: Learner | None = None
        self.trunk_weights = "none"
        self.seconds: dict[str, float] = {}
        self.curve: list[Validation] = []
        self.best_step: int | None = None
        self.best: Evaluation | None = None
        self.test: Evaluation | None = None
        self.method_state: dict[str, Any] | None = None

    def run(self) -> None:
        """Train as the method's family asks, then open the test images if this is a final run."""
        if self.entry.code != self.job.method_code:
            raise FoldFailure("method-error", f"{self.job.method} changed since this suite began; start it again.")
        with self._phase("setup"):
            self.images = FoldImages(self.bench.index, self.bench.images, self.bench.split, self.job.fold)
            self.audit.trunk_input(self.bench.images.transform.eval_tensor)
            self.audit.classes_disjoint(
                self.images.targets,
                train=self.images.train,
                validation=self.images.validation,
                test=self.images.test,
            )
            if self.entry.name != "pixels":
                self._build_model()
        if self.entry.family != "baseline":
            self._train()
        self._finish()
        if self.learner is not None:
            self.method_state = self.learner.summary()

    def _build_model(self) -> None:
        self.model = build_model(self.protocol, stream(self.job.seed, "network")).to(self.bench.device)
        self.trunk_weights = self.model.trunk.weights_hash
        self.audit.watch_batchnorm(self.model)
        self.audit.embeddings(self._embed(self.images.train[: self.protocol.batch.size]))

    def _train(self) -> None:
        with self._phase("setup"):
            learner = Learner(self.job, self.bench, self.entry, self.images, self.model, self.audit)
        self.learner = learner
        last = self.protocol.schedule.max_steps
        cadence = self.protocol.schedule.cadence_for(self.bench.index.standard_name)
        self.model.train()
        while learner.n_steps < last:
            with self._phase("train"):
                learner.train(min(cadence.evaluate_every_steps, last - learner.n_steps))
            with self._phase("validate"):
                self._validate(learner)
            stale_steps = learner.n_steps - (self.best_step or 0)
            if cadence.patience_unit == "steps" and stale_steps > cadence.patience:
                break
            if cadence.patience_unit == "evaluations" and self._stale_evaluations() >= cadence.patience:
                break
        learner.audit_training()
        self.model.load_state_dict(self.best_weights)

    def _validate(self, learner: Learner) -> None:
        mean_loss = learner.mean_loss()
        found = self._evaluate(self.images.validation)
        map_at_r = found.metrics["map_at_r"]
        self.curve.append(Validation(step=learner.n_steps, map_at_r=map_at_r, loss=mean_loss))
        if self.best is None or map_at_r > self.best.metrics["map_at_r"]:
            self.best, self.best_step = found, learner.n_steps
            self.best_weights = copy.deepcopy(self.model.state_dict())
        learner.after_validation(map_at_r)

    def _stale_evaluations(self) -> int:
        return sum(point.step > (self.best_step or 0) for point in self.curve)

    def _finish(self) -> None:
        if self.entry.name != "pixels":
            self.audit.batchnorm_unchanged(self.model)
        opened_before = self.images.test_images_opened
        if self.job.purpose == "final":
            with self._phase("test"):
                self.images.open_test()
                self.test = self._evaluate(self.images.test, save=True)
        opened, expected = self.images.test_images_opened, len(self.images.test) if self.job.purpose == "final" else 0
        self.audit.test_images_opened(before=opened_before, within=opened - opened_before, expected=expected)

    def _evaluate(self, indices: Indices, save: bool = False) -> Evaluation:
        embeddings = self._embed(indices)
        if not bool(torch.isfinite(embeddings).all()):
            raise FoldFailure("non-finite", "the network's embeddings are not finite.")
        spread = float((embeddings.amax(dim=0) - embeddings.amin(dim=0)).max())
        if spread < COLLAPSED_BELOW:
            raise FoldFailure("collapsed", f"all {len(indices)} embeddings are the same.")
        if save:
            save_embeddings(self.bench.artifacts, self.job.id, embeddings.cpu().numpy())
        return self.bench.evaluate(embeddings, indices)

    def _embed(self, indices: Indices) -> torch.Tensor:
        if self.entry.name == "pixels":
            return torch.cat([normalize(self.images.eval_batch(some).flatten(1)) for some in in_batches(indices)])
        was_training = self.model.training
        self.model.eval()
        with torch.inference_mode():
            batches = (self.images.eval_batch(some).to(self.bench.device) for some in in_batches(indices))
            embeddings = torch.cat([self.model(batch) for batch in batches])
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
            n_images_seen=steps * self.protocol.batch.size,
            validation=self.best.metrics if self.best and not failed else None,
            test=self.test.metrics if self.test and not failed else None,
            evaluation_audit=asdict(self.test.audit) if self.test and not failed else None,
            audit=tuple(Check(name=item.name, passed=item.passed, detail=item.detail) for item in self.audit.checks),
            seconds=self.seconds,
            peak_memory_bytes=peak_memory_bytes(self.bench.device),
            provenance=provenance(self.bench, self.trunk_weights),
            method_state=self.method_state,
        )
