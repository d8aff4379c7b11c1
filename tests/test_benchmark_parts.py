"""The smaller parts of a job: its door to the images, its optimiser, its ensemble, its provenance, its memory."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import MARGINS, tiny_bench
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.jobs import EnsembleJob, Job, fold_seed
from benchmark.methods.registry import build_method, method_entry
from benchmark.provenance import provenance, versions
from benchmark.seeding import derived_seed, stream
from benchmark.training.embeddings import load_embeddings, save_embeddings
from benchmark.training.ensemble import concatenate
from benchmark.training.optimisers import build_optimiser
from benchmark.training.training import FoldTraining, run_fold
from protocols.catalogue import CCP_V1, MINI_V1, MLRC_V1
from protocols.datasets.tensors import ImageTensors
from protocols.fold import FoldImages
from protocols.metrics import evaluate
from protocols.model import build_model
from results.record import from_json, to_json


def job(**changes) -> Job:
    first = Job(
        protocol="p", dataset="d", split="s", method="m", method_code="", hyperparameters=(("a", 1.0),),
        purpose="search", run=0, fold=0, seed=1,
    )  # fmt: skip
    return replace(first, **changes)


def test_a_job_is_named_by_all_that_it_is() -> None:
    changes = [
        {"protocol": "q"}, {"dataset": "e"}, {"split": "t"}, {"method": "n"}, {"method_code": "1"}, {"seed": 2},
        {"hyperparameters": (("a", 2.0),)}, {"purpose": "final"}, {"run": 1}, {"fold": 1},
    ]  # fmt: skip
    assert set().union(*changes) == asdict(job()).keys()
    ids = {job(**change).id for change in [{}, *changes]}
    assert len(ids) == 1 + len(changes)
    assert job().id == job().id


def test_an_ensemble_is_named_by_its_members_in_order() -> None:
    one, two = job(), job(fold=1)
    assert EnsembleJob(members=(one, two)).id != EnsembleJob(members=(two, one)).id != one.id


def test_streams_of_one_seed_share_nothing_and_repeat() -> None:
    assert derived_seed(1, "a") != derived_seed(1, "b") != derived_seed(2, "b")
    assert torch.equal(torch.rand(3, generator=stream(1, "a")), torch.rand(3, generator=stream(1, "a")))
    assert len({fold_seed(run, fold) for run in range(11) for fold in range(4)}) == 44


def test_the_seeds_of_the_runs_never_move() -> None:
    """They pair runs across methods, groups and years."""
    assert [fold_seed(1, fold) for fold in range(4)] == [907920035, 3299441508, 3629123669, 4180628496]


def test_labels_of_a_fold_begin_at_0_and_have_no_gaps(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    for fold, cut in enumerate(bench.split.folds):
        images = FoldImages(bench.index, bench.images, bench.split, fold)
        labels = images.labels[images.train]
        assert set(labels.tolist()) == set(range(len(cut.train)))
        names = [bench.index.classes[target] for target in bench.index.targets[images.train]]
        assert [cut.train[label] for label in labels] == names
        assert set(images.labels[np.concatenate([images.validation, images.test])].tolist()) == {-1}


def test_the_three_sides_of_a_fold_share_no_image(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    for fold in range(4):
        images = FoldImages(bench.index, bench.images, bench.split, fold)
        sides = [set(side.tolist()) for side in (images.train, images.validation, images.test)]
        assert len(set.union(*sides)) == sum(map(len, sides)) == bench.index.n_images


def groups(protocol, name: str, hyperparameters: dict) -> list[dict]:
    """The optimiser's groups for a method under a protocol, with mini's trunk so that no weights are needed."""
    model = build_model(replace(MINI_V1, embedding=protocol.embedding), stream(0, "network"))
    entry = method_entry(name)
    method = build_method(entry, 5, 128, hyperparameters)
    return build_optimiser(protocol.optimiser, model, method, entry, hyperparameters).param_groups


def test_rmsprop_is_the_reality_checks() -> None:
    network, own = groups(MLRC_V1, "norm-softmax", {"temperature": 0.1, "w_lr": 0.02})
    assert (network["lr"], network["momentum"], network["weight_decay"], network["alpha"]) == (1e-6, 0.9, 1e-4, 0.99)
    assert (own["lr"], own["momentum"], own["weight_decay"]) == (0.02, 0.9, 1e-4)


def test_betas_are_the_papers_and_proxies_learn_at_100_times_under_ccp() -> None:
    network, own = groups(CCP_V1, "norm-softmax", {"temperature": 0.1})
    assert (network["lr"], network["betas"], network["weight_decay"]) == (1e-5, (0.9, 0.99), 1e-4)
    assert own["lr"] == pytest.approx(1e-3)


def test_the_boundary_of_margin_has_no_weight_decay() -> None:
    _, own = groups(MLRC_V1, "margin", {"margin": 0.1, "init_beta": 1.0, "w_lr": 0.02})
    assert own["weight_decay"] == 0.0


def test_a_loss_without_weights_has_one_group() -> None:
    assert len(groups(MLRC_V1, "contrastive", MARGINS)) == 1


def test_a_protocol_that_fixes_the_proxies_rate_does_not_search_it(tmp_path: Path) -> None:
    entry = method_entry("norm-softmax")
    assert tiny_bench(tmp_path).space(entry).keys() == {"w_lr", "temperature"}
    assert tiny_bench(tmp_path, "proxy_lr_factor=100").space(entry).keys() == {"temperature"}


def test_in_the_warm_up_the_trunk_rests_and_the_embedder_learns(tmp_path: Path) -> None:
    def trained(*settings: str):
        bench = tiny_bench(tmp_path, "proxy_lr_factor=100", "weight_decay=0", *settings)
        started = build_model(bench.protocol, stream(fold_seed(0, 0), "network")).state_dict()
        training = FoldTraining(bench.job(method_entry("norm-softmax"), {"temperature": 0.1}, 0, 0), bench)
        training.run()
        learnt = training.model.state_dict()
        return {name for name in learnt if not torch.equal(learnt[name], started[name])}

    assert trained("proxy_warmup_steps=4") == {"embedder.weight", "embedder.bias"}
    assert any(name.startswith("trunk") for name in trained("proxy_warmup_steps=1"))


def test_the_concatenated_embedding_is_the_parts_normalised_side_by_side(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    jobs = tuple(bench.job(method_entry("untrained"), {}, 1, fold) for fold in range(4))
    for member in jobs:
        run_fold(member, bench)
    record = concatenate(EnsembleJob(members=jobs), bench)
    parts = [torch.from_numpy(load_embeddings(bench.artifacts, member.id)) for member in jobs]
    whole = normalize(torch.cat([normalize(part) for part in parts], dim=1))
    labels = torch.from_numpy(bench.index.targets[bench.index.indices_of(bench.split.test)])
    assert record.test == evaluate(whole, labels).metrics
    assert record.embedding_dim == 512
    assert record.members == tuple(member.id for member in jobs)
    assert from_json(to_json(record)) == record


def test_blocks_of_other_lengths_weigh_the_same_in_the_concatenation(tmp_path: Path) -> None:
    """Under the Lipschitz rule a vector may be shorter than 1; each block is normalised before it is joined."""
    bench = tiny_bench(tmp_path)
    jobs = tuple(bench.job(method_entry("untrained"), {}, 1, fold) for fold in range(4))
    for member in jobs:
        run_fold(member, bench)
    wanted = concatenate(EnsembleJob(members=jobs), bench).test
    save_embeddings(bench.artifacts, jobs[0].id, 0.25 * load_embeddings(bench.artifacts, jobs[0].id))
    assert concatenate(EnsembleJob(members=jobs), bench).test == wanted


def test_embeddings_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    save_embeddings(tmp_path / "e", "one", np.ones((3, 2), np.float32))
    assert [path.name for path in (tmp_path / "e").iterdir()] == ["one.npy"]
    with pytest.raises(BenchmarkError, match="cannot be read"):
        load_embeddings(tmp_path / "e", "two")
    (tmp_path / "e" / "one.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(BenchmarkError, match="cannot be read"):
        load_embeddings(tmp_path / "e", "one")


def test_a_record_says_where_it_comes_from(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    found = provenance(bench, "random")
    assert {"python", "torch", "torchvision", "pytorch-metric-learning", "optuna"} <= found.versions.keys()
    assert found.versions["torch"].startswith(torch.__version__.partition("+")[0])
    assert found.threads == 1
    assert found.code_revision
    json.dumps(versions())
    assert ("cuda" in versions()) == ("cudnn" in versions()) == torch.cuda.is_available()


def test_a_worker_computes_in_float32_with_kernels_that_repeat(tmp_path: Path) -> None:
    torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True  # what torch, or a user's loss, may set
    torch.use_deterministic_algorithms(False)
    tiny_bench(tmp_path)
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32
    assert not torch.backends.cudnn.benchmark
    assert torch.are_deterministic_algorithms_enabled()


def test_a_worker_decodes_its_own_images(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    assert isinstance(bench.images, ImageTensors)
    assert "images" not in bench.__getstate__()


def test_queries_search_the_gallery_where_a_data_set_has_one(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    test = bench.index.indices_of(bench.split.test)
    gallery = np.zeros(bench.index.n_images, bool)
    gallery[test[::2]] = True
    split_up = replace(bench, index=replace(bench.index, gallery=gallery))
    record = run_fold(split_up.job(method_entry("untrained"), {}, 1, 0), split_up)
    embeddings = torch.from_numpy(load_embeddings(bench.artifacts, record.id))
    labels = torch.from_numpy(bench.index.targets[test])
    queries = embeddings[1::2], labels[1::2]
    assert record.test == evaluate(*queries, gallery=embeddings[::2], gallery_labels=labels[::2]).metrics
    assert record.test != evaluate(embeddings, labels).metrics
