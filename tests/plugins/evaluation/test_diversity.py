"""Diversity measures equal their definitions and references, and order varied above repetitive text."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgqa_hpc.plugins.evaluation.diversity import distinct_n, self_bleu, type_token_curve, vendi_score, words
from kgqa_hpc.plugins.evaluation.topic import find_topics, spherical_k_means, tf_idf

TEXTS = ("the cat sat", "the cat ran", "a dog sat on the mat", "The DOG, sat!")


def test_distinct_n_counts_different_over_all() -> None:
    assert distinct_n(TEXTS, 1) == pytest.approx(8 / 15)
    assert distinct_n(["a b", "a b", "a c"], 2) == pytest.approx(2 / 3)
    assert distinct_n(["a"], 2) is None
    assert distinct_n([], 1) is None


def test_words_are_lower_case_and_keep_greek() -> None:
    assert words("IL-1β and α-Synuclein") == ["il", "1β", "and", "α", "synuclein"]


def test_the_curve_ends_at_the_type_token_ratio_whatever_the_order() -> None:
    for seed in (0, 1):
        curve = type_token_curve(TEXTS, points=10, seed=seed)
        assert curve[-1] == (15, pytest.approx(8 / 15))
        assert [tokens for tokens, _ in curve] == sorted(tokens for tokens, _ in curve)
    assert type_token_curve([]) == []


def test_templates_fall_below_varied_text() -> None:
    rng = random.Random(1)
    names = [f"p{i}" for i in range(30)]
    template = [f"what is the function of the protein {rng.choice(names)}" for _ in range(300)]
    varied = [" ".join(f"w{rng.randint(0, 3000)}" for _ in range(9)) for _ in range(300)]
    assert type_token_curve(template)[-1][1] < 0.02 < type_token_curve(varied)[-1][1]
    assert (self_bleu(template) or 0) > 80 > 30 > (self_bleu(varied) or 0)
    low, high = (vendi_score(tf_idf(texts)[0].toarray()) for texts in (template, varied))
    assert low is not None
    assert high is not None
    assert low < high


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text("abc ", min_size=1, max_size=20).filter(str.strip), min_size=2, max_size=8))
def test_self_bleu_equals_sacrebleu_against_all_others(texts: list[str]) -> None:
    from sacrebleu.metrics.bleu import BLEU

    bleu = BLEU(effective_order=True, tokenize="none")
    tokens = [" ".join(words(text)) for text in texts]
    expected = [bleu.sentence_score(t, tokens[:i] + tokens[i + 1 :]).score for i, t in enumerate(tokens)]
    assert self_bleu(texts) == pytest.approx(np.mean(expected))


def test_self_bleu_of_one_text_is_undefined_and_a_sample_is_seeded() -> None:
    assert self_bleu(["a b c"]) is None
    texts = [f"a b c {i} {i % 3}" for i in range(50)]
    assert self_bleu(texts, sample=10, seed=1) == self_bleu(texts, sample=10, seed=1)


def test_vendi_is_one_for_equal_and_n_for_orthogonal_rows() -> None:
    assert vendi_score(np.ones((5, 3))) == pytest.approx(1)
    assert vendi_score(np.eye(7)) == pytest.approx(7)
    half = np.vstack([np.eye(2)[[0] * 10], np.eye(2)[[1] * 10]])
    assert vendi_score(half) == pytest.approx(2)
    assert vendi_score(np.zeros((3, 2))) is None


def test_vendi_is_the_same_from_either_gram_matrix() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 40))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    values = np.linalg.eigvalsh(unit @ unit.T / 12)
    values = values[values > 1e-12]
    expected = np.exp(-(values * np.log(values)).sum())
    assert vendi_score(rows) == pytest.approx(expected)
    assert vendi_score(rows[:, :5]) == pytest.approx(
        vendi_score(np.hstack([rows[:, :5], np.zeros((12, 30))]))
    )


PLANTED = {
    "heart": ["heart", "cardiac", "ventricle", "atrial", "valve"],
    "brain": ["neuron", "synapse", "cortex", "dopamine", "axon"],
    "gut": ["intestine", "colon", "microbiota", "bile", "gastric"],
}


def test_planted_topics_are_found_with_their_terms_and_the_same_again() -> None:
    rng = random.Random(3)
    truth = [name for name in PLANTED for _ in range(40)]
    texts = [f"what is the role of {' '.join(rng.sample(PLANTED[name], 3))}" for name in truth]
    found = find_topics(texts, 3, seed=1)
    assert found.sizes == (40, 40, 40)
    assert all(len({found.labels[i] for i, t in enumerate(truth) if t == name}) == 1 for name in PLANTED)
    assert {frozenset(terms) for terms in found.terms} == {frozenset(v) for v in PLANTED.values()}
    assert found.effective == pytest.approx(3)
    again = find_topics(texts, 3, seed=1)
    assert np.array_equal(found.labels, again.labels)


def test_fewer_different_texts_than_topics_give_fewer_topics() -> None:
    found = find_topics(["heart valve"] * 5 + ["brain cortex"] * 3, 22)
    assert found.sizes == (5, 3)
    assert found.effective < 2


def test_vectors_of_a_model_may_be_clustered() -> None:
    rng = np.random.default_rng(4)
    rows = np.vstack([rng.normal(centre, 0.05, (20, 3)) for centre in np.eye(3)])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    labels = spherical_k_means(rows, 3, seed=2)
    assert sorted(np.bincount(labels)) == [20, 20, 20]
    with pytest.raises(ValueError, match="need texts"):
        spherical_k_means(np.empty((0, 3)), 2)
