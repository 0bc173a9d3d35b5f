"""Run with: python -m pytest my_steps_test.py"""

import my_steps

from kgqa_hpc.testing import Reject, item, run_step


def test_the_words_of_a_question_are_counted():
    pair = item(question="Who directed Solaris?", answer="Tarkovsky.")
    run_step(my_steps.question_length, pair)
    assert pair.annotations == {"words": 3}


def test_a_short_question_is_rejected():
    outcome = run_step(my_steps.question_length, item(question="Who?", answer="Tarkovsky."))
    assert outcome == Reject("question_length: shorter than three words")
