"""Statistics of human ratings: means, shares, distributions, accepted against rejected pairs, and agreement; figures.

The statistics are those that BioGraphletQA publishes (section 4.3 and Appendix G). A mean is over ratings; minimum and
average are over the three criteria of the answer, for ratings that have all three.

Figures are SVG files by matplotlib (the extra `report`): the same data give the same bytes, and text is stored as text,
not as outlines. The figures of ratings, after BioGraphletQA's Figures 8 and 12, are a box plot, violins, and minimum
and average with reverse cumulation; they compare accepted with rejected pairs if the ratings say which is which.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from kgqa_hpc.errors import InputError
from kgqa_hpc.plugins.evaluation import agreement
from kgqa_hpc.plugins.evaluation.agreement import Floats
from kgqa_hpc.plugins.evaluation.ratings import ACCEPTABLE, ANSWER_CRITERIA, HIGHEST, LOWEST, Ratings
from kgqa_hpc.store.atomic import make_folder, write_file
from kgqa_hpc.text.plain_text import aligned, plain_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = tuple(range(LOWEST, HIGHEST + 1))
GROUPS = ("all", "accepted", "rejected")
Groups = Mapping[str, pd.DataFrame]
_NOTE = (
    "Average of the three answer scores >= 3: {}, and {} when each average is rounded to a whole number first, "
    "as in the published figure."
)


def analyse(ratings: Ratings, model: Ratings | None = None, *, seed: int = 0) -> dict[str, Any]:
    """The whole analysis as plain data.

    `model` are ratings by a language model: they count as one more annotator in the agreement, and in no mean.
    `accepted` and `rejected` are None if the ratings do not say whether their items were accepted.
    """
    groups, rated = rating_groups(ratings), ratings.rated
    scores = groups["all"]
    weights = pd.Series([row.weight for row in rated], dtype=float)
    ids = pd.Series([row.id for row in rated], dtype=object)
    answer = {name: _answer_scores(group, ids, seed) for name, group in groups.items()}
    size, counts = answer["all"]["ratings"], answer["all"]["count_3"]
    shares = [f"{n} of {size} ({100 * n / (size or 1):.2f} %)" for n in counts.values()]
    details = {name: _details(group, weights[group.index], ids, seed) for name, group in groups.items()}
    return {
        "items": len({row.id for row in ratings.rows}),
        "ratings": len(ratings.rows),
        "rated": len(rated),
        "not_rated": len(ratings.rows) - len(rated),
        "not_qualified": sum(row.not_qualified for row in ratings.rows),
        "annotators": {name: sum(row.annotator == name for row in rated) for name in ratings.annotators},
        "criteria": list(ratings.criteria),
        **{name: _means(groups[name]) if name in groups else None for name in GROUPS},
        "share_3": _means((scores >= ACCEPTABLE).where(scores.notna())),
        "by_group": details,
        "answer": {name: answer.get(name) for name in GROUPS},
        "accepted_against_rejected": _compared(groups, ids),
        "agreement": _agreed(ratings, model, seed),
        "notes": [_NOTE.format(*shares[1:])] if size else [],
    }


def rating_groups(ratings: Ratings) -> dict[str, pd.DataFrame]:
    """Scores of all rated rows, and of the accepted and rejected ones if known; one column per criterion."""
    scores = ratings.scores.reset_index(drop=True)
    if all(row.accepted is None for row in ratings.rows):
        return {"all": scores}
    accepted = pd.Series([row.accepted for row in ratings.rated], dtype=object)
    return {"all": scores, "accepted": scores[accepted.eq(True)], "rejected": scores[accepted.eq(False)]}


def _answer_kinds(scores: pd.DataFrame) -> pd.DataFrame:
    """Minimum, average and rounded average over the answer's three criteria, of the ratings that have all three."""
    whole = scores.reindex(columns=list(ANSWER_CRITERIA)).dropna()
    average, lowest = whole.sum(axis=1) / len(ANSWER_CRITERIA), whole.min(axis=1)
    return pd.DataFrame({"minimum": lowest, "average": average, "rounded_average": np.rint(average)})


def _mean(values: pd.Series, ids: pd.Series, seed: int) -> dict[str, Any]:
    """The mean of ratings with its interval; a resample draws an item with all its ratings."""
    sums = values.groupby(ids[values.index], sort=False).agg(["sum", "size"]).to_numpy(np.float64)
    return agreement.estimate(lambda weights: agreement.ratio(*(weights @ sums).T), len(sums), seed=seed)


def _means(scores: pd.DataFrame) -> dict[str, float | None]:
    """The mean of each column, None without a value."""
    return {str(name): None if np.isnan(mean) else float(mean) for name, mean in scores.mean().items()}


def _answer_scores(scores: pd.DataFrame, ids: pd.Series, seed: int) -> dict[str, Any]:
    """Means and shares of the three scores of an answer (Figure 12)."""
    kinds = _answer_kinds(scores)
    reached = {level: kinds >= level for level in LEVELS}
    shares = {level: _means(rows) for level, rows in reached.items()}
    return {
        "ratings": len(kinds),
        "mean": _means(kinds),
        "count_3": reached[ACCEPTABLE].sum().to_dict(),
        "share_3": shares[ACCEPTABLE],
        "share_3_minimum_interval": _mean(reached[ACCEPTABLE]["minimum"], ids, seed),
        "at_least": {kind: {str(level): shares[level][kind] for level in LEVELS} for kind in map(str, kinds)},
    }


def _details(scores: pd.DataFrame, weights: pd.Series, ids: pd.Series, seed: int) -> dict[str, Any]:
    details = {}
    for name in map(str, scores):
        values = scores[name].dropna()
        details[name] = {
            "ratings": len(values),
            "mean": _mean(values, ids, seed),
            "sd": float(values.std(ddof=0)) if len(values) else None,
            "minimum": float(values.min()) if len(values) else None,
            "share_3": _mean(values >= ACCEPTABLE, ids, seed),
            "distribution": {str(k): int((np.rint(values) == k).sum()) for k in LEVELS},
        }
    weighted = None  # means for the whole dataset, if all ratings have weights (from the key of the sample)
    if len(scores) and (weights > 0).all():
        means = scores.mul(weights, axis=0).sum() / scores.notna().mul(weights, axis=0).sum()
        weighted = {str(name): float(mean) for name, mean in means.dropna().items()}
    return {"rated": len(scores), "criteria": details, "weighted_mean": weighted}


def _compared(groups: Groups, ids: pd.Series) -> dict[str, Any] | None:
    """Mann-Whitney and Cliff's delta of accepted against rejected, for each criterion and the minimum.

    Ratings of one item are not independent, so each item counts once, with the mean of its ratings.
    """
    sides = []
    for ratings in (groups[name] for name in GROUPS[1:] if name in groups):
        lowest = _answer_kinds(ratings)["minimum"]
        sides.append(ratings.assign(**{"minimum of the answer": lowest}).groupby(ids[ratings.index]).mean())
    if not sides or any(side.empty for side in sides):
        return None
    results = {}
    for name in map(str, sides[0]):
        pair = [side[name].dropna() for side in sides]
        if all(map(len, pair)):
            results[name] = dict(zip(("u", "p", "cliffs_delta"), agreement.rank_test(*pair), strict=True))
    return results


def _agreed(ratings: Ratings, model: Ratings | None, seed: int) -> dict[str, Any] | None:
    """Agreement between annotators on each criterion, ordinal; None with one annotator."""
    scores = ratings.scores
    if model:
        new_names = {name: f"{name} (model)" for name in ratings.annotators}
        scores = pd.concat([scores, model.scores.rename(new_names, level="annotator")])
    items, judges = scores.index.unique("id"), scores.index.unique("annotator")
    if len(judges) < 2:
        return None
    results = {}
    for name in ratings.criteria:
        table = scores[name].unstack("annotator").reindex(index=items, columns=judges)
        values = sorted({*LEVELS, *scores[name].dropna()})
        rows = table.astype(object).where(table.notna(), None).to_numpy().tolist()
        votes = agreement.make_votes(rows, list(judges), values)
        results[name] = agreement.agreement_table(votes, "ordinal", seed=seed)
    return results


def render(document: dict[str, Any]) -> str:
    """The result of `analyse` as text."""
    groups = [name for name in GROUPS if document[name] is not None]
    raters = ", ".join(f"{plain_line(name)} {rated:,}" for name, rated in document["annotators"].items())
    rows: list[tuple[object, ...]] = [
        ("criterion", "group", "n", "mean", "95 % interval", "min", ">= 3", *(f"= {k}" for k in LEVELS))
    ]
    for name in document["criteria"]:
        for group in groups:
            row = document["by_group"][group]["criteria"][name]
            mean = row["mean"]
            interval = "" if mean["low"] is None else f"[{mean['low']:.3f}, {mean['high']:.3f}]"
            lowest, share = _number(row["minimum"], 0), _percent(row["share_3"]["value"])
            cells = (row["ratings"], _number(mean["value"]), interval, lowest, share)
            rows.append((name, group, *cells, *row["distribution"].values()))
    lines = [
        f"{document['rated']:,} of {document['ratings']:,} rated ({document['not_qualified']:,} not "
        f"qualified), {document['items']:,} items; annotators: {raters}",
        "",
        *aligned(rows),
        "",
    ]
    if weighted := document["by_group"]["all"]["weighted_mean"]:
        means = ", ".join(f"{plain_line(name)} {mean:.3f}" for name, mean in weighted.items())
        lines += [f"means of all accepted and rejected pairs, by weight: {means}", ""]
    for group in groups:
        answer = document["answer"][group]
        if answer["ratings"]:
            lines.append(
                f"answer, {group}: minimum of the three scores >= 3 in {answer['count_3']['minimum']} of "
                f"{answer['ratings']} ({_percent(answer['share_3']['minimum'])}), "
                f"mean {_number(answer['mean']['minimum'])}; "
                f"average >= 3 in {_percent(answer['share_3']['average'])}"
            )
    if compared := document["accepted_against_rejected"]:
        rows = [(name, f"{row['p']:.3g}", f"{row['cliffs_delta']:+.2f}") for name, row in compared.items()]
        lines += ["", "accepted against rejected (Mann-Whitney, two-sided; Cliff's delta):"]
        lines += aligned([("criterion", "p", "delta"), *rows])
    if agreed := document["agreement"]:
        rows = [("criterion", "items", "alpha (ordinal)", "Fleiss", "AC1")]
        for name, row in agreed.items():
            texts = (
                agreement.interval_text(row[key])
                for key in ("krippendorff_alpha", "fleiss_kappa", "gwet_ac1")
            )
            rows.append((name, row["voted_twice"], *texts))
        lines += ["", "agreement between annotators (95 % intervals):", *aligned(rows)]
    return "\n".join([*lines, *(["", *document["notes"]] if document["notes"] else [])])


def _number(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


ACCEPTED, REJECTED, NEUTRAL = "#2a7f62", "#d9a441", "#4a6fa5"
COLOURS = {"all": NEUTRAL, "accepted": ACCEPTED, "rejected": REJECTED}
TEXT_COLOURS = {"all": "#2f4a73", "accepted": "#1d5c47", "rejected": "#7a5510"}  # dark enough for text
_DIAMOND = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": "black", "markersize": 4}
# Options of a box plot: the median is a black line, the mean a diamond.
MEDIAN_AND_MEAN: Any = {"showmeans": True, "medianprops": {"color": "black"}, "meanprops": _DIAMOND}
SMALL: Any = {"textcoords": "offset points", "fontsize": 7}
_STYLE: Any = {"svg.fonttype": "none", "svg.hashsalt": "kgqa", "font.size": 9, "text.parse_math": False}


@contextmanager
def svg_figure(path: Path, *, width: float, height: float = 3.4) -> Iterator[Figure]:
    """A figure of width x height inches to draw on, written as SVG when the block ends.

    Raises InputError when matplotlib is missing, DiskFull or StoreError.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        problem = "figures need matplotlib, which is not installed"
        raise InputError(problem, "pip install 'kgqa_hpc[report]'") from None
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        for axes in figure.axes:
            axes.spines[["top", "right"]].set_visible(False)
        out = io.BytesIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    write_file(path, out.getvalue())


def rating_figures(ratings: Ratings, folder: Path) -> list[Path]:
    """Write boxplot.svg, violins.svg and answer_scores.svg into `folder`; returns their paths.

    Raises InputError when no item is rated.
    """
    groups = rating_groups(ratings)
    if groups["all"].empty:
        raise InputError("no item is rated, so there is nothing to draw", "leave out --out")
    make_folder(folder)
    sides = {name: rows for name, rows in groups.items() if len(rows) and (len(groups) == 1 or name != "all")}
    paths = [folder / name for name in ("boxplot.svg", "violins.svg", "answer_scores.svg")]
    for path, draw in zip(paths, (_box, _violin), strict=False):
        with svg_figure(path, width=1.2 + 1.5 * len(ratings.criteria)) as figure:
            _criteria(figure, sides, ratings.criteria, draw)
    with svg_figure(paths[2], width=8.4) as figure:
        _answer(figure, sides)
    return paths


def _box(axes: Axes, values: Floats, position: float, width: float, name: str) -> None:
    box: Any = {"boxprops": {"facecolor": COLOURS[name], "alpha": 0.55}, "patch_artist": True}
    axes.boxplot(values, positions=[position], widths=width * 0.85, label=name, **box, **MEDIAN_AND_MEAN)


def _violin(axes: Axes, values: Floats, position: float, width: float, name: str) -> None:
    width *= 0.95
    if len(np.unique(values)) > 1:  # the density estimate needs two different values
        parts: Any = axes.violinplot(values, positions=[position], widths=width, showextrema=False)
        for body in parts["bodies"]:
            body.set(facecolor=COLOURS[name], alpha=0.55)
    axes.plot([position], [values.mean()], marker="D", color="black", markersize=4)
    axes.hlines(np.median(values), position - width / 4, position + width / 4, color="black", linewidth=1)


def _criteria(figure: Figure, groups: Groups, criteria: Sequence[str], draw: Callable[..., None]) -> None:
    """One drawing for each criterion and group, groups side by side."""
    from matplotlib.patches import Patch

    axes = figure.subplots()
    width = 0.8 / len(groups)
    for i, criterion in enumerate(criteria):
        for j, (name, scores) in enumerate(groups.items()):
            values = scores[criterion].dropna().to_numpy()
            if len(values):
                draw(axes, values, i + (j - (len(groups) - 1) / 2) * width, width, name)
    axes.set_xticks(range(len(criteria)), [textwrap.fill(name, 18) for name in criteria])
    axes.set(xlim=(-0.6, len(criteria) - 0.4), ylim=(0.7, 5.3), yticks=LEVELS, ylabel="score")
    axes.axhline(3, color="#999", linewidth=0.8, linestyle=":")
    if len(groups) > 1:
        labels = {name: f"{name} (n = {len(scores)})" for name, scores in groups.items()}
        handles = [Patch(facecolor=COLOURS[name], alpha=0.55, label=label) for name, label in labels.items()]
        axes.legend(handles=handles, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _answer(figure: Figure, groups: Groups) -> None:
    """Minimum and rounded average of the answer's three scores as bars, and the share of pairs at or above a score."""
    panels: Any = figure.subplots(1, 2, sharey=True)
    by_group = {name: _answer_kinds(scores) for name, scores in groups.items()}
    width = 0.8 / len(groups)
    for axes, kind in zip(panels, ("minimum", "rounded_average"), strict=True):
        rated = [(name, kinds[kind]) for name, kinds in by_group.items() if len(kinds)]
        for j, (name, scores) in enumerate(rated):
            positions = np.array(LEVELS) + (j - (len(groups) - 1) / 2) * width
            shares = [100 * float((scores == k).mean()) for k in LEVELS]
            label = f"{name} (n = {len(scores)})"
            axes.bar(positions, shares, width=width, color=COLOURS[name], alpha=0.55, label=label)
            cumulated = [100 * float((scores >= k).mean()) for k in LEVELS]
            axes.plot(LEVELS, cumulated, color=COLOURS[name], marker="o", markersize=4)
            # Labels of the first group stand above and right of its points, labels of the second below and left.
            offset, side = ((4, 3), "left") if j == 0 else ((-4, -9), "right")
            look: Any = {**SMALL, "ha": side, "color": TEXT_COLOURS[name]}
            for level, share in zip(LEVELS, cumulated, strict=True):
                axes.annotate(f"{share:.1f}", (level, share), offset, **look)
        axes.set_title(f"{kind.replace('_', ' ')} of the three answer scores", fontsize=9, pad=18)
        label = "score (line: share with at least this score)"
        axes.set(xlabel=label, ylim=(0, 118), yticks=range(0, 101, 20))
    panels[0].set_ylabel("% of ratings")
    if len(groups) > 1:
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)
