"""Classical pipelines of scikit-learn, XGBoost and LightGBM as ONNX files, through the converters.

In: nothing. Out: models with the rows of a data set as inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import lightgbm
import numpy as np
import xgboost
from msgspec import Struct
from numpy.typing import NDArray
from onnxmltools import convert_lightgbm, convert_xgboost
from onnxmltools.convert.common import data_types as more_types
from skl2onnx import to_onnx
from skl2onnx.common.data_types import StringTensorType
from sklearn import (
    calibration,
    cluster,
    compose,
    datasets,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_extraction,
    feature_selection,
    gaussian_process,
    impute,
    linear_model,
    mixture,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    svm,
    tree,
)  # fmt: skip

Array = NDArray[Any]
Made = tuple[str, bytes, dict[str, Array]]

ROWS: Final = 40
"""Rows of an input."""

OPSETS: Final = {"": 18, "ai.onnx.ml": 3}
"""The last that the converters write whole."""


class Classical(Struct, frozen=True):
    """An estimator and the data set that it is fitted to; `double` for inputs of float64."""

    make: Callable[[], Any]
    data: str = "iris"
    double: bool = False
    options: Mapping[str, Any] | None = None


def _scaled(*steps: Any) -> Callable[[], Any]:
    return lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), *steps)


def _piped(*steps: Any) -> Callable[[], Any]:
    return lambda: pipeline.make_pipeline(*steps)


def _mixed_columns() -> Any:
    parts = [
        ("scaled", preprocessing.StandardScaler(), [0, 1]),
        ("binned", preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), [2]),
        ("kept", "passthrough", [3]),
    ]
    return pipeline.make_pipeline(
        compose.ColumnTransformer(parts), linear_model.LogisticRegression()
    )


def _voting() -> Any:
    parts = [("trees", ensemble.RandomForestClassifier(10)), ("bayes", naive_bayes.GaussianNB())]
    return ensemble.VotingClassifier(parts, voting="soft", flatten_transform=False)


def _stacking() -> Any:
    parts = [("tree", tree.DecisionTreeRegressor(max_depth=4)), ("line", linear_model.Ridge())]
    return ensemble.StackingRegressor(parts)


def _words() -> Any:
    counted = feature_extraction.text.TfidfVectorizer(lowercase=False)
    return pipeline.make_pipeline(counted, linear_model.LogisticRegression())


_ARRAYS: Final = {"zipmap": False}

CLASSICAL: Final[Mapping[str, Classical]] = {
    "logistic": Classical(linear_model.LogisticRegression),
    "logistic_arrays": Classical(linear_model.LogisticRegression, options=_ARRAYS),
    "logistic_columns": Classical(linear_model.LogisticRegression, options={"zipmap": "columns"}),
    "logistic_binary": Classical(_scaled(linear_model.LogisticRegression()), "cancer"),
    "logistic_double": Classical(
        linear_model.LogisticRegression, double=True, options=_ARRAYS
    ),
    "logistic_text_classes": Classical(linear_model.LogisticRegression, "iris_names"),
    "linear": Classical(linear_model.LinearRegression, "diabetes"),
    "ridge_double": Classical(linear_model.Ridge, "diabetes", double=True),
    "lasso": Classical(linear_model.Lasso, "diabetes"),
    "poisson": Classical(linear_model.PoissonRegressor, "diabetes"),
    "sgd_classifier": Classical(_scaled(linear_model.SGDClassifier(loss="log_loss"))),
    "sgd_regressor": Classical(_scaled(linear_model.SGDRegressor()), "diabetes"),
    "perceptron": Classical(linear_model.Perceptron),
    "linear_svc": Classical(svm.LinearSVC, options=None),
    "svc": Classical(lambda: svm.SVC()),
    "svc_binary": Classical(_scaled(svm.SVC()), "cancer"),
    "svc_polynomial": Classical(lambda: svm.SVC(kernel="poly", degree=2)),
    "svc_sigmoid": Classical(_scaled(svm.SVC(kernel="sigmoid"))),
    "nu_svc": Classical(lambda: svm.NuSVC(nu=0.2)),
    "svr": Classical(svm.SVR, "diabetes"),
    "one_class_svm": Classical(svm.OneClassSVM),
    "tree_classifier": Classical(tree.DecisionTreeClassifier),
    "tree_regressor": Classical(tree.DecisionTreeRegressor, "diabetes"),
    "tree_outputs": Classical(lambda: tree.DecisionTreeRegressor(max_depth=5), "two_targets"),
    "forest_classifier": Classical(lambda: ensemble.RandomForestClassifier(50), "digits"),
    "forest_binary": Classical(lambda: ensemble.RandomForestClassifier(30), "cancer"),
    "forest_regressor": Classical(lambda: ensemble.RandomForestRegressor(50), "diabetes"),
    "extra_trees": Classical(lambda: ensemble.ExtraTreesClassifier(30)),
    "boosted_classifier": Classical(lambda: ensemble.GradientBoostingClassifier(n_estimators=20)),
    "boosted_binary": Classical(ensemble.GradientBoostingClassifier, "cancer"),
    "boosted_regressor": Classical(ensemble.GradientBoostingRegressor, "diabetes"),
    "histogram_classifier": Classical(lambda: ensemble.HistGradientBoostingClassifier(max_iter=20)),
    "histogram_regressor": Classical(ensemble.HistGradientBoostingRegressor, "gaps"),
    "ada_classifier": Classical(lambda: ensemble.AdaBoostClassifier(n_estimators=10)),
    "bagging": Classical(lambda: ensemble.BaggingClassifier(n_estimators=5)),
    "voting": Classical(_voting),
    "stacking": Classical(_stacking, "diabetes"),
    "isolation_forest": Classical(lambda: ensemble.IsolationForest(n_estimators=20)),
    "neighbours_classifier": Classical(neighbors.KNeighborsClassifier),
    "neighbours_regressor": Classical(neighbors.KNeighborsRegressor, "diabetes"),
    "bayes_gaussian": Classical(naive_bayes.GaussianNB),
    "bayes_multinomial": Classical(naive_bayes.MultinomialNB, "digits"),
    "bayes_bernoulli": Classical(lambda: naive_bayes.BernoulliNB(binarize=8.0), "digits"),
    "discriminant": Classical(discriminant_analysis.LinearDiscriminantAnalysis),
    "discriminant_quadratic": Classical(discriminant_analysis.QuadraticDiscriminantAnalysis),
    "perceptrons_classifier": Classical(lambda: neural_network.MLPClassifier((16,), max_iter=50)),
    "perceptrons_regressor": Classical(
        lambda: neural_network.MLPRegressor(hidden_layer_sizes=(16,), max_iter=50), "diabetes"
    ),
    "k_means": Classical(lambda: cluster.KMeans(3)),
    "mixture": Classical(lambda: mixture.GaussianMixture(3)),
    "gaussian_process": Classical(gaussian_process.GaussianProcessRegressor, "diabetes"),
    "components": Classical(
        _piped(decomposition.PCA(10), linear_model.LogisticRegression(max_iter=500)), "digits"
    ),
    "scaled_range": Classical(
        _piped(preprocessing.MinMaxScaler(), linear_model.LogisticRegression())
    ),
    "normalised": Classical(_piped(preprocessing.Normalizer(), linear_model.LogisticRegression())),
    "polynomial": Classical(
        _piped(preprocessing.PolynomialFeatures(2), linear_model.Ridge()), "diabetes"
    ),
    "powers": Classical(_piped(preprocessing.PowerTransformer(), linear_model.Ridge()), "iris"),
    "one_hot": Classical(
        _piped(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear_model.Ridge()), "codes"
    ),
    "ordinal": Classical(_piped(preprocessing.OrdinalEncoder(), linear_model.Ridge()), "codes"),
    "filled": Classical(
        _piped(impute.SimpleImputer(), ensemble.RandomForestRegressor(10)), "gaps"
    ),
    "filled_median": Classical(
        _piped(impute.SimpleImputer(strategy="median"), linear_model.Lasso()), "gaps"
    ),
    "columns": Classical(_mixed_columns),
    "calibrated": Classical(lambda: calibration.CalibratedClassifierCV(svm.LinearSVC())),
    "one_against_rest": Classical(lambda: multiclass.OneVsRestClassifier(svm.LinearSVC())),
    "many_outputs": Classical(
        lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()), "two_targets"
    ),
    "selected": Classical(
        _piped(feature_selection.SelectKBest(k=2), linear_model.LogisticRegression())
    ),
    "words": Classical(_words, "sentences"),
    "xgboost_classifier": Classical(lambda: xgboost.XGBClassifier(n_estimators=20)),
    "xgboost_binary": Classical(lambda: xgboost.XGBClassifier(n_estimators=50), "cancer"),
    "xgboost_regressor": Classical(lambda: xgboost.XGBRegressor(n_estimators=50), "diabetes"),
    "lightgbm_classifier": Classical(lambda: lightgbm.LGBMClassifier(n_estimators=20, verbose=-1)),
    "lightgbm_binary": Classical(
        lambda: lightgbm.LGBMClassifier(n_estimators=50, verbose=-1), "cancer"
    ),
    "lightgbm_regressor": Classical(
        lambda: lightgbm.LGBMRegressor(n_estimators=50, verbose=-1), "diabetes"
    ),
}  # fmt: skip

SENTENCES: Final = ["a good day", "the bad night", "good and bad", "night and day", "no day at all"]


def _data(name: str) -> tuple[Any, Any]:
    """Rows and targets, from scikit-learn's own data sets."""
    rng = np.random.default_rng(7)
    diabetes: Any = datasets.load_diabetes(return_X_y=True)
    if name == "iris_names":
        iris: Any = datasets.load_iris()
        return iris.data, iris.target_names[iris.target]
    if name == "two_targets":
        return diabetes[0], np.stack([diabetes[1], diabetes[1] ** 0.5], 1)
    if name == "gaps":
        rows = diabetes[0].copy()
        rows[rng.random(rows.shape) < 0.1] = np.nan
        return rows, diabetes[1]
    if name == "codes":
        codes = rng.integers(0, 5, (300, 3))
        return codes, codes.sum(1) + 0.5
    if name == "sentences":
        return np.array(SENTENCES * 8), np.arange(ROWS) % 2
    loaders: dict[str, Any] = {
        "iris": datasets.load_iris, "digits": datasets.load_digits,
        "cancer": datasets.load_breast_cancer, "diabetes": datasets.load_diabetes,
    }  # fmt: skip
    return loaders[name](return_X_y=True)


def make_classical() -> Iterator[Made | str]:
    """Fits and converts each, or says why its converter refuses it."""
    warnings.simplefilter("ignore")
    np.random.seed(0)
    for name, each in CLASSICAL.items():
        try:
            yield name, *_made(each)
        except Exception as error:  # a converter's own failure, of which there are many types
            yield f"{name}: not made, {type(error).__name__}: {error}".splitlines()[0][:200]


def _made(each: Classical) -> tuple[bytes, dict[str, Array]]:
    rows, targets = _data(each.data)
    model = each.make().fit(_typed(rows, each), targets)
    first = _typed(rows[:: max(1, len(rows) // ROWS)][:ROWS], each)
    return converted(model, first, each.options).SerializeToString(), {"X": first}


def _typed(rows: Array, each: Classical) -> Array:
    if rows.dtype.kind in "US":
        return rows
    if rows.dtype.kind == "i":
        return rows.astype(np.int64)
    return rows.astype(np.float64 if each.double else np.float32)


def converted(model: Any, rows: Array, options: Mapping[str, Any] | None = None) -> Any:
    """The ONNX model of a fitted estimator, by the converter of its package."""
    boosted: list[Any] = [("X", more_types.FloatTensorType([None, rows.shape[-1]]))]
    if isinstance(model, xgboost.XGBModel):
        return convert_xgboost(model, initial_types=boosted, target_opset=15)
    if isinstance(model, lightgbm.LGBMModel):
        zipmap = (options or {}).get("zipmap", True)
        return convert_lightgbm(model, initial_types=boosted, target_opset=15, zipmap=zipmap)
    if rows.dtype.kind == "U":
        types = [("X", StringTensorType([None]))]
        return to_onnx(model, initial_types=types)
    named = {id(model): dict(options)} if options else None
    return to_onnx(model, rows[:1], options=named, target_opset=OPSETS)
