"""Methods that the package does not ship: what a user's file may say, and the one line told when it is wrong."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
import pytorch_metric_learning
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from pytorch_metric_learning import losses

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import W_LR, own_weights_lr
from benchmark.methods.registry import METHODS, build_method, check_hyperparameters, method_entry, space_json
from benchmark.methods.user import installed_names, pml_names

HEAD = """
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

"""
PLAIN = """
class Plain(torch.nn.Module):
    "Half the distance to the first embedding."
    def forward(self, embeddings, labels):
        return (embeddings - embeddings[:1]).norm(dim=1).mean() / 2
"""


@pytest.fixture
def write(tmp_path):
    """Write a file of methods and name a class of it."""

    def write(body: str, class_name: str = "Loss", head: str = HEAD) -> str:
        path = tmp_path / "my_losses.py"
        path.write_text(head + body, encoding="utf-8")
        return f"{path}:{class_name}"

    return write


def loss_class(constructor: str, body: str = "pass", attributes: str = "") -> str:
    return f"""
class Loss(torch.nn.Module):
    {attributes}
    def __init__(self, {constructor}):
        super().__init__()
        {body}

    def forward(self, embeddings, labels):
        return embeddings.sum()
"""


def refusal(name: str) -> str:
    with pytest.raises(BenchmarkError) as caught:
        method_entry(name).space(7)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_plain_class_is_a_pair_method_with_nothing_to_search(write) -> None:
    name = write(PLAIN, "Plain")
    entry = method_entry(name)
    assert (entry.name, entry.family, entry.space(7)) == (name, "pair", {})
    assert entry.formula == "Half the distance to the first embedding."
    embeddings = torch.eye(3)
    assert build_method(entry, 7, 3, {})(embeddings, torch.arange(3)).item() == pytest.approx(2**0.5 / 3)


def test_the_code_of_a_file_is_its_sha256_and_an_edit_is_seen_at_once(write) -> None:
    name = write(loss_class(""))
    before = method_entry(name)
    assert before.code == sha256(Path(name.rpartition(":")[0]).read_bytes()).hexdigest()[:12]
    write(loss_class("", attributes="family = 'class'"))
    after = method_entry(name)
    assert (before.family, after.family) == ("pair", "class")
    assert before.code != after.code


def test_a_file_runs_once_for_one_content(write) -> None:
    name = write(PLAIN, "Plain")
    first, again = (build_method(method_entry(name), 7, 3, {}) for _ in range(2))
    assert type(first) is type(again)


def test_a_file_leaves_no_compiled_copy_beside_it(write, tmp_path) -> None:
    method_entry(write(PLAIN, "Plain"))
    assert [path.name for path in tmp_path.iterdir()] == ["my_losses.py"]


@pytest.mark.parametrize("n_classes", ["n_classes", "num_classes"])
@pytest.mark.parametrize("width", ["embedding_dim", "embedding_size"])
def test_a_constructor_gets_the_sizes_under_the_names_that_it_takes(write, n_classes, width) -> None:
    body = f"self.weights = torch.nn.Parameter(torch.zeros({n_classes}, {width}))"
    entry = method_entry(write(loss_class(f"{n_classes}, {width}=5", body)))
    assert entry.family == "class"
    assert entry.space(7) == {W_LR: own_weights_lr()}
    assert build_method(entry, 7, 3, {W_LR: 0.1}).weights.shape == (7, 3)


def test_sizes_reach_a_parent_class_through_keyword_arguments(write) -> None:
    body = loss_class("n_classes", "self.n = n_classes") + (
        "class Child(Loss):\n    def __init__(self, *, margin=0.5, **rest):\n        super().__init__(**rest)\n"
    )
    assert build_method(method_entry(write(body, "Child")), 7, 3, {}).n == 7


def test_a_space_may_be_a_dict_and_every_kind_of_distribution_reaches_the_constructor(write) -> None:
    space = """search_space = {
        "margin": FloatDistribution(0.0, 1.0),
        "scale": FloatDistribution(1.0, 100.0, log=True),
        "step": FloatDistribution(0.0, 1.0, step=0.25),
        "bins": IntDistribution(2, 9),
        "kind": CategoricalDistribution(["soft", "hard"]),
    }"""
    entry = method_entry(
        write(loss_class("margin, scale, step, bins, kind", "self.given = (margin, scale, step, bins, kind)", space))
    )
    assert entry.space(7) == {
        "margin": FloatDistribution(0.0, 1.0),
        "scale": FloatDistribution(1.0, 100.0, log=True),
        "step": FloatDistribution(0.0, 1.0, step=0.25),
        "bins": IntDistribution(2, 9),
        "kind": CategoricalDistribution(["soft", "hard"]),
    }
    given = {"margin": 0.5, "scale": 2.0, "step": 0.25, "bins": 3, "kind": "hard"}
    assert build_method(entry, 7, 3, given).given == (0.5, 2.0, 0.25, 3, "hard")
    with pytest.raises(BenchmarkError, match=r"'kind' is 'medium'; it must be one of 'soft', 'hard'"):
        check_hyperparameters(entry, 7, {**given, "kind": "medium"})


def test_a_space_may_be_a_function_of_the_class_count(write) -> None:
    space = "search_space = staticmethod(lambda n_classes: {'k': IntDistribution(2, n_classes // 2)})"
    assert method_entry(write(loss_class("k", attributes=space))).space(20) == {"k": IntDistribution(2, 10)}


def test_looking_a_method_up_leaves_the_random_state_alone(write) -> None:
    name = write(loss_class("n_classes", "self.weights = torch.nn.Parameter(torch.randn(n_classes))"))
    before = torch.random.get_rng_state()
    for entry in (method_entry(name), method_entry("pml:ProxyAnchorLoss")):
        entry.space(7)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_missing_file_a_missing_class_and_an_unnamed_class_say_the_way_out(write, tmp_path) -> None:
    assert "nothing.py: cannot be read (No such file or directory)" in refusal(f"{tmp_path}/nothing.py:Loss")
    (tmp_path / "folder.py").mkdir()
    assert "folder.py: cannot be read (Is a directory)" in refusal(f"{tmp_path}/folder.py:Loss")
    assert "no class named 'Plane'. Did you mean 'Plain'?" in refusal(write(PLAIN, "Plane"))
    unnamed = refusal(write(PLAIN, "").rstrip(":"))
    assert "no class is named." in unnamed
    assert unnamed.endswith("my_losses.py:ClassName; the file has Plain.")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("x = (", "line 1: SyntaxError: '(' was never closed"),
        ("import no_such_package", "line 1: ModuleNotFoundError: No module named 'no_such_package'"),
        ("\n1 / 0", "line 2: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "line 1: SystemExit: 3"),
    ],
)
def test_an_error_in_the_file_is_told_with_its_line(write, body, told) -> None:
    assert f"my_losses.py, {told}." in refusal(write(body, head=""))


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("class Loss: pass", "is no subclass of torch.nn.Module"),
        ("def Loss(embeddings, labels): pass", "is no subclass of torch.nn.Module"),
        (loss_class("", attributes="family = 'triplet'"), "its family is 'triplet'; it must be 'pair' or 'class'"),
        (loss_class("", attributes="search_space = ['margin']"), "it must be a dict of Optuna distributions"),
        (loss_class("", attributes="search_space = {'margin': (0, 1)}"), "it must be a dict of Optuna distributions"),
        (
            loss_class("", attributes="search_space = staticmethod(lambda n_classes: 1 / 0)"),
            "its search_space(7) failed: ZeroDivisionError: division by zero",
        ),
        (
            loss_class("margin", attributes="search_space = {'margn': FloatDistribution(0, 1)}"),
            "argument 'margn'. Did you mean 'margin'? Its constructor takes margin; w_lr, the learning rate",
        ),
        (
            loss_class("margin", attributes="search_space = {k: FloatDistribution(0, 1) for k in ('margin', 'lr')}"),
            "unexpected keyword argument 'lr'. Its constructor takes margin; w_lr, the learning rate of weights of its",
        ),
        (loss_class("margin"), "missing 1 required positional argument: 'margin'"),
        (
            loss_class("", attributes="search_space = {'w_lr': FloatDistribution(0.1, 1)}"),
            "its search_space has 'w_lr' but the class owns no weights",
        ),
    ],
)
def test_a_class_that_cannot_serve_is_refused_in_one_line(write, body, told) -> None:
    assert told in refusal(write(body))


def test_a_loss_of_the_library_is_taken_with_its_own_defaults() -> None:
    entry = method_entry("pml:CircleLoss")
    assert (entry.family, entry.space(7), entry.code) == ("pair", {}, pytorch_metric_learning.__version__)
    embeddings, labels = torch.randn(8, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 4
    assert build_method(entry, 4, 4, {})(embeddings, labels) == losses.CircleLoss()(embeddings, labels)


def test_a_loss_of_the_library_with_class_weights_gets_its_sizes_and_a_learning_rate() -> None:
    entry = method_entry("pml:SubCenterArcFaceLoss")  # its class count stands in a parent's constructor
    assert (entry.family, list(entry.space(7))) == ("class", [W_LR])
    assert build_method(entry, 7, 5, {W_LR: 0.1}).W.shape == (5, 21)


def test_an_optional_class_count_of_the_library_stays_at_its_default() -> None:
    entry = method_entry("pml:MarginLoss")
    assert entry.family == "pair"
    assert build_method(entry, 7, 5, {}).beta.shape == (1,)


@pytest.mark.parametrize("name", pml_names())
def test_every_class_of_the_library_serves_or_is_refused_in_one_line(name) -> None:
    wrappers_and_others = {
        *("BaseLossWrapper", "BaseMetricLossFunction", "CrossBatchMemory", "GenericPairLoss", "ManifoldLoss"),
        *("MultipleLosses", "RankedListLoss", "SelfSupervisedLoss", "VICRegLoss"),
    }
    if name in wrappers_and_others:
        assert "cannot be used by its name alone" in refusal(f"pml:{name}")
    else:
        assert method_entry(f"pml:{name}").space(7).keys() <= {W_LR}


def test_an_unknown_loss_of_the_library_is_refused_with_the_nearest_name() -> None:
    assert "no class 'CircelLoss'. Did you mean 'pml:CircleLoss'?" in refusal("pml:CircelLoss")
    assert "no class 'EmbeddingRegularizerMixin'" in refusal("pml:EmbeddingRegularizerMixin")


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """An installed distribution, version 1.2, that brings methods, one of them gone, one under a name of ours."""
    (tmp_path / "plug.py").write_text(
        HEAD + PLAIN + "from dataclasses import replace\nfrom benchmark.methods.triplet import ENTRY as TRIPLET\n"
    )
    described = tmp_path / "plug-1.2.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1.2\n")
    (described / "entry_points.txt").write_text(
        "[mlrc.methods]\nplain=plug:Plain\nmine=plug:TRIPLET\ngone=plug:Gone\ntriplet=plug:Plain\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plug_in")
def test_an_installed_package_brings_methods_as_classes_or_entries() -> None:
    assert {"plain", "mine", "gone"} <= set(installed_names())
    plain, mine = method_entry("plain"), method_entry("mine")
    assert (plain.name, plain.code, plain.family) == ("plain", "1.2", "pair")
    assert (mine.name, mine.code, mine.formula) == ("mine", "1.2", METHODS["triplet"].formula)
    assert method_entry("triplet") is METHODS["triplet"]
    assert "'plian'. Did you mean 'plain'?" in refusal("plian")


@pytest.mark.usefixtures("plug_in")
def test_a_plug_in_that_cannot_be_imported_is_refused_in_one_line() -> None:
    assert "gone: its plug-in plug:Gone cannot be imported: AttributeError" in refusal("gone")


def test_numbers_of_numpy_in_a_search_space_become_pythons_own(write) -> None:
    space = (
        "search_space = {'a': IntDistribution(numpy.int64(1), numpy.int64(3)), "
        "'b': CategoricalDistribution([numpy.int64(2), numpy.float64(0.5)])}"
    )
    name = write(loss_class("a, b", attributes=space), head=f"import numpy{HEAD}")
    with pytest.warns(UserWarning, match="Choices for a categorical"):  # Optuna's, of the file's own line
        found = method_entry(name).space(7)
    assert json.loads(space_json(found))["b"]["attributes"]["choices"] == [2, 0.5]


@pytest.mark.parametrize(
    ("distribution", "said"),
    [
        ("FloatDistribution(0.0, float('inf'))", "from 0.0 to inf; give finite bounds"),
        ("CategoricalDistribution([(1, 2), (3, 4)])", "has the choice (1, 2)"),
        ("CategoricalDistribution([None, 1])", "has the choice None"),
    ],
)
@pytest.mark.filterwarnings("ignore:Choices for a categorical")
def test_a_search_space_that_cannot_be_stored_is_refused(write, distribution: str, said: str) -> None:
    assert said in refusal(write(loss_class("a", attributes=f"search_space = {{'a': {distribution}}}")))
