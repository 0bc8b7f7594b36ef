"""A grid search of scikit-learn on a crew, through joblib: two lines more than without.

Start a crew with `gandy up` in another terminal, then run `python examples/grid_search.py`. Workers need scikit-learn.
"""

import sys

import joblib
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

import gandy.joblib  # noqa: F401 - joblib knows the backend "gandy" from here on
from gandy.errors import LinkError


def main() -> None:
    flowers = load_iris()
    search = GridSearchCV(SVC(), {"C": [0.1, 1, 10, 100], "gamma": [0.001, 0.01, 0.1, 1]}, cv=5)
    with joblib.parallel_config("gandy", retries=2):
        search.fit(flowers.data, flowers.target)
    print(f"{len(search.cv_results_['params'])} candidates, each tried on {search.n_splits_} parts")
    print(f"the best is {search.best_params_}: {search.best_score_:.1%} right")


if __name__ == "__main__":
    try:
        main()
    except LinkError as error:
        sys.exit(str(error))  # it says how to start a crew
