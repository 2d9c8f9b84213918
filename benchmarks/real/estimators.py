"""skl2onnx's supported estimators through weft: `python -m benchmarks.real.estimators [NAME...]`.

Each estimator that skl2onnx converts is fitted to a little data, converted as it is by default, and
run by onnxruntime and by weft. Out: a line each, and how many of those that onnxruntime runs weft
compiles and agrees on.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from skl2onnx import to_onnx
from skl2onnx._supported_operators import sklearn_operator_name_map
from skl2onnx.common.data_types import DictionaryType, FloatTensorType, StringTensorType
from sklearn import (
    cluster,
    compose,
    datasets,
    decomposition,
    ensemble,
    feature_selection,
    linear_model,
    pipeline,
    preprocessing,
    tree,
)  # fmt: skip
from sklearn.base import is_classifier, is_regressor

from benchmarks.options import append_row
from benchmarks.real.measure import measure

Array = NDArray[Any]

ROWS: Final = 30
"""Rows of an input."""

OPSETS: Final = {"": 18, "ai.onnx.ml": 3}


class Case(Struct, frozen=True):
    """How an estimator is made, the data that it is fitted to, and the type of its input where that
    is no matrix of floats.
    """

    make: Callable[[], Any]
    data: str = ""
    types: Any = None


def _logistic() -> Any:
    return linear_model.LogisticRegression(max_iter=500)


def _several(trees: Any, line: Any) -> Callable[[Any], Callable[[], Any]]:
    return lambda which: lambda: which([("a", trees()), ("b", line())])


_CLASSES = _several(lambda: tree.DecisionTreeClassifier(max_depth=3), _logistic)
_NUMBERS = _several(lambda: tree.DecisionTreeRegressor(max_depth=3), linear_model.Ridge)
_WORDS: Final = [("X", StringTensorType([None]))]


def _columns() -> Any:
    parts = [("a", preprocessing.StandardScaler(), [0, 1]), ("b", "passthrough", [2, 3])]
    return compose.ColumnTransformer(parts)


def _search() -> Any:
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(_logistic(), {"C": [0.1, 1.0]}, cv=2)


SPECIAL: Final[Mapping[str, Callable[[Any], Case]]] = {
    "CategoricalNB": lambda c: Case(c, "codes"),
    "ClassifierChain": lambda c: Case(lambda: c(_logistic()), "labels"),
    "ColumnTransformer": lambda c: Case(_columns, "iris"),
    "CountVectorizer": lambda c: Case(lambda: c(lowercase=False), "words", _WORDS),
    "DictVectorizer": lambda c: Case(
        c, "dicts", [("X", DictionaryType(StringTensorType([1]), FloatTensorType([1])))]
    ),
    "FeatureUnion": lambda c: Case(
        lambda: c([("a", preprocessing.StandardScaler()), ("b", decomposition.PCA(2))]), "iris"
    ),
    "GammaRegressor": lambda c: Case(c, "positive"),
    "GaussianRandomProjection": lambda c: Case(lambda: c(2), "iris"),
    "GridSearchCV": lambda c: Case(_search, "iris"),
    "KernelCenterer": lambda c: Case(c, "kernel"),
    "LabelBinarizer": lambda c: Case(c, "classes"),
    "LabelEncoder": lambda c: Case(c, "classes"),
    "LocalOutlierFactor": lambda c: Case(lambda: c(novelty=True), "iris"),
    "MultiOutputClassifier": lambda c: Case(lambda: c(_logistic()), "labels"),
    "MultiOutputRegressor": lambda c: Case(lambda: c(linear_model.Ridge()), "targets"),
    "MultiTaskElasticNet": lambda c: Case(c, "targets"),
    "MultiTaskElasticNetCV": lambda c: Case(c, "targets"),
    "MultiTaskLasso": lambda c: Case(c, "targets"),
    "MultiTaskLassoCV": lambda c: Case(c, "targets"),
    "OneHotEncoder": lambda c: Case(lambda: c(handle_unknown="ignore"), "codes"),
    "OneVsOneClassifier": lambda c: Case(lambda: c(_logistic()), "iris"),
    "OneVsRestClassifier": lambda c: Case(lambda: c(_logistic()), "iris"),
    "OrdinalEncoder": lambda c: Case(c, "codes"),
    "Pipeline": lambda c: Case(
        lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), _logistic()), "iris"
    ),
    "PLSRegression": lambda c: Case(c, "targets"),
    "PoissonRegressor": lambda c: Case(c, "positive"),
    "RFE": lambda c: Case(lambda: c(_logistic(), n_features_to_select=2), "iris"),
    "RFECV": lambda c: Case(lambda: c(_logistic(), cv=2), "iris"),
    "SelectFromModel": lambda c: Case(lambda: c(tree.DecisionTreeClassifier()), "iris"),
    "StackingClassifier": lambda c: Case(_CLASSES(c), "iris"),
    "StackingRegressor": lambda c: Case(_NUMBERS(c), "diabetes"),
    "TargetEncoder": lambda c: Case(c, "codes"),
    "TfidfVectorizer": lambda c: Case(lambda: c(lowercase=False), "words", _WORDS),
    "TunedThresholdClassifierCV": lambda c: Case(lambda: c(_logistic()), "binary"),
    "TweedieRegressor": lambda c: Case(c, "positive"),
    "VotingClassifier": lambda c: Case(_CLASSES(c), "iris"),
    "VotingRegressor": lambda c: Case(_NUMBERS(c), "diabetes"),
}
"""Estimators that take parameters or data of their own."""

VARIANTS: Final[Mapping[str, Case]] = {
    "OneHotEncoder of strings": Case(
        lambda: preprocessing.OneHotEncoder(handle_unknown="ignore"), "cities",
        [("X", StringTensorType([None, 2]))],
    ),
    "OrdinalEncoder of strings": Case(
        preprocessing.OrdinalEncoder, "cities", [("X", StringTensorType([None, 2]))]
    ),
    "LabelEncoder of strings": Case(
        preprocessing.LabelEncoder, "names", [("X", StringTensorType([None]))]
    ),
    "LogisticRegression of strings": Case(_logistic, "named"),
    "RandomForestClassifier of strings": Case(
        lambda: ensemble.RandomForestClassifier(5), "named"
    ),
    "KMeans of 3": Case(lambda: cluster.KMeans(3), "iris"),
    "SelectKBest of 2": Case(lambda: feature_selection.SelectKBest(k=2), "iris"),
}  # fmt: skip


def case_of(estimator: Any) -> Case:
    """How this class is made and fitted."""
    name = estimator.__name__
    if name in SPECIAL:
        return SPECIAL[name](estimator)
    made = estimator()
    return Case(estimator, "diabetes" if is_regressor(made) and not is_classifier(made) else "iris")


def data_of(name: str) -> tuple[Any, Any]:
    """Rows and targets."""
    rng = np.random.default_rng(0)
    iris, diabetes = datasets.load_iris(), datasets.load_diabetes()
    flowers, kinds = iris.data.astype(np.float32), iris.target
    cities = np.array(["rome", "oslo", "bern"])[rng.integers(0, 3, (90, 2))]
    words = np.array(["a good day", "the bad night", "good and bad", "no day at all"] * 8)
    known: dict[str, tuple[Any, Any]] = {
        "iris": (flowers, kinds),
        "binary": (flowers[:100], kinds[:100]),
        "named": (flowers, iris.target_names[kinds]),
        "labels": (flowers, np.stack([kinds, kinds > 0], 1)),
        "diabetes": (diabetes.data.astype(np.float32), diabetes.target),
        "positive": (flowers, flowers[:, 0] + 1),
        "targets": (flowers[:, :2], flowers[:, 2:]),
        "codes": (rng.integers(0, 4, (120, 3)), np.arange(120) % 2),
        "kernel": (flowers[:ROWS] @ flowers[:ROWS].T, None),
        "classes": (kinds.astype(np.int64), None),
        "cities": (cities, np.arange(90) % 2),
        "names": (cities[:, 0], None),
        "words": (words, np.arange(32) % 2),
        "dicts": ([{"a": 1.0, "b": 2.0}, {"b": 3.0, "c": 4.0}] * 5, None),
    }
    return known[name]


def converted(case: Case) -> tuple[Any, dict[str, Array]]:
    """The ONNX model of a fitted estimator, and rows for it."""
    rows, targets = data_of(case.data)
    made = case.make()
    model = made.fit(rows) if targets is None else made.fit(rows, targets)
    first = rows[:ROWS] if case.data == "kernel" else rows[:: max(1, len(rows) // ROWS)][:ROWS]
    types = {"initial_types": case.types} if case.types else {"X": first[:1]}
    inputs = {"X": first[0] if case.data == "dicts" else np.asarray(first)}
    return to_onnx(model, target_opset=OPSETS, **types), inputs


def outcome_of(case: Case) -> dict[str, Any]:
    """What weft makes of it; `peer` where nothing else does."""
    try:
        model, inputs = converted(case)
    except Exception as error:  # a converter's own failure, of which there are many types
        return {"outcome": "peer", "said": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.onnx"
        file.write_bytes(model.SerializeToString())
        return measure(file, inputs)


def main() -> None:
    """Prints a line for each estimator, and the fraction."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--record", type=Path, help="a file to append the lines to")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    np.random.seed(0)
    outcomes: list[str] = []
    for name, make in cases().items():
        if arguments.names and not any(each in name for each in arguments.names):
            continue
        row = {"estimator": name, **_outcome(make)}
        outcomes.append(str(row["outcome"]))
        print(*(f"{key}={value}" for key, value in row.items()), flush=True)
        if arguments.record:
            append_row(arguments.record, row)
    counted = [each for each in outcomes if each != "peer"]
    print(f"{counted.count('agrees')} of {len(counted)} agree")


def cases() -> dict[str, Callable[[], Case]]:
    """Every estimator of scikit-learn's that skl2onnx lists, and variants."""
    kinds = [
        estimator
        for estimator in sklearn_operator_name_map
        if estimator.__module__.startswith("sklearn.")
    ]
    own: dict[str, Callable[[], Case]] = {
        estimator.__name__: (lambda estimator=estimator: case_of(estimator)) for estimator in kinds
    }
    return own | {name: (lambda case=case: case) for name, case in VARIANTS.items()}


def _outcome(make: Callable[[], Case]) -> dict[str, Any]:
    try:
        case = make()
    except TypeError as error:  # it takes parameters
        return {"outcome": "peer", "said": str(error)[:200]}
    return outcome_of(case)


if __name__ == "__main__":
    main()
